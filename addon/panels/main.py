"""The main panel: what is fitted, from where, how well, and the button; while it runs, how far it is."""

from __future__ import annotations

from typing import Any

import bpy

from ..capture.plan import SURROUNDINGS
from ..display import rig_overlay, test_view
from ..display.layouts import draw_text, line_characters
from ..runs import running
from ..settings import choices, target_size
from . import progress, runs
from .presets import SPLATFIT_PT_presets
from .sidebar import Sidebar

RIG_SETTINGS = {
    "sphere": ("views", "lens_mm", "distance"),
    "dome": ("views", "lens_mm", "distance"),
    "ring": ("views", "elevation_deg", "lens_mm", "distance"),
    "inside": ("views", "lens_mm"),
    "faces": ("faces_look", "views", "lens_mm"),
    "scene": ("frames",),
    "selected": ("frames",),
    "active": ("frames",),
    "markers": ("frames",),
}
"""Rig to the settings that are asked for most."""
AUTOMATIC_AT_0 = {"lens_mm": "Lens", "distance": "Distance"}
"""Settings that are chosen for the person at 0, with their names."""
_PICTURE_SCALE = 6.0


class SPLATFIT_PT_main(Sidebar, bpy.types.Panel):
    """Target, cameras, quality and the button; or what is going on."""

    bl_label = "Splatfit"
    bl_idname = "SPLATFIT_PT_main"

    def draw_header_preset(self, context: Any) -> None:
        """Draws the button with the presets."""
        if not running.is_busy():
            SPLATFIT_PT_presets.draw_panel_header(self.layout)

    def draw(self, context: Any) -> None:
        """Draws settings and buttons, or the progress of what runs."""
        layout, job, width = self.layout, running.current(), line_characters(context)
        if running.is_busy() and job is not None:
            progress.draw(layout, job, context.scene, width)
            return
        runs.draw_unfinished(layout, context)
        sections = ((_draw_target, "Target"), (_draw_cameras, "Cameras"), (_draw_quality, "Quality"))
        for draw_section, label in sections:
            header, body = layout.panel(f"SPLATFIT_{label.lower()}")
            header.label(text=label)
            if body is not None:
                draw_section(body.column(), context.scene, width)
        buttons = layout.column(align=True)
        large = buttons.row(align=True)
        large.scale_y = 1.6
        large.operator("splatfit.fit", text="Fit", icon="PLAY")
        buttons.operator("splatfit.capture", text="Render Views Only", icon="RENDER_STILL")
        if job is not None:
            progress.draw_ending(layout, job, width)


def _draw_target(layout: Any, scene: Any, width: int) -> None:
    chosen = scene.splatfit
    layout.row(align=True).prop(chosen, "target_kind", expand=True)
    if chosen.target_kind == "OBJECT":
        layout.prop(chosen, "target_object", text="")
    elif chosen.target_kind == "COLLECTION":
        layout.prop(chosen, "target_collection", text="")
    elif chosen.capture.target:
        layout.prop(chosen.capture, "target", text="Named")
    if chosen.target_kind != "SCENE" and choices.chosen_target(chosen) is None:
        if chosen.target_kind == "OBJECT" and chosen.target_object is not None:
            layout.label(text="Not in this scene", icon="ERROR")
        return
    found = target_size.of(scene)
    layout.label(text=target_size.in_words(scene, found), icon="CUBE")
    if found is not None and found.backdrops:
        more = f" and {len(found.backdrops) - 2} more" if len(found.backdrops) > 2 else ""
        draw_text(layout, f"Surroundings: {', '.join(found.backdrops[:2])}{more}", width, "BLANK1")


def _draw_cameras(layout: Any, scene: Any, width: int) -> None:
    chosen = scene.splatfit
    rig = chosen.capture.rig
    layout.prop(chosen.capture, "rig", text="")
    column = layout.column(align=True)
    column.use_property_split, column.use_property_decorate = True, False
    if rig == "faces":
        column.prop(chosen, "faces_object", text="Mesh")
    for name in RIG_SETTINGS[rig]:
        automatic = name in AUTOMATIC_AT_0 and getattr(chosen.capture, name) == 0
        if automatic:
            column.prop(chosen.capture, name, text=f"{AUTOMATIC_AT_0[name]} (auto)")
        else:
            column.prop(chosen.capture, name)
    on_show = rig_overlay.shown(scene)
    row = layout.row(align=True)
    is_current = on_show is not None and not on_show.is_outdated
    row.operator(
        "splatfit.show_rig",
        text="Update Cameras" if on_show is not None and not is_current else "Show Cameras",
        icon="CAMERA_DATA",
        depress=is_current,
    )
    row.operator("splatfit.test_view", text="Test View", icon="IMAGE_DATA")
    if on_show is not None:
        learned = on_show.views - on_show.held_out
        draw_text(layout, f"{learned:,} to learn from, {on_show.held_out:,} to judge", width)
        for note in on_show.notes:
            if note.startswith(SURROUNDINGS):  # said with the target
                continue
            draw_text(layout, note, width, "INFO")
    if test_view.of(scene) is not None:
        layout.template_icon(icon_value=test_view.icon_id(), scale=_PICTURE_SCALE)
        draw_text(layout, test_view.in_words(scene), width, "TIME")


def _draw_quality(layout: Any, scene: Any, width: int) -> None:
    chosen = scene.splatfit
    layout.row(align=True).prop(chosen, "quality", expand=True)
    if chosen.quality != choices.CUSTOM:
        for line in choices.quality_lines(chosen):
            draw_text(layout, line, width)
        return
    column = layout.column(align=True)
    column.use_property_split, column.use_property_decorate = True, False
    for group, name in choices.governed_settings():
        column.prop(getattr(chosen, group), name)


CLASSES = (SPLATFIT_PT_main,)
