"""Presets of all settings, in Blender's own preset system: files in the folder presets/splatfit of the user, and ours beside.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from typing import Any

import bpy
from bl_operators.presets import AddPresetBase

from splat_engine.formats.settings import declarations

from .. import package
from ..settings.properties import GROUPS

SUBDIRECTORY = "splatfit"
_OF_ONE_SCENE = {("capture", "target"), ("capture", "faces")}
"""Names of objects: no other scene has them."""


def preset_values() -> list[str]:
    """Returns what a preset holds; the quality's name first, for it sets others."""
    first = "chosen.fit.preset"
    names = [
        f"chosen.{group}.{name}"
        for group, settings in GROUPS.items()
        for name in declarations(settings)
        if (group, name) not in _OF_ONE_SCENE
    ]
    return [first, *(name for name in names if name != first), "chosen.is_custom"]


class SPLATFIT_MT_presets(bpy.types.Menu):
    """The presets by name"""

    bl_idname = "SPLATFIT_MT_presets"
    bl_label = "Presets"
    preset_subdir = SUBDIRECTORY
    preset_operator = "script.execute_preset"
    draw: Any = bpy.types.Menu.draw_preset


class SPLATFIT_OT_add_preset(AddPresetBase, bpy.types.Operator):  # type: ignore[misc]  # the stubs know no such base
    """Keep all settings under a name, or remove such a name"""

    bl_idname = "splatfit.add_preset"
    bl_label = "Add Splatfit Preset"
    preset_menu = "SPLATFIT_MT_presets"
    preset_subdir = SUBDIRECTORY
    preset_defines = ["chosen = bpy.context.scene.splatfit"]  # noqa: RUF012  # Blender's own way

    @property
    def preset_values(self) -> list[str]:
        """What is kept."""
        return preset_values()


CLASSES = (SPLATFIT_MT_presets, SPLATFIT_OT_add_preset)

_FOLDER = str(package.FOLDER / "settings")
"""Our own presets are in its ``presets/splatfit``."""
_is_told = False


def register() -> None:
    """Tells Blender where our own presets are."""
    global _is_told
    _is_told = bpy.utils.register_preset_path(_FOLDER) or _is_told


def unregister() -> None:
    """Takes that back; does nothing where it was not told."""
    global _is_told
    if _is_told:
        bpy.utils.unregister_preset_path(_FOLDER)
    _is_told = False
