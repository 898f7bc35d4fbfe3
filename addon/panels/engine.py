"""The panel for an engine that is not ready."""

from __future__ import annotations

from typing import Any

import bpy

from ..display import engine_box
from ..display.layouts import line_characters
from ..engine import engine_jobs
from .sidebar import Sidebar


class SPLATFIT_PT_engine(Sidebar, bpy.types.Panel):
    """What the engine lacks and how to get it; out of the way when it lacks nothing."""

    bl_label = "Splat Engine"
    bl_idname = "SPLATFIT_PT_engine"
    bl_order = -1

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only where there is something to do, to see or to have seen."""
        return engine_jobs.current() is not None or bool(engine_jobs.missing())

    def draw(self, context: Any) -> None:
        """Draws it."""
        engine_box.draw(self.layout, line_characters(context))
        engine_box.draw_choice(self.layout)


CLASSES = (SPLATFIT_PT_engine,)
