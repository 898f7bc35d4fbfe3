"""The add-on's preferences: where the engine's Python is, and where its packages may come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy

from .. import package


def make_class(draw_engine: Callable[[Any], None]) -> Any:
    """Returns the class to register.

    Args:
        draw_engine: Draws into a layout what there is to say about the engine.
    """

    def draw(self: Any, context: bpy.types.Context) -> None:
        column = self.layout.column()
        draw_engine(column)
        column.prop(self, "engine_python")
        column.prop(self, "wheel_folder")

    preferences: Any = type(
        "SPLATFIT_AP_preferences",
        (bpy.types.AddonPreferences,),
        {"__doc__": "Preferences of Splatfit.", "bl_idname": package.NAME, "draw": draw},
    )
    preferences.__annotations__ = {
        "engine_python": bpy.props.StringProperty(
            name="Engine Python",
            description="A Python of your own with torch and splat-engine. Empty: $SPLATFIT_ENGINE_PYTHON, else the "
            "one that Set Up the Engine makes, else a checkout's",
            subtype="FILE_PATH",
            default="",
        ),
        "wheel_folder": bpy.props.StringProperty(
            name="Package Folder",
            description="Folder with downloaded Python packages, for machines that may not or cannot go online. "
            "Empty: the engine is set up from the network",
            subtype="DIR_PATH",
            default="",
        ),
    }
    return preferences


def own() -> Any:
    """Returns the add-on's preferences; None where it is not enabled as an add-on."""
    addon = bpy.context.preferences.addons.get(package.NAME)  # type: ignore[union-attr]
    return None if addon is None else addon.preferences


def wheel_folder() -> str:
    """Returns the folder of downloaded packages; "" for none."""
    chosen = getattr(own(), "wheel_folder", "")
    return bpy.path.abspath(chosen) if chosen else ""


def engine_python() -> str:
    """Returns the engine's Python as the preferences name it; "" if they do not, or the add-on is not enabled."""
    chosen = getattr(own(), "engine_python", "")
    return bpy.path.abspath(chosen) if chosen else ""
