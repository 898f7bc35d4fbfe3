"""What can be done to the splats of the active object."""

from __future__ import annotations

from typing import Any

import bpy

from ..edit import points
from ..scene import ellipsoids, splat_object
from .sidebar import Sidebar


class SPLATFIT_PT_edit(Sidebar, bpy.types.Panel):
    """Cleaning, cropping, selecting and moving splats."""

    bl_label = "Edit Splats"
    bl_idname = "SPLATFIT_PT_edit"
    bl_parent_id = "SPLATFIT_PT_main"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Is there for splat objects alone."""
        return splat_object.is_splat_object(context.object)

    def draw(self, context: Any) -> None:
        """Draws the buttons, in the order of their use."""
        clean = self.layout.column(align=True)
        clean.operator("splatfit.remove_floaters", icon="BRUSH_DATA")
        clean.operator("splatfit.filter", text="Delete by Opacity or Size...", icon="FILTER")
        clean.operator("splatfit.crop", icon="SELECT_SUBTRACT")
        chosen = self.layout.column(align=True)
        object = context.object
        if object is not None and splat_object.object_names_of(object):
            chosen.operator("splatfit.select_by_source", text="Select by Object...", icon="OUTLINER_OB_MESH")
        acting = chosen.row(align=True)
        acting.enabled = points.has_selection(object)
        acting.operator("splatfit.separate_selected", text="Separate", icon="MOD_EXPLODE")
        acting.operator("splatfit.delete_selected", text="Delete", icon="TRASH")
        if points.has_selection(object):
            _draw_selection(chosen, object)
        self.layout.operator("splatfit.apply_transform", icon="OBJECT_ORIGIN")


def _draw_selection(layout: Any, object: Any) -> None:
    """Tells how many splats are selected, and offers Edit Mode, where Blender marks them."""
    mask = points.selected(object)
    row = layout.row()
    row.label(text=f"{int(mask.sum()):,} of {len(mask):,} selected", icon="RESTRICT_SELECT_OFF")
    row.operator("object.editmode_toggle", text="", icon="EDITMODE_HLT", depress=object.mode == "EDIT")
    modifier = ellipsoids.modifier_of(object)
    if modifier is not None and object.mode == "EDIT":
        layout.prop(modifier, "show_viewport", text="Show Ellipsoids", toggle=True)


CLASSES = (SPLATFIT_PT_edit,)
