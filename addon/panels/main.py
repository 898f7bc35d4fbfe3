"""The panel that has what is asked for most, and shows what is going on."""

from __future__ import annotations

from typing import Any

import bpy

from .. import error_box, running
from ..layouts import draw_text, line_characters
from ..session import State
from .sidebar import Sidebar, duration

_MAIN_SETTINGS = (("capture", ("rig", "views", "resolution", "samples")), ("fit", ("steps", "max_splats")))


class SPLATFIT_PT_main(Sidebar, bpy.types.Panel):
    """What is asked for most, and what is going on."""

    bl_label = "Splatfit"
    bl_idname = "SPLATFIT_PT_main"

    def draw(self, context: Any) -> None:
        """Draws settings and buttons, or the progress of what runs."""
        job = running.current()
        if running.is_busy() and job is not None:
            _draw_progress(self.layout, job)
            return
        chosen = context.scene.splatfit
        column = self.layout.column()
        column.use_property_split = True
        for group, names in _MAIN_SETTINGS:
            for name in names:
                column.prop(getattr(chosen, group), name)
        buttons = self.layout.column(align=True)
        buttons.operator("splatfit.fit", icon="PLAY")
        buttons.operator("splatfit.capture", icon="RENDER_STILL")
        if job is not None:
            _draw_ending(self.layout, job, line_characters(context))


def _draw_progress(layout: Any, job: running.Running) -> None:
    report, state = job.session.report, job.session.state
    column = layout.column()
    word = {State.CAPTURING: "Capturing", State.PAUSED: "Paused"}.get(state, "Fitting")
    text = f"{word} {report.step}/{report.steps}" if report.steps else f"{word} ..."
    column.progress(factor=report.share, type="BAR", text=text)
    if state is not State.CAPTURING and report.steps:
        column.label(text=f"{report.psnr_db:.1f} dB on training views", icon="IMAGE_DATA")
        column.label(text=f"{report.splats:,} splats", icon="POINTCLOUD_DATA")
        column.label(text=f"About {duration(report.seconds_left)} left", icon="TIME")
    if state is not State.CAPTURING:  # while views are rendered, no click arrives
        row = layout.row(align=True)
        paused = state is State.PAUSED
        row.operator(
            "splatfit.pause", text="Go On" if paused else "Pause", icon="PLAY" if paused else "PAUSE"
        )
        row.operator("splatfit.stop", icon="SNAP_FACE")
    layout.label(text="Esc cancels", icon="INFO")


def _draw_ending(layout: Any, job: running.Running, width: int) -> None:
    session, report = job.session, job.session.report
    if session.error is not None:
        error_box.draw(layout, session.error, width)
        return
    box = layout.box()
    if session.state is State.CANCELLED:
        box.label(text="Cancelled", icon="CANCEL")
        return
    box.label(text="Finished", icon="CHECKMARK")
    if report.test_psnr_db is not None:
        box.label(text=f"{report.test_psnr_db:.1f} dB on held-out views")
    for name, seconds in report.seconds.items():
        box.label(text=f"{name.title()}: {duration(seconds)}")
    for note in (*report.warnings, *job.notes):
        draw_text(box, note, width, "ERROR")


CLASSES = (SPLATFIT_PT_main,)
