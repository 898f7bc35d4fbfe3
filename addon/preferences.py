"""The add-on's preferences: where the engine's Python is."""

from __future__ import annotations

from typing import Any

import bpy

PACKAGE = __package__ or ""
"""The add-on's module name: ``addon`` in a checkout, ``bl_ext.REPOSITORY.splatfit`` where it is installed."""


def make_class() -> Any:
    """Returns the class to register."""
    preferences: Any = type(
        "SPLATFIT_AP_preferences",
        (bpy.types.AddonPreferences,),
        {"__doc__": "Preferences of Splatfit.", "bl_idname": PACKAGE, "draw": _draw},
    )
    preferences.__annotations__ = {
        "engine_python": bpy.props.StringProperty(
            name="Engine Python",
            description="Python with torch and splat-engine; empty: $SPLATFIT_ENGINE_PYTHON, else a checkout's own",
            subtype="FILE_PATH",
            default="",
        )
    }
    return preferences


def _draw(self: Any, context: bpy.types.Context) -> None:
    column = self.layout.column()
    column.prop(self, "engine_python")
    column.operator("splatfit.check_engine", icon="CHECKMARK")


def engine_python() -> str:
    """Returns the engine's Python as the preferences name it; "" if they do not, or the add-on is not enabled."""
    addon = bpy.context.preferences.addons.get(PACKAGE)  # type: ignore[union-attr]
    chosen = getattr(addon.preferences, "engine_python", "") if addon is not None else ""
    return bpy.path.abspath(chosen) if chosen else ""
