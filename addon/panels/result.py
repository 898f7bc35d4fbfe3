"""The panel for what becomes of the result, and for looking at it beside the originals."""

from __future__ import annotations

from typing import Any

import bpy

from ..scene import compare
from .sidebar import Sidebar


class SPLATFIT_PT_result(Sidebar, bpy.types.Panel):
    """Where splats go, and the comparison."""

    bl_label = "Result"
    bl_idname = "SPLATFIT_PT_result"
    bl_parent_id = "SPLATFIT_PT_main"

    def draw(self, context: Any) -> None:
        """Draws the choices, and the comparison where there is something to compare."""
        layout, chosen = self.layout, context.scene.splatfit
        layout.row(align=True).prop(chosen, "result_mode", expand=True)
        layout.prop(chosen, "hide_originals")
        if chosen.originals_hidden:
            layout.operator("splatfit.show_originals", icon="HIDE_OFF")
        if compare.has_splats() or chosen.compared != compare.OFF:
            _draw_comparison(layout, chosen)


def _draw_comparison(layout: Any, chosen: Any) -> None:
    if chosen.compared == compare.OFF:
        layout.operator(
            "splatfit.compare", text="Compare with the Originals", icon="MOD_MIRROR"
        ).show = "TOGGLE"
        return
    row = layout.row(align=True)
    for side in (compare.SPLATS, compare.ORIGINALS):
        button = row.operator("splatfit.compare", text=side.title(), depress=chosen.compared == side)
        button.show = side
    row.operator("splatfit.compare", text="", icon="X").show = compare.OFF


CLASSES = (SPLATFIT_PT_result,)
