"""What is done with a result: compare it with the originals, save it on the way.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from typing import Any

import bpy

from ..runs import running
from ..scene import compare, results


class SPLATFIT_OT_compare(bpy.types.Operator):
    """Show the splats or what they were made from, in turn, by the eye icons; and all as it was before"""

    bl_idname = "splatfit.compare"
    bl_label = "Compare"
    bl_options = {"REGISTER", "UNDO"}

    show: bpy.props.EnumProperty(  # type: ignore[valid-type]
        name="Show",
        items=[
            ("TOGGLE", "Toggle", "The other side"),
            (compare.SPLATS, "Splats", "The splats alone"),
            (compare.ORIGINALS, "Originals", "What the splats were made from, alone"),
            (compare.OFF, "As Before", "Everything that was visible before the comparison"),
        ],
        default="TOGGLE",
    )

    @classmethod
    def poll(cls, context: Any) -> bool:
        """There must be splats."""
        if context.scene is None or context.view_layer is None:
            return False
        if context.scene.splatfit.compared == compare.OFF and not compare.has_splats():
            cls.poll_message_set("There are no splats in this file")
            return False
        return True

    def execute(self, context: Any) -> Any:
        """Opens and closes eyes."""
        scene, view_layer = context.scene, context.view_layer
        wanted = self.show if self.show != "TOGGLE" else compare.next_side(scene, view_layer)
        compare.show(scene, view_layer, wanted)
        return {"FINISHED"}


class SPLATFIT_OT_show_originals(bpy.types.Operator):
    """Show again what was hidden when the splats came, in the viewport and in renders"""

    bl_idname = "splatfit.show_originals"
    bl_label = "Show the Originals"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only where they were hidden."""
        return context.scene is not None and context.scene.splatfit.originals_hidden

    def execute(self, context: Any) -> Any:
        """Shows them."""
        results.show_originals(context.scene)
        return {"FINISHED"}


class SPLATFIT_OT_save(bpy.types.Operator):
    """Have the fit saved now: a checkpoint to go on from, and the splats as they are"""

    bl_idname = "splatfit.save"
    bl_label = "Save"

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only a fit can be saved."""
        job = running.current()
        return job is not None and job.session.state.has_engine

    def execute(self, context: Any) -> Any:
        """Asks the engine."""
        job = running.current()
        return {"FINISHED"} if job is not None and job.session.save() else {"CANCELLED"}


CLASSES = (SPLATFIT_OT_compare, SPLATFIT_OT_show_originals, SPLATFIT_OT_save)
