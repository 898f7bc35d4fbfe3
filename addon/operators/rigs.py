"""The rig before anything is rendered: shown in the viewport, and one view of it rendered as a test.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

import tempfile
import time
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from .. import blender
from ..capture.capture import capture_steps, plan_capture
from ..display import rig_overlay, test_view
from ..runs import running
from ..scene import results
from ..settings import properties
from .fitting import run_folder
from .words import in_words


def _is_free(operator: Any, context: Any) -> bool:
    if running.is_busy():
        operator.poll_message_set("Something is being captured or fitted")
        return False
    return context.scene is not None


class SPLATFIT_OT_show_rig(bpy.types.Operator):
    """Show in the viewport where the cameras will stand, and what they frame; nothing is rendered"""

    bl_idname = "splatfit.show_rig"
    bl_label = "Show Cameras"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Not while a capture has the scene."""
        return _is_free(cls, context)

    @in_words
    def execute(self, context: Any) -> Any:
        """Shows the rig, or takes it away; one that no longer is what the settings ask for is shown anew."""
        before = rig_overlay.shown(context.scene)
        if before is not None and not before.is_outdated:
            rig_overlay.hide()
            blender.redraw("VIEW_3D", "IMAGE_EDITOR")
            return {"FINISHED"}
        settings = properties.capture_settings(context.scene)
        with _as_fitted(context):
            on_show = rig_overlay.show(context.scene, plan_capture(context, settings), settings)
        for note in on_show.notes:
            self.report({"WARNING"}, note)
        blender.redraw("VIEW_3D", "IMAGE_EDITOR")
        return {"FINISHED"}


class SPLATFIT_OT_test_view(bpy.types.Operator):
    """Render one view as the capture would, to see how it looks and to tell how long all of them take"""

    bl_idname = "splatfit.test_view"
    bl_label = "Test View"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Not while a capture has the scene."""
        return _is_free(cls, context)

    @in_words
    def execute(self, context: Any) -> Any:
        """Renders into a temporary folder; what the scene has and what was captured stay as they are."""
        settings = properties.capture_settings(context.scene)
        quick = replace(settings, pictures=True, adaptive=False, points=0)
        with tempfile.TemporaryDirectory(prefix="splatfit-") as folder:
            root = Path(folder)
            with _as_fitted(context), closing(capture_steps(context, quick, root)) as steps:
                total, seconds = _time_one_view(steps, root)
            picture = next(iter(sorted(root.glob("images/*.png"))))
            test_view.keep(context.scene, picture, seconds, total)
        self.report({"INFO"}, test_view.in_words(context.scene))
        blender.redraw("VIEW_3D", "IMAGE_EDITOR")
        return {"FINISHED"}


def _as_fitted(context: Any) -> AbstractContextManager[None]:
    """As in the capture, what the run made before is neither target nor in the views, and hidden originals are."""
    try:
        run: Path | None = run_folder(context)
    except UserError:  # the file was never saved, so no run has made anything here
        run = None
    return results.as_fitted(context.scene, run)


def _time_one_view(steps: Any, root: Path) -> tuple[int, float]:
    """Returns how many views there are, and how many seconds one took: the second where there is one, for the first also
    loads the scene."""
    total, seconds, since_s = 0, 0.0, time.monotonic()
    for number, state in enumerate(steps):
        total = state.total or total
        if number >= 2:
            seconds = time.monotonic() - since_s
        if number >= 3 or seconds > test_view.LONG_S:
            break
        since_s = time.monotonic()
    return total, seconds


CLASSES = (SPLATFIT_OT_show_rig, SPLATFIT_OT_test_view)
