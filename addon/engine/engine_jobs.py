"""The engine of this Blender: which Python it has, what is missing, and the set-up or check that is under way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from .. import blender, package
from ..settings import preferences
from . import engine_process
from .setup import jobs, plan
from .setup.place import EnginePlace, Status, carried_wheel, status

_TIMER_S = 0.3
_CANCEL_WAIT_S = 3.0
_LOOK_AGAIN_S = 2.0

_job: jobs.Job | None = None
_seen: tuple[float, Status | None] = (-_LOOK_AGAIN_S, None)


def place() -> EnginePlace | None:
    """Returns where this extension makes the engine's environment; None in a checkout, which has its own."""
    try:
        folder = bpy.utils.extension_path_user(package.NAME, path="engine")
    except ValueError:  # not an extension
        return None
    return EnginePlace(Path(folder)) if folder else None


def own_status() -> Status | None:
    """Returns what is in the place, looked at every few seconds; None where there is no place or no wheel."""
    global _seen
    now_s = time.monotonic()
    if now_s - _seen[0] >= _LOOK_AGAIN_S:
        _seen = now_s, _look()
    return _seen[1]


def _look() -> Status | None:
    found = place()
    try:
        return None if found is None else status(found, carried_wheel(package.FOLDER))
    except (UserError, OSError):
        return None


def look_again() -> None:
    """Forgets what was seen: something has changed."""
    global _seen
    _seen = (-_LOOK_AGAIN_S, None)


def find_python() -> Path:
    """Returns the engine's Python.

    Raises:
        UserError: There is none, with what to do about it.
    """
    return engine_process.find_python(chosen_python())


def chosen_python() -> str:
    """Returns the Python that the preferences name, else the one that the set-up made; "" for neither."""
    return preferences.engine_python() or own_python()


def own_python() -> str:
    """Returns the Python that the set-up made, if it is whole and $SPLATFIT_ENGINE_PYTHON names no other; else ""."""
    found = place()
    if found is None or os.environ.get(engine_process.PYTHON_VARIABLE) or own_status() is not Status.READY:
        return ""
    return str(found.python)


def missing() -> str:
    """Returns in one line what is missing before splats can be fitted; "" if nothing is."""
    try:
        find_python()
    except UserError as error:
        return {
            Status.UNFINISHED: "The engine's set-up is not finished.",
            Status.OUTDATED: "The engine is of another version of Splatfit.",
            Status.ABSENT: "The engine is not set up yet.",
        }.get(own_status() or Status.READY, error.headline)
    return ""


def make_plan() -> plan.Plan:
    """Returns how the engine would be set up.

    Raises:
        UserError: It cannot be, on this machine or from a checkout.
    """
    wheel = carried_wheel(package.FOLDER)
    found = place()
    if found is None:
        raise UserError("Blender has no folder for the engine.", "Install Splatfit as an extension.")
    folder = preferences.wheel_folder()
    return plan.make_plan(
        found, wheel, wheel_folder=Path(folder) if folder else None, is_offline=not bpy.app.online_access
    )


def may_set_up() -> bool:
    """Tells whether Blender may go online, or a folder of packages is chosen."""
    return bool(bpy.app.online_access or preferences.wheel_folder())


def summary(facts: dict[str, Any]) -> str:
    """Returns what a set-up or a check found, in one line."""
    return f"The engine works: torch {facts.get('torch')}, {facts.get('device')}, {facts.get('fit of one second')}"


def current() -> jobs.Job | None:
    """Returns the last set-up or check, or None."""
    return _job


def is_busy() -> bool:
    """Tells whether one is under way."""
    return _job is not None and not _job.is_over


def begin(job: jobs.Job) -> None:
    """Starts a job; in a window it is followed by a timer, which also goes on when another file is opened."""
    global _job
    if is_busy():
        raise RuntimeError("the engine is being worked on")
    _job = job
    job.start()
    if not bpy.app.background:
        bpy.app.timers.register(_follow, first_interval=_TIMER_S, persistent=True)


def forget() -> None:
    """Ends the job, if it is under way, and forgets it."""
    global _job
    if bpy.app.timers.is_registered(_follow):
        bpy.app.timers.unregister(_follow)
    if _job is not None:
        _job.cancel(_CANCEL_WAIT_S)
    _job = None
    look_again()


def _follow() -> float | None:
    """Called by Blender's timer: shows how far the job is, until it is over."""
    if _job is None:
        return None
    _job.measure()
    is_over = _job.is_over
    if is_over:
        look_again()
    blender.redraw("VIEW_3D", "PREFERENCES")
    return None if is_over else _TIMER_S
