"""The panels with every setting, generated from the declarations."""

from __future__ import annotations

from typing import Any

import bpy

from splat_engine.formats.settings import RUN_PREFIXES, declarations

from .. import properties, running
from .sidebar import Sidebar


class _SettingsPanel(Sidebar):
    """Every setting of some groups, as they are declared."""

    bl_parent_id = "SPLATFIT_PT_main"
    bl_options: Any = {"DEFAULT_CLOSED"}
    groups: tuple[str, ...] = ()
    directory = ""

    def draw(self, context: Any) -> None:
        """Draws the settings in the order of their declaration."""
        chosen = context.scene.splatfit
        column = self.layout.column()
        column.use_property_split = True
        column.enabled = not running.is_busy()
        column.prop(chosen, self.directory)
        for group in self.groups:
            for name in declarations(properties.GROUPS[group]):
                column.prop(getattr(chosen, group), name)
            column.separator()


class SPLATFIT_PT_capture(_SettingsPanel, bpy.types.Panel):
    """All of the capture's settings."""

    bl_label = "Capture Settings"
    bl_idname = "SPLATFIT_PT_capture"
    groups = ("capture",)
    directory = "capture_directory"


class SPLATFIT_PT_fit(_SettingsPanel, bpy.types.Panel):
    """All of the fit's settings."""

    bl_label = "Fit Settings"
    bl_idname = "SPLATFIT_PT_fit"
    groups = tuple(RUN_PREFIXES)
    directory = "run_directory"


CLASSES = (SPLATFIT_PT_capture, SPLATFIT_PT_fit)
