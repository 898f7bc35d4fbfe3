"""The engine's picture on request.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from ..display import engine_view, preview
from ..runs import running
from ..scene import splat_object
from .words import in_words


class SPLATFIT_OT_render_engine_view(bpy.types.Operator):
    """Draw what you look at with the splat engine, into the image Splatfit Preview. An Image Editor shows it"""

    bl_idname = "splatfit.render_engine_view"
    bl_label = "Draw with the Engine"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """A fit must run, or there must be splats to draw."""
        if _fitting() is None and _splats_to_draw(context) is None:
            cls.poll_message_set("Select a splat object, or wait until the fit has begun")
            return False
        return True

    @in_words
    def execute(self, context: Any) -> Any:
        """Asks the engine that fits, whose picture comes in a moment; else draws the splat object here."""
        camera = engine_view.camera_to_draw(context)
        job, object = _fitting(), _splats_to_draw(context)
        if job is not None and preview.requests_of(job).ask(camera):
            self.report({"INFO"}, f"The engine draws it: see the image {engine_view.IMAGE_NAME}")
            return {"FINISHED"}
        if object is None:
            raise UserError("There is nothing to draw.", "Select a splat object.")
        image = engine_view.draw_object(object, camera)
        self.report({"INFO"}, f"Drawn: see the image {image.name}")
        return {"FINISHED"}


class SPLATFIT_OT_open_engine_view(bpy.types.Operator):
    """Show the engine's picture in a window of its own"""

    bl_idname = "splatfit.open_engine_view"
    bl_label = "Show in a Window"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """There must be a picture, and a window."""
        return engine_view.preview_image() is not None and context.window is not None

    def execute(self, context: Any) -> Any:
        """Opens an Image Editor."""
        before = set(context.window_manager.windows)
        if bpy.ops.screen.area_dupli("INVOKE_DEFAULT") != {"FINISHED"}:
            return {"CANCELLED"}
        window = next(item for item in context.window_manager.windows if item not in before)
        area = window.screen.areas[0]
        area.type = "IMAGE_EDITOR"
        area.spaces.active.image = engine_view.preview_image()
        return {"FINISHED"}


def _fitting() -> running.Running | None:
    job = running.current()
    return job if job is not None and job.session.state.has_engine else None


def _splats_to_draw(context: Any) -> Any:
    """Returns the active splat object, else the scene's only one; None if it is not clear."""
    if splat_object.is_splat_object(context.object):
        return context.object
    found = [item for item in context.scene.objects if splat_object.is_splat_object(item)]
    return found[0] if len(found) == 1 else None


CLASSES = (SPLATFIT_OT_render_engine_view, SPLATFIT_OT_open_engine_view)
