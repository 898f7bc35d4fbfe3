"""The panels with every setting, generated from the declarations; closed at first."""

from __future__ import annotations

from typing import Any

import bpy

from splat_engine.formats.settings import declarations

from ..runs import running
from ..settings import properties
from .sidebar import Sidebar

LABELS = {
    "capture": "Views",
    "start": "First Splats",
    "fit": "Fit",
    "densify": "Growth",
    "loss": "What Counts",
    "schedule": "Schedule",
    "optimizer": "Learning Rates",
    "tidy": "Clean-Up",
}
"""Group of settings to its panel's name, in the order of the panels."""
_SHOWN_ABOVE = {("capture", "rig"), ("capture", "target"), ("capture", "faces"), ("fit", "preset")}
"""The main panel has something better for them."""


class SPLATFIT_PT_advanced(Sidebar, bpy.types.Panel):
    """Holds a panel for each group of settings."""

    bl_label = "Advanced"
    bl_idname = "SPLATFIT_PT_advanced"
    bl_parent_id = "SPLATFIT_PT_main"
    bl_options: Any = {"DEFAULT_CLOSED"}

    def draw(self, context: Any) -> None:
        """Draws what belongs to no group."""
        column = self.layout.column()
        column.use_property_split, column.use_property_decorate = True, False
        for name in ("capture_directory", "run_directory"):
            column.prop(context.scene.splatfit, name, placeholder="Beside the file")
        column.prop(context.scene.splatfit, "render_in_place")


class _SettingsPanel(Sidebar):
    """Every setting of a group, as they are declared."""

    bl_parent_id = "SPLATFIT_PT_advanced"
    bl_options: Any = {"DEFAULT_CLOSED"}
    group = ""
    names: tuple[str, ...] = ()

    def draw(self, context: Any) -> None:
        """Draws the settings in the order of their declaration."""
        chosen = context.scene.splatfit
        column = self.layout.column()
        column.use_property_split, column.use_property_decorate = True, False
        column.enabled = not running.is_busy()
        group = getattr(chosen, self.group)
        for name in self.names:
            column.prop(group, name)


def _panel_of(group: str, label: str) -> Any:
    name = f"SPLATFIT_PT_{group}"
    names = [item for item in declarations(properties.GROUPS[group]) if (group, item) not in _SHOWN_ABOVE]
    values = {"bl_idname": name, "bl_label": label, "group": group, "names": tuple(names)}
    values["__doc__"] = f"All settings of the group {group}."
    return type(name, (_SettingsPanel, bpy.types.Panel), values)


CLASSES = (SPLATFIT_PT_advanced, *(_panel_of(group, label) for group, label in LABELS.items()))
