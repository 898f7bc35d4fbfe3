"""The engine in a panel and in the preferences: what is missing, how to get it, how far that is, what was found."""

from __future__ import annotations

from typing import Any

from splat_engine.formats.errors import UserError

from ..engine import engine_jobs
from ..engine.setup.jobs import Job
from ..engine.setup.place import Status
from ..settings import preferences
from .layouts import draw_text

SHOWN_FACTS = ("torch", "device", "instruction set", "memory", "fit of one second")
"""Of the doctor's facts, those that tell a person something."""
_BUTTONS = {
    Status.ABSENT: "Set Up the Engine",
    Status.UNFINISHED: "Go On with the Set-Up",
    Status.OUTDATED: "Update the Engine",
}


def draw(layout: Any, width: int) -> None:
    """Draws the one thing that there is to say about the engine now.

    Args:
        layout: Where.
        width: Characters of a line.
    """
    job = engine_jobs.current()
    if job is not None and not job.is_over:
        _draw_progress(layout, job)
        return
    missing = engine_jobs.missing()
    if job is not None and job.error is not None:
        box = layout.box()
        box.alert = True
        draw_text(box, job.error.headline, width, "ERROR")
        draw_text(box, job.error.hint, width)
    elif job is not None and job.is_cancelled:
        draw_text(layout, "Cancelled. What has been downloaded is kept.", width, "CANCEL")
    elif job is not None and not missing:
        _draw_facts(layout, job.facts, width)
    if missing:
        _draw_offer(layout, width, missing)
    else:
        layout.operator("splatfit.check_engine", icon="VIEWZOOM")


def _draw_progress(layout: Any, job: Job) -> None:
    column = layout.column()
    column.progress(factor=job.share, type="BAR", text=job.phase or "Starting")
    if job.detail:
        column.label(text=job.detail)
    column.operator("splatfit.cancel_engine_setup", icon="CANCEL")


def _draw_offer(layout: Any, width: int, missing: str) -> None:
    draw_text(layout, missing, width, "INFO")
    try:
        plan = engine_jobs.make_plan()
    except UserError as error:
        draw_text(
            layout, f"{error.headline} {error.hint}" if error.headline != missing else error.hint, width
        )
        return
    text = _BUTTONS.get(engine_jobs.own_status() or Status.ABSENT, "Set Up the Engine")
    layout.column().operator("splatfit.set_up_engine", icon="IMPORT", text=text)
    if not engine_jobs.may_set_up():
        draw_text(layout, "Blender may not go online.", width, "INTERNET_OFFLINE")
        layout.operator("screen.userpref_show", text="Open Network Preferences").section = "SYSTEM"
    download, disk = (size / 1e9 for size in (plan.size.download_bytes, plan.size.disk_bytes))
    column = layout.column(align=True)
    column.label(text=f"{download:.1f} GB to download")
    column.label(text=f"{disk:.1f} GB on the disk, in")
    column.label(text=_shortened(str(plan.place.root), width))


def draw_choice(layout: Any) -> None:
    """Draws the other way to an engine: a Python that is there already."""
    chosen = preferences.own()
    if chosen is not None and engine_jobs.missing():
        layout.label(text="Or use a Python that has PyTorch:")
        layout.prop(chosen, "engine_python", text="")


def _draw_facts(layout: Any, facts: dict[str, Any], width: int) -> None:
    layout.label(text="The engine works.", icon="CHECKMARK")
    column = layout.box().column(align=True)
    for name in SHOWN_FACTS:
        if name in facts:
            draw_text(column, f"{name[:1].upper()}{name[1:]}: {facts[name]}", width)


def _shortened(path: str, width: int) -> str:
    """Returns a path that fits a line: its end, where it is too long."""
    return path if len(path) <= width else f"...{path[3 - width :]}"
