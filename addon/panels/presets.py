"""The popover with the presets, in the main panel's header."""

from __future__ import annotations

from typing import Any

import bpy
from bl_ui.utils import PresetPanel

from ..operators.presets import SUBDIRECTORY


class SPLATFIT_PT_presets(PresetPanel, bpy.types.Panel):  # type: ignore[misc]  # the stubs know no such base
    """Presets of all settings: apply, add, remove."""

    bl_label = "Splatfit Presets"
    bl_space_type: Any = "VIEW_3D"
    bl_region_type: Any = "HEADER"
    preset_subdir = SUBDIRECTORY
    preset_operator = "script.execute_preset"
    preset_add_operator = "splatfit.add_preset"


CLASSES = (SPLATFIT_PT_presets,)
