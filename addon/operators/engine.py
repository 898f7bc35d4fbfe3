"""Is the engine's Python fit to be used?"""

from __future__ import annotations

from typing import Any

import bpy

from .. import engine_process, preferences
from .words import in_words


class SPLATFIT_OT_check_engine(bpy.types.Operator):
    """Look whether the engine's Python is there and has torch and splat-engine."""

    bl_idname = "splatfit.check_engine"
    bl_label = "Check the Engine"

    @in_words
    def execute(self, context: Any) -> Any:
        """Reports what was found."""
        found = engine_process.check_python(engine_process.find_python(preferences.engine_python()))
        engine = found.engine_version or "of the checkout"
        self.report(
            {"INFO"},
            f"Python {found.python_version}, torch {found.torch_version}, splat-engine {engine}: {found.python}",
        )
        return {"FINISHED"}


CLASSES = (SPLATFIT_OT_check_engine,)
