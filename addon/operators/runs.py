"""Runs found beside the file: their result brought in, gone on with, watched, or removed.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.capture import TRANSFORMS_NAME
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory

from ..engine import engine_jobs
from ..runs import earlier_runs, following, workflow
from ..runs.earlier_runs import EarlierRun, RunState
from ..runs.run_follower import RunFollower
from ..runs.session import Session
from .fitting import Starts, capture_folder
from .words import in_words


def _run_of(directory: str) -> EarlierRun:
    path = Path(bpy.path.abspath(directory)).absolute()
    found = earlier_runs.read_run(path) if directory else None
    if found is None:
        raise UserError(f"There is no run at {path if directory else 'no folder'}.", "Choose a run's folder.")
    return found


def _directory() -> Any:
    return bpy.props.StringProperty(name="Run", subtype="DIR_PATH", options={"SKIP_SAVE"})


class SPLATFIT_OT_import_run(bpy.types.Operator):
    """Put the splats of a finished run into the scene"""

    bl_idname = "splatfit.import_run"
    bl_label = "Import Result"
    bl_options = {"REGISTER", "UNDO"}

    directory: _directory()  # type: ignore[valid-type]

    @in_words
    def execute(self, context: Any) -> Any:
        """Reads the result; an object that the same run made before gets the new splats."""
        found = _run_of(self.directory)
        added = workflow.import_run(context.scene, RunDirectory(found.directory), found.psnr_db)
        for note in added.notes:
            self.report({"WARNING"}, note)
        self.report({"INFO"}, f"{added.count} splats")
        following.redraw()
        return {"FINISHED"}


class SPLATFIT_OT_resume_run(Starts, bpy.types.Operator):
    """Go on with an interrupted fit from its checkpoint, with the settings it was started with"""

    bl_idname = "splatfit.resume_run"
    bl_label = "Resume"
    brings_splats = True

    directory: _directory()  # type: ignore[valid-type]

    def goes_on(self) -> bool:
        """It does."""
        return True

    def make_session(self, context: Any) -> Session:
        """Returns a session without a capture; the views are those that the run names."""
        found = _run_of(self.directory)
        run = RunDirectory(found.directory)
        if not run.checkpoint.is_file():
            raise UserError(f"The run {run.root} has no checkpoint.", "Start the fit anew.")
        capture = found.capture or capture_folder(context)
        if not (capture / TRANSFORMS_NAME).is_file():
            raise UserError(f"The views of that run are not at {capture} any more.", "Start the fit anew.")
        return workflow.resume_session(run, capture, engine_jobs.chosen_python())


class SPLATFIT_OT_attach_run(Starts, bpy.types.Operator):
    """Watch a fit that another program runs, and get its splats when it is done"""

    bl_idname = "splatfit.attach_run"
    bl_label = "Watch"
    brings_splats = True
    is_attached = True

    directory: _directory()  # type: ignore[valid-type]

    def make_session(self, context: Any) -> Session:
        """Returns a session that reads along."""
        found = _run_of(self.directory)
        if found.state is not RunState.RUNNING:
            raise UserError(
                f"The run {found.directory} is not running.",
                "Import its result, or resume it from its checkpoint.",
            )
        run = RunDirectory(found.directory)
        return Session(run, lambda: RunFollower(run))


class SPLATFIT_OT_forget_run(bpy.types.Operator):
    """Remove a run's files from the disk. The rendered views and what is in the scene stay"""

    bl_idname = "splatfit.forget_run"
    bl_label = "Remove"

    directory: _directory()  # type: ignore[valid-type]

    def invoke(self, context: Any, event: Any) -> Any:
        """Asks first."""
        return context.window_manager.invoke_confirm(
            self,
            event,
            title="Remove this run?",
            message=f"{Path(self.directory).name}: its files are deleted, this cannot be undone.",
            confirm_text="Remove",
            icon="WARNING",
        )

    @in_words
    def execute(self, context: Any) -> Any:
        """Removes what a run writes, and nothing else; refuses while an engine writes it."""
        for note in earlier_runs.remove(_run_of(self.directory).directory):
            self.report({"WARNING"}, note)
        following.redraw()
        return {"FINISHED"}


CLASSES = (SPLATFIT_OT_import_run, SPLATFIT_OT_resume_run, SPLATFIT_OT_attach_run, SPLATFIT_OT_forget_run)
