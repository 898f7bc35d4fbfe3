"""What a button does about an error.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from typing import Any

import bpy

from ..runs import running


class SPLATFIT_OT_lower_budget(bpy.types.Operator):
    """Ask for so few splats that they fit into memory. The views are kept: press Fit again"""

    bl_idname = "splatfit.lower_budget"
    bl_label = "Lower the Number of Splats"
    bl_options = {"UNDO"}

    most: bpy.props.IntProperty(  # type: ignore[valid-type]
        name="Most Splats", description="How many fit into memory", min=1, default=1, options={"SKIP_SAVE"}
    )

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Not under a running fit."""
        return not running.is_busy()

    def execute(self, context: Any) -> Any:
        """Lowers what is above it."""
        chosen = context.scene.splatfit
        chosen.fit.max_splats = min(chosen.fit.max_splats, self.most)
        chosen.start.start_splats = min(chosen.start.start_splats, self.most)
        self.report({"INFO"}, f"At most {self.most:,} splats: press Fit again")
        return {"FINISHED"}


CLASSES = (SPLATFIT_OT_lower_budget,)
