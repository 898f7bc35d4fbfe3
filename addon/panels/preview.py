"""The panel for what is seen while splats are fitted, and for the engine's picture."""

from __future__ import annotations

from typing import Any

import bpy

from ..display import engine_view, preview
from ..runs import running
from ..scene import splat_object
from .sidebar import Sidebar

_PICTURE_SCALE = 9.0
"""Of the picture, in lines of the panel."""


class SPLATFIT_PT_preview(Sidebar, bpy.types.Panel):
    """Whether splats are shown while they are fitted, and the engine's picture on request."""

    bl_label = "Preview"
    bl_idname = "SPLATFIT_PT_preview"
    bl_parent_id = "SPLATFIT_PT_main"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """While something is fitted, and for splats."""
        return _is_fitting() or splat_object.is_splat_object(context.object)

    def draw(self, context: Any) -> None:
        """Draws switches, the button and the picture."""
        column = self.layout.column()
        if _is_fitting():
            _draw_live(column, context.scene.splatfit)
        column.operator("splatfit.render_engine_view", icon="IMAGE_DATA")
        if engine_view.preview_image() is not None:
            column.template_icon(icon_value=engine_view.icon.icon_id, scale=_PICTURE_SCALE)
            column.operator("splatfit.open_engine_view", icon="WINDOW")


def _draw_live(column: Any, chosen: Any) -> None:
    column.prop(chosen, "live_preview")
    live = preview.current()
    if chosen.live_preview and live is not None and live.shown_step >= 0:
        column.label(text=f"The viewport shows step {live.shown_step:,}", icon="HIDE_OFF")
    column.prop(chosen, "follow_view")


def _is_fitting() -> bool:
    job = running.current()
    return job is not None and job.session.state.has_engine


CLASSES = (SPLATFIT_PT_preview,)
