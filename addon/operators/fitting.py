"""Capture and fit: started by a button, steered by Pause, Stop and Discard, followed by a timer.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from ..engine import engine_jobs
from ..runs import earlier_runs, following, running, workflow
from ..runs.session import Session, State
from ..scene import results
from ..settings import properties
from .words import in_words

_TIMER_S = 0.1
_WAIT_S = 0.5


def has_window(context: Any) -> bool:
    """Tells whether timers come; in background none does, though there may be something like a window."""
    return context.window is not None and not bpy.app.background


class Starts:
    """Starts a session: in a window a timer goes on with it, in background it runs to its end.

    Views that are rendered in this Blender are the exception: the scene is set aside meanwhile, so the operator keeps
    every event to itself, and Esc cancels.
    """

    report: Any
    poll_message_set: Any
    brings_splats = False
    is_attached = False
    _timer: Any = None

    def make_session(self, context: Any) -> Session:
        """Returns the session to run; raises UserError."""
        raise NotImplementedError

    def goes_on(self) -> bool:
        """Tells whether an interrupted run is resumed."""
        return False

    def renders_here(self, context: Any) -> bool:
        """Tells whether this Blender renders views."""
        return False

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
        """Starts."""
        if not has_window(context):
            return self.execute(context)
        self._begin(context)
        if not self.renders_here(context):
            following.follow()
            return {"FINISHED"}
        self._timer = context.window_manager.event_timer_add(_TIMER_S, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    @in_words
    def modal(self, context: Any, event: Any) -> Any:
        """Takes a tick, or Esc, while views are rendered here; nothing may be changed, so no event goes on."""
        job = running.current()
        if job is None or job.session.state is not State.CAPTURING:
            return self._hand_over(context)
        if event.type == "ESC" and event.value == "PRESS":
            job.session.cancel()
            return self._hand_over(context)
        if event.type != "TIMER":
            return {"RUNNING_MODAL"}
        try:
            job.session.poll()
        except BaseException:
            self._remove_timer(context)
            raise
        following.redraw()
        return {"RUNNING_MODAL"} if job.session.state is State.CAPTURING else self._hand_over(context)

    def cancel(self, context: Any) -> None:
        """Called by Blender when the operator's window or file is closed."""
        self._remove_timer(context)
        job = running.current()
        if job is not None:
            job.session.cancel()

    def _begin(self, context: Any) -> None:
        session = self.make_session(context)
        following.begin(
            following.job_of(
                session,
                context.scene,
                goes_on=self.goes_on(),
                brings_splats=self.brings_splats,
                is_attached=self.is_attached,
            )
        )

    def _hand_over(self, context: Any) -> Any:
        """The views are there, or will not come: the timer goes on from here."""
        self._remove_timer(context)
        job = running.current()
        if job is None or job.session.state is State.CANCELLED:
            following.redraw()
            self.report({"WARNING"}, "Splatfit: cancelled")
            return {"CANCELLED"}
        if job.session.error is not None:
            raise job.session.error
        following.follow()
        return {"FINISHED"}

    def _end(self, context: Any) -> Any:
        """Without a window: uses what the session made."""
        job = running.current()
        assert job is not None
        if job.session.error is not None:
            raise job.session.error
        if job.session.state is not State.FINISHED:
            self.report({"WARNING"}, "Splatfit: cancelled")
            return {"CANCELLED"}
        if job.brings_splats:
            following.bring_home(job)
        for note in (*job.session.report.warnings, *job.notes):
            self.report({"WARNING"}, note)
        return {"FINISHED"}

    def _remove_timer(self, context: Any) -> None:
        if self._timer is not None:
            context.window_manager.event_timer_remove(self._timer)
            self._timer = None


class SPLATFIT_OT_capture(Starts, bpy.types.Operator):
    """Render the scene's views: what splats are fitted to"""

    bl_idname = "splatfit.capture"
    bl_label = "Capture"

    def make_session(self, context: Any) -> Session:
        """Returns a session that captures."""
        session = workflow.capture_session(request_of(context))
        results.show_hidden(context.scene)
        return session

    def renders_here(self, context: Any) -> bool:
        """As the scene says."""
        return bool(context.scene.splatfit.render_in_place)


class SPLATFIT_OT_fit(Starts, bpy.types.Operator):
    """Capture the scene, fit splats to it, and put them in its place"""

    bl_idname = "splatfit.fit"
    bl_label = "Fit Splats"
    # Nothing has changed when it returns: the step of undo is made when the result comes.
    brings_splats = True

    use_capture: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Use Capture", description="Fit to the capture that is there, as it is", default=False
    )
    resume: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Resume", description="Go on from the run's checkpoint", default=False
    )

    def goes_on(self) -> bool:
        """Tells whether it was asked to."""
        return bool(self.resume)

    def make_session(self, context: Any) -> Session:
        """Returns a session that captures and fits."""
        request = request_of(context, resume=self.resume, use_capture=self.use_capture or self.resume)
        session = workflow.fit_session(request)
        results.before_fit(context.scene, request.run_directory, resume=self.resume)
        return session

    def renders_here(self, context: Any) -> bool:
        """As the scene says, if views are rendered at all."""
        return bool(context.scene.splatfit.render_in_place) and not (self.use_capture or self.resume)


class SPLATFIT_OT_pause(bpy.types.Operator):
    """Let the fit stand still, or go on"""

    bl_idname = "splatfit.pause"
    bl_label = "Pause"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only a fit can be paused."""
        job = running.current()
        fits = job is not None and job.session.state.has_engine
        return fits and job is not None and not job.is_attached

    def execute(self, context: Any) -> Any:
        """Asks the engine."""
        job = running.current()
        if job is None:
            return {"CANCELLED"}
        paused = job.session.state is State.PAUSED
        return {"FINISHED"} if (job.session.resume() if paused else job.session.pause()) else {"CANCELLED"}


class SPLATFIT_OT_stop(bpy.types.Operator):
    """End the fit now and take the splats as they are. Views that are being rendered are kept for the next time"""

    bl_idname = "splatfit.stop"
    bl_label = "Stop"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only what runs can be stopped."""
        return running.is_busy()

    def execute(self, context: Any) -> Any:
        """Asks the engine; what was started elsewhere is only no longer watched."""
        job = running.current()
        if job is None:
            return {"CANCELLED"}
        if job.is_attached:
            job.session.cancel()
        else:
            job.session.stop()
        following.redraw()
        return {"FINISHED"}


class SPLATFIT_OT_discard(bpy.types.Operator):
    """Throw the fit away: its splats and the files of its run. The rendered views are kept"""

    bl_idname = "splatfit.discard"
    bl_label = "Discard"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Any) -> bool:
        """There must be a fit of this Blender's own, running or over."""
        job = running.current()
        return job is not None and job.brings_splats and not job.is_attached

    def invoke(self, context: Any, event: Any) -> Any:
        """Asks first."""
        return context.window_manager.invoke_confirm(
            self,
            event,
            title="Throw this fit away?",
            message="Its splats and the files of its run are removed. The rendered views stay.",
            confirm_text="Discard",
            icon="WARNING",
        )

    @in_words
    def execute(self, context: Any) -> Any:
        """Ends the engine, takes its splats out of the scene, and removes the run's files."""
        job = running.current()
        if job is None:
            return {"CANCELLED"}
        job.session.discard()
        target = following.scene_of(job)
        for item in results.made_by(target, job.session.run.root) if target is not None else ():
            if item.session_uid not in job.earlier:
                results.remove_splats(item)
        running.forget()
        for note in earlier_runs.remove(job.session.run.root):
            self.report({"WARNING"}, note)
        following.redraw()
        return {"FINISHED"}


def request_of(context: Any, *, resume: bool = False, use_capture: bool = False) -> workflow.FitRequest:
    """Returns what the scene's settings ask for.

    Raises:
        UserError: A value is outside its limits, or the file was never saved and no folder is chosen.
    """
    chosen = context.scene.splatfit
    return workflow.FitRequest(
        scene=context.scene,
        capture_directory=capture_folder(context),
        run_directory=run_folder(context),
        capture=properties.capture_settings(context.scene),
        run=properties.run_settings(context.scene),
        engine_python=engine_jobs.chosen_python(),
        resume=resume,
        use_capture=use_capture,
        in_place=bpy.app.background or chosen.render_in_place,
    )


def capture_folder(context: Any) -> Path:
    """Returns where the scene's views go.

    Raises:
        UserError: The file was never saved and no folder is chosen.
    """
    return _folder(context.scene.splatfit.capture_directory, "capture")


def run_folder(context: Any) -> Path:
    """Returns where the scene's fit goes.

    Raises:
        UserError: The file was never saved and no folder is chosen.
    """
    return _folder(context.scene.splatfit.run_directory, "run")


def run_folders(context: Any) -> tuple[Path, ...]:
    """Returns where earlier runs may lie: beside the file, and where the scene says; none for a file never saved."""
    found = [workflow.default_folder(bpy.data.filepath)] if bpy.data.filepath else []
    chosen = context.scene.splatfit.run_directory
    if chosen and not (chosen.startswith("//") and not bpy.data.filepath):
        found.append(Path(bpy.path.abspath(chosen)))
    return tuple(found)


def _folder(chosen: str, name: str) -> Path:
    if chosen:
        if chosen.startswith("//") and not bpy.data.filepath:
            raise UserError(f"The folder {chosen} is beside a file that was never saved.", "Save the file.")
        return Path(bpy.path.abspath(chosen))
    return workflow.default_folder(bpy.data.filepath) / name


CLASSES = (
    SPLATFIT_OT_capture,
    SPLATFIT_OT_fit,
    SPLATFIT_OT_pause,
    SPLATFIT_OT_stop,
    SPLATFIT_OT_discard,
)
