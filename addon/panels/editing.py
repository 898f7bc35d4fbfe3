"""What can be done to the splats of the active object."""

from __future__ import annotations

from typing import Any

import bpy

from .. import scene
from ..edit import points
from .sidebar import Sidebar


class SPLATFIT_PT_edit(Sidebar, bpy.types.Panel):
    """Cleaning, cropping, selecting and moving splats."""

    bl_label = "Edit Splats"
    bl_idname = "SPLATFIT_PT_edit"
    bl_parent_id = "SPLATFIT_PT_main"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Is there for splat objects alone."""
        return scene.is_splat_object(context.object)

    def draw(self, context: Any) -> None:
        """Draws the buttons, in the order of their use."""
        clean = self.layout.column(align=True)
        clean.operator("splatfit.remove_floaters", icon="BRUSH_DATA")
        clean.operator("splatfit.filter", text="Delete by Opacity or Size...", icon="FILTER")
        clean.operator("splatfit.crop", icon="SELECT_SUBTRACT")
        chosen = self.layout.column(align=True)
        object = context.object
        if object is not None and scene.object_names_of(object):
            chosen.operator("splatfit.select_by_source", text="Select by Object...", icon="OUTLINER_OB_MESH")
        has_selection = points.has_selection(object)
        acting = chosen.row(align=True)
        acting.enabled = has_selection
        acting.operator("splatfit.separate_selected", text="Separate", icon="MOD_EXPLODE")
        acting.operator("splatfit.delete_selected", text="Delete", icon="TRASH")
        if has_selection:
            mask = points.selected(object)
            told = chosen.row()
            told.label(text=f"{int(mask.sum()):,} of {len(mask):,} selected", icon="RESTRICT_SELECT_OFF")
            is_shown = object.mode == "EDIT"  # where Blender marks them
            told.operator("object.editmode_toggle", text="", icon="EDITMODE_HLT", depress=is_shown)
        self.layout.operator("splatfit.apply_transform", icon="OBJECT_ORIGIN")


CLASSES = (SPLATFIT_PT_edit,)
