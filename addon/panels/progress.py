"""What the main panel shows of a session: how far it is, how good, and how it ended."""

from __future__ import annotations

from typing import Any

from ..display import curve_picture, error_box
from ..display.layouts import draw_text, duration
from ..runs import running
from ..runs.session import State
from ..scene.compare import closeness
from ..settings.choices import short_number

_CURVE_SCALE = 5.5


def draw(layout: Any, job: running.Running, scene: Any, width: int) -> None:
    """Draws what runs.

    Args:
        layout: Where.
        job: What runs.
        scene: The scene of the panel.
        width: Characters of a line.
    """
    report, state = job.session.report, job.session.state
    capturing = state is State.CAPTURING
    column = layout.column()
    draw_text(column, "Paused" if state is State.PAUSED else report.phase or "Starting", width)
    part = "View" if capturing else "Step"
    text = f"{part} {report.step:,} of {report.steps:,}" if report.steps else "..."
    column.progress(factor=report.share, type="BAR", text=text)
    if capturing:
        if report.seconds_left > 0:
            column.label(text=f"About {duration(report.seconds_left)} left", icon="TIME")
    elif report.steps:
        _draw_figures(column, report)
    if job.is_attached:
        layout.operator("splatfit.stop", text="Stop Watching", icon="HIDE_ON")
    else:
        _draw_buttons(layout, state)


def _draw_figures(layout: Any, report: Any) -> None:
    """The curve at the left, what it has come to at the right."""
    split = layout.split(factor=0.45)
    left, right = split.column(), split.column(align=True)
    left.template_icon(icon_value=curve_picture.icon.of(report.curve), scale=_CURVE_SCALE)
    if report.curve:
        right.label(text=f"{report.psnr_db:.1f} dB", icon="IMAGE_DATA")
        # Words of praise wait for views that it has not learned from: of few or noisy ones a fit knows its own too well.
        right.label(text="on its own views", icon="BLANK1")
    right.label(text=f"{short_number(report.splats)} splats", icon="POINTCLOUD_DATA")
    right.label(text=f"{duration(report.seconds_left)} left", icon="TIME")


def _draw_buttons(layout: Any, state: State) -> None:
    column = layout.column(align=True)
    if state is not State.CAPTURING:
        paused = state is State.PAUSED
        row = column.row(align=True)
        row.operator(
            "splatfit.pause", text="Go On" if paused else "Pause", icon="PLAY" if paused else "PAUSE"
        )
        row.operator("splatfit.save", text="Save", icon="FILE_TICK")
    row = column.row(align=True)
    if state is not State.CAPTURING:
        row.operator("splatfit.stop", text="Stop & Keep", icon="SNAP_FACE")
    else:
        row.operator("splatfit.stop", text="Stop", icon="SNAP_FACE")
    row.operator("splatfit.discard", text="Discard", icon="TRASH")


def draw_ending(layout: Any, job: running.Running, width: int) -> None:
    """Draws how a session ended.

    Args:
        layout: Where.
        job: What is over.
        width: Characters of a line.
    """
    session, report = job.session, job.session.report
    if session.error is not None:
        error_box.draw(layout, session.error, width)
        return
    box = layout.box().column(align=True)
    if session.state is State.CANCELLED:
        box.label(text="Stopped", icon="CANCEL")
        return
    box.label(text="Finished", icon="CHECKMARK")
    if report.test_psnr_db is not None:
        words = closeness(report.test_psnr_db)
        draw_text(box, f"{report.test_psnr_db:.1f} dB on views it never saw: {words}", width)
    if report.splats:
        box.label(text=f"{report.splats:,} splats")
    names = {"capture": "Rendering", "fit": "Fitting"}
    for name, seconds in report.seconds.items():
        box.label(text=f"{names.get(name, name.title())}: {duration(seconds)}")
    for note in (*report.warnings, *job.notes):
        draw_text(box, note, width, "ERROR")
