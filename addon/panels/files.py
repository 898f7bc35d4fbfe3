"""The panel for splats in and out."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import bpy

from ..display.layouts import draw_text, line_characters
from ..scene import splat_object
from ..scene.compare import closeness
from .sidebar import Sidebar


class SPLATFIT_PT_files(Sidebar, bpy.types.Panel):
    """Splats in and out, and where the active object's are from."""

    bl_label = "Splat Files"
    bl_idname = "SPLATFIT_PT_files"
    bl_parent_id = "SPLATFIT_PT_main"

    def draw(self, context: Any) -> None:
        """Draws the buttons and the active object's origin."""
        buttons = self.layout.column(align=True)
        buttons.operator("splatfit.import_ply", icon="IMPORT")
        buttons.operator("splatfit.export_ply", icon="EXPORT")
        if splat_object.is_splat_object(context.object):
            _draw_origin(self.layout, context.object, line_characters(context))


def _draw_origin(layout: Any, object: Any, width: int) -> None:
    made = splat_object.get_provenance(object)
    box = layout.box()
    box.label(text=object.name, icon="POINTCLOUD_DATA")
    if made.run:
        draw_text(box, f"From {_short(made.run)}", width)
    if made.splats:
        look = {"blender": ", Blender's look", "classic": ", look of web viewers"}.get(made.formation, "")
        draw_text(box, f"{made.splats:,} splats{look}", width)
    if made.psnr_db is not None:
        words = closeness(made.psnr_db)
        draw_text(box, f"{made.psnr_db:.1f} dB on views it never saw: {words}", width)


def _short(place: str) -> str:
    """The last two parts of a path say which run it is; the whole is in the object's custom properties."""
    return "/".join(PurePath(place).parts[-2:])


CLASSES = (SPLATFIT_PT_files,)
