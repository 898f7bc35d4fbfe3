"""The engine's Python: made, checked, and the making cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy

from ..engine import engine_jobs, engine_process
from ..engine.setup import jobs
from ..runs import running
from .words import in_words

_WAIT_S = 0.5


def _is_free(operator: Any) -> bool:
    if engine_jobs.is_busy():
        operator.poll_message_set("The engine is being set up or checked already")
        return False
    return True


def _run(operator: Any, job: jobs.Job) -> Any:
    """Starts a job; without a window waits for its end."""
    engine_jobs.begin(job)
    if not bpy.app.background:
        return {"FINISHED"}
    while job.wait_for_news(_WAIT_S):
        pass
    engine_jobs.look_again()
    if job.error is not None:
        raise job.error
    operator.report({"INFO"}, engine_jobs.summary(job.facts))
    return {"FINISHED"}


class SPLATFIT_OT_set_up_engine(bpy.types.Operator):
    """Download and install what fits splats: PyTorch and the engine, in a folder of their own. Blender's own Python is not touched"""

    bl_idname = "splatfit.set_up_engine"
    bl_label = "Set Up the Engine"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """One at a time, not under a running fit, and only where downloads are allowed."""
        if not engine_jobs.may_set_up():
            cls.poll_message_set("Blender may not go online: allow it in Preferences, System, Network")
            return False
        if running.is_busy():
            cls.poll_message_set("Something is being captured or fitted with the engine")
            return False
        return _is_free(cls)

    @in_words
    def execute(self, context: Any) -> Any:
        """Begins the set-up."""
        return _run(self, jobs.setup_job(engine_jobs.make_plan()))


class SPLATFIT_OT_cancel_engine_setup(bpy.types.Operator):
    """Stop. What has been downloaded is kept, and the next set-up goes on from it"""

    bl_idname = "splatfit.cancel_engine_setup"
    bl_label = "Cancel"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """There is something to cancel."""
        return engine_jobs.is_busy()

    def execute(self, context: Any) -> Any:
        """Ends it."""
        job = engine_jobs.current()
        if job is not None:
            job.cancel()
        return {"FINISHED"}


class SPLATFIT_OT_check_engine(bpy.types.Operator):
    """Look whether the engine works: PyTorch, device, kernels, memory, and a fit of one second"""

    bl_idname = "splatfit.check_engine"
    bl_label = "Check the Engine"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """One at a time."""
        return _is_free(cls)

    @in_words
    def execute(self, context: Any) -> Any:
        """Begins the check."""
        python = engine_jobs.find_python()
        log = Path(bpy.app.tempdir) / "splatfit-check.log"
        return _run(
            self,
            jobs.check_job(python, log, engine_process.engine_environment(), engine_process.check_python),
        )


CLASSES = (SPLATFIT_OT_set_up_engine, SPLATFIT_OT_cancel_engine_setup, SPLATFIT_OT_check_engine)
