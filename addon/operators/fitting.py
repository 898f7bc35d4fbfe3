"""Capture and fit: started by a button, followed by a timer, steered by pause, stop and Esc.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from .. import engine_jobs, preview, properties, running, workflow
from ..session import Session, State
from .words import in_words

_TIMER_S = 0.1
_WAIT_S = 0.5


class _Follows:
    """Runs a session: in the GUI as a modal operator, in background to its end."""

    report: Any
    poll_message_set: Any
    _timer: Any = None

    def make_session(self, context: Any) -> Session:
        """Returns the session to run; raises UserError."""
        raise NotImplementedError

    @classmethod
    def poll(cls, context: Any) -> bool:
        """One session at a time."""
        if running.is_busy():
            cls.poll_message_set("Something is being captured or fitted already")
            return False
        return context.scene is not None

    @in_words
    def execute(self, context: Any) -> Any:
        """Runs to the end, without a window."""
        self._begin(context)
        job = running.current()
        assert job is not None
        while job.session.poll(_WAIT_S):
            pass
        return self._end(context)

    @in_words
    def invoke(self, context: Any, event: Any) -> Any:
        """Starts, and goes on with every tick of a timer."""
        if context.window is None:
            return self.execute(context)
        self._begin(context)
        self._timer = context.window_manager.event_timer_add(_TIMER_S, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    @in_words
    def modal(self, context: Any, event: Any) -> Any:
        """Takes a tick, or Esc."""
        job = running.current()
        if job is None or job.session.state.is_over:
            return self._end(context)
        if event.type == "ESC" and event.value == "PRESS":
            job.session.cancel()
            return self._end(context)
        # While views are rendered the scene is set aside: nothing may be changed, so no event goes on.
        keep = {"RUNNING_MODAL"} if job.session.state is State.CAPTURING else {"PASS_THROUGH"}
        if event.type != "TIMER":
            return keep
        try:
            going_on = job.session.poll()
        except BaseException:
            self._remove_timer(context)
            raise
        preview.tick(job)
        _redraw(context)
        return keep if going_on else self._end(context)

    def cancel(self, context: Any) -> None:
        """Called by Blender when the operator's window or file is closed."""
        self._remove_timer(context)
        job = running.current()
        if job is not None:
            job.session.cancel()

    def _begin(self, context: Any) -> None:
        session = self.make_session(context)
        session.start()
        running.begin(running.Running(session, context.scene.name))

    def _end(self, context: Any) -> Any:
        self._remove_timer(context)
        _redraw(context)
        job = running.current()
        if job is None:
            return {"CANCELLED"}
        if job.session.error is not None:
            raise job.session.error
        if job.session.state is not State.FINISHED:
            self.report({"WARNING"}, "Splatfit: cancelled")
            return {"CANCELLED"}
        self.finish(context, job)
        for note in (*job.session.report.warnings, *job.notes):
            self.report({"WARNING"}, note)
        return {"FINISHED"}

    def finish(self, context: Any, job: running.Running) -> None:
        """Uses what the session made; raises UserError."""

    def _remove_timer(self, context: Any) -> None:
        if self._timer is not None:
            context.window_manager.event_timer_remove(self._timer)
            self._timer = None


class SPLATFIT_OT_capture(_Follows, bpy.types.Operator):
    """Render the scene's views: what splats are fitted to."""

    bl_idname = "splatfit.capture"
    bl_label = "Capture"

    def make_session(self, context: Any) -> Session:
        """Returns a session that captures."""
        return workflow.capture_session(request_of(context))


class SPLATFIT_OT_fit(_Follows, bpy.types.Operator):
    """Capture the scene, fit splats to it, and put them in its place. Esc cancels."""

    bl_idname = "splatfit.fit"
    bl_label = "Fit Splats"
    bl_options = {"UNDO"}  # not REGISTER: a panel to adjust the last operation would fit all over again

    use_capture: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Use Capture", description="Fit to the capture that is there, as it is", default=False
    )
    resume: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Resume", description="Go on from the run's checkpoint", default=False
    )

    def make_session(self, context: Any) -> Session:
        """Returns a session that captures and fits."""
        return workflow.fit_session(
            request_of(context, resume=self.resume, use_capture=self.use_capture or self.resume)
        )

    def finish(self, context: Any, job: running.Running) -> None:
        """Brings the result into the scene that was captured."""
        target = bpy.data.scenes.get(job.scene_name)
        if target is None:
            raise UserError(
                f"The scene {job.scene_name!r} is gone; the result is {job.session.run.splats}.",
                "Import that file where you want it.",
            )
        added = workflow.import_run(target, job.session.run, job.session.report.test_psnr_db)
        job.result_name, job.notes = added.object.name, list(added.notes)


class SPLATFIT_OT_pause(bpy.types.Operator):
    """Let the fit stand still, or go on."""

    bl_idname = "splatfit.pause"
    bl_label = "Pause"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only a fit can be paused."""
        job = running.current()
        return job is not None and job.session.state in (State.FITTING, State.PAUSED)

    def execute(self, context: Any) -> Any:
        """Asks the engine."""
        job = running.current()
        if job is None:
            return {"CANCELLED"}
        paused = job.session.state is State.PAUSED
        return {"FINISHED"} if (job.session.resume() if paused else job.session.pause()) else {"CANCELLED"}


class SPLATFIT_OT_stop(bpy.types.Operator):
    """End the fit now and take the splats as they are; a capture is cancelled, and can go on later."""

    bl_idname = "splatfit.stop"
    bl_label = "Stop"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only what runs can be stopped."""
        return running.is_busy()

    def execute(self, context: Any) -> Any:
        """Asks the engine."""
        job = running.current()
        if job is None:
            return {"CANCELLED"}
        job.session.stop()
        return {"FINISHED"}


def request_of(context: Any, *, resume: bool = False, use_capture: bool = False) -> workflow.FitRequest:
    """Returns what the scene's settings ask for.

    Raises:
        UserError: A value is outside its limits, or the file was never saved and no folder is chosen.
    """
    chosen = context.scene.splatfit
    return workflow.FitRequest(
        scene=context.scene,
        capture_directory=_folder(chosen.capture_directory, "capture"),
        run_directory=_folder(chosen.run_directory, "run"),
        capture=properties.capture_settings(context.scene),
        run=properties.run_settings(context.scene),
        engine_python=engine_jobs.chosen_python(),
        resume=resume,
        use_capture=use_capture,
    )


def _folder(chosen: str, name: str) -> Path:
    if chosen:
        if chosen.startswith("//") and not bpy.data.filepath:
            raise UserError(f"The folder {chosen} is beside a file that was never saved.", "Save the file.")
        return Path(bpy.path.abspath(chosen))
    return workflow.default_folder(bpy.data.filepath) / name


def _redraw(context: Any) -> None:
    for window in context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


CLASSES = (SPLATFIT_OT_capture, SPLATFIT_OT_fit, SPLATFIT_OT_pause, SPLATFIT_OT_stop)
