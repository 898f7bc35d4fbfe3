"""Runs that lie beside the file, of an earlier session or of another Blender: a panel, and a part of the main one."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import bpy

from ..display.layouts import draw_text, line_characters
from ..operators.fitting import run_folders
from ..runs import earlier_runs, running
from ..runs.earlier_runs import EarlierRun, RunState
from ..scene import results
from .sidebar import Sidebar

_LOOK_AGAIN_S = 3.0
_RUNS_MAX = 5
_UNFINISHED = (RunState.RUNNING, RunState.INTERRUPTED)
_OVER = (RunState.FINISHED, RunState.BROKEN)
_ICONS = {
    RunState.RUNNING: "PLAY",
    RunState.INTERRUPTED: "PAUSE",
    RunState.FINISHED: "CHECKMARK",
    RunState.BROKEN: "ERROR",
}

_seen: tuple[float, tuple[Path, ...], list[EarlierRun]] = (-_LOOK_AGAIN_S, (), [])


def runs_beside(context: Any) -> list[EarlierRun]:
    """Returns the runs beside the file but for the one that is under way here; the disk is looked at every few seconds."""
    global _seen
    folders = run_folders(context)
    now_s = time.monotonic()
    if folders != _seen[1] or now_s - _seen[0] >= _LOOK_AGAIN_S:
        _seen = now_s, folders, earlier_runs.find_runs(folders)
    job = running.current() if running.is_busy() else None
    own = None if job is None else job.session.run.root.resolve()
    return [run for run in _seen[2] if run.directory != own and run.directory.is_dir()]


def draw_unfinished(layout: Any, context: Any) -> None:
    """Draws, if there are some, the fits that wait to be gone on with, or that another program runs.

    The main panel has them above all else, for they are what a person comes back for.
    """
    if _runs(context, _UNFINISHED):
        layout.label(text="Unfinished", icon="RECOVER_LAST")
        _draw(layout, context, _UNFINISHED)


class SPLATFIT_PT_runs(Sidebar, bpy.types.Panel):
    """Fits that are over: results to bring in, and what may be removed."""

    bl_label = "Earlier Fits"
    bl_idname = "SPLATFIT_PT_runs"
    bl_parent_id = "SPLATFIT_PT_main"
    bl_options: Any = {"DEFAULT_CLOSED"}

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only where there is one."""
        return bool(_runs(context, _OVER))

    def draw(self, context: Any) -> None:
        """Draws them."""
        _draw(self.layout, context, _OVER)


def _runs(context: Any, states: tuple[RunState, ...]) -> list[EarlierRun]:
    return [run for run in runs_beside(context) if run.state in states]


def _draw(layout: Any, context: Any, states: tuple[RunState, ...]) -> None:
    """Draws the newest, a box each."""
    runs = _runs(context, states)
    if not runs:  # removed since Blender asked
        layout.label(text="None beside this file")
    for run in runs[:_RUNS_MAX]:
        is_here = bool(results.made_by(context.scene, run.directory))
        _draw_run(layout, run, is_here, line_characters(context))
    if len(runs) > _RUNS_MAX:
        layout.label(text=f"and {len(runs) - _RUNS_MAX} more")


def _draw_run(layout: Any, run: EarlierRun, is_here: bool, width: int) -> None:
    box = layout.box()
    row = box.row()
    row.label(text=f"{run.directory.name}, {when(run.changed_s)}", icon=_ICONS[run.state])
    if run.state is not RunState.RUNNING:
        _button(row, "splatfit.forget_run", run, text="", icon="TRASH")
    draw_text(box, words_for(run, is_here), width)
    if run.state is RunState.RUNNING:
        _button(box, "splatfit.attach_run", run, icon="HIDE_OFF")
    elif run.state is RunState.INTERRUPTED:
        _button(box, "splatfit.resume_run", run, icon="PLAY")
    elif run.state is RunState.FINISHED and not is_here:
        _button(box, "splatfit.import_run", run, icon="IMPORT")


def _button(layout: Any, operator: str, run: EarlierRun, **look: Any) -> None:
    layout.operator(operator, **look).directory = str(run.directory)


def when(seconds: float, now: datetime | None = None) -> str:
    """Returns a time since 1970 in few words: the hour if it was today, else the day."""
    then, now = datetime.fromtimestamp(seconds), now or datetime.now()
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%Y-%m-%d}"


def words_for(run: EarlierRun, is_here: bool) -> str:
    """Returns in a sentence what a run is."""
    step = f"step {run.step:,} of {run.steps:,}" if run.steps else "its start"
    if run.state is RunState.RUNNING:
        return f"Running ({run.holder}), {step}."
    if run.state is RunState.INTERRUPTED:
        return f"Interrupted at {step}."
    if run.state is RunState.BROKEN:
        return f"Ended at {step}, with nothing to go on from."
    quality = "" if run.psnr_db is None else f", {run.psnr_db:.1f} dB"
    return f"Finished: {run.splats:,} splats{quality}{', in this scene' if is_here else ''}."


CLASSES = (SPLATFIT_PT_runs,)
