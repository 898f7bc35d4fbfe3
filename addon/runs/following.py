"""Follows the session that runs, by Blender's timer, and puts its result into the scene.

No operator waits for the end, so a person may do whatever they like meanwhile: undo, close a window, delete the scene.
Another file, or Blender's end, ends the session with a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from .. import blender
from ..reports import failure_report
from ..scene import results
from . import running, workflow
from .running import Running
from .session import State

_TICK_S = 0.1
_RENDER_S = 0.5
_UNDO_NAME = "Fit Splats"

log = logging.getLogger(__name__)

listeners: list[Callable[[Running], None]] = []
"""Called with each tick of a session that is under way, and once when it is over: the live preview."""


def begin(job: Running) -> None:
    """Makes a session the current one and does its first piece, while the scene is as the person pressed the button.

    Raises:
        UserError: It failed at once.
    """
    job.session.start()
    running.begin(job)
    job.session.poll()
    if job.session.error is not None:
        raise job.session.error


def follow() -> None:
    """Lets a timer go on with the current session."""
    if not bpy.app.timers.is_registered(_tick):
        bpy.app.timers.register(_tick, first_interval=_TICK_S, persistent=True)


def scene_of(job: Running) -> Any:
    """Returns the scene that gets a session's result; None if it is gone."""
    if not job.scene_uid:
        return bpy.data.scenes.get(job.scene_name)
    return next((item for item in bpy.data.scenes if item.session_uid == job.scene_uid), None)


def job_of(session: Any, scene: Any, *, goes_on: bool = False, **facts: Any) -> Running:
    """Returns a session with what there is to know of its scene.

    Args:
        session: The session, not yet started.
        scene: The scene that gets the result.
        goes_on: It resumes a run: splats that the run has left in the scene are this session's own.
        facts: More attributes of ``Running``.
    """
    left = () if goes_on else results.made_by(scene, session.run.root)
    earlier = frozenset(item.session_uid for item in left)
    return Running(session, scene.name, scene.session_uid, earlier=earlier, **facts)


def bring_home(job: Running) -> None:
    """Puts the result of a session that is over into its scene, as a step of undo.

    Raises:
        UserError: The scene is gone, or the result cannot be drawn.
    """
    target = scene_of(job)
    if target is None:
        raise UserError(
            f"The scene {job.scene_name!r} is gone; the result is {job.session.run.splats}.",
            "Import it from Earlier Fits where you want it.",
        )
    added = workflow.import_run(target, job.session.run, job.session.report.test_psnr_db)
    job.result_name, job.notes = added.object.name, [*added.notes, *results.after_fit(target, added.object)]
    push_undo(_UNDO_NAME)


def push_undo(name: str) -> None:
    """Makes what was changed a step of undo; a timer, unlike an operator, has none of its own."""
    windows: Any = bpy.context.window_manager.windows  # type: ignore[union-attr]
    if not bpy.app.background and len(windows):
        with bpy.context.temp_override(window=windows[0]):
            bpy.ops.ed.undo_push(message=name)


def _tick() -> float | None:
    """Called by Blender's timer: goes on, until the session is over and its result is in the scene."""
    job = running.current()
    if job is None:
        return None
    try:
        return _go_on(job)
    except UserError as error:
        job.session.fail(error)
    except Exception as error:
        job.session.cancel()
        log.exception("following a session failed")
        _show_failure(error)
    redraw()
    return None


def _go_on(job: Running) -> float | None:
    before = _signature(job)
    is_going_on = job.session.poll()
    _tell_listeners(job)
    if _signature(job) != before:
        redraw()
    if is_going_on:
        return _TICK_S
    if job.session.state is State.FINISHED and job.brings_splats:
        if is_rendering():
            return _RENDER_S
        bring_home(job)
        redraw()
    return None


def _tell_listeners(job: Running) -> None:
    """Tells them; one that fails is told nothing more, and the fit, which is worth hours, goes on."""
    for listener in tuple(listeners):
        try:
            listener(job)
        except Exception as error:
            listeners.remove(listener)
            log.exception("%r failed", listener)
            job.session.report.warnings.append(
                f"The live preview failed and is off until Blender is started again: {type(error).__name__}: {error}."
            )


def _signature(job: Running) -> tuple[object, ...]:
    report = job.session.report
    return job.session.state, report.phase, report.step, report.steps, report.splats, len(report.warnings)


def is_rendering() -> bool:
    """Tells whether Blender renders: it reads the scene from another thread, so nothing may be changed under it."""
    return bool(bpy.app.is_job_running("RENDER"))


def redraw() -> None:
    """Lets the sidebars be drawn anew; the viewports themselves are left alone, for a scene may be slow to draw."""
    for area in blender.areas("VIEW_3D"):
        for region in area.regions:
            if region.type == "UI":
                region.tag_redraw()


def _show_failure(error: BaseException) -> None:
    windows: Any = bpy.context.window_manager.windows  # type: ignore[union-attr]
    if len(windows):
        operators: Any = bpy.ops
        with bpy.context.temp_override(window=windows[0]):
            operators.splatfit.failure("INVOKE_DEFAULT", details=failure_report(error))


def _before_another_file(*_: object) -> None:
    running.forget()


def register() -> None:
    """Sees to it that no session outlives its file."""
    blender.call_at("load_pre", _before_another_file)


def unregister() -> None:
    """Ends what is running, with a checkpoint, and leaves no timer and no handler."""
    running.forget()
    if bpy.app.timers.is_registered(_tick):
        bpy.app.timers.unregister(_tick)
    blender.call_no_more("load_pre", _before_another_file)
