"""A look at the scene as it renders.

The viewport's dependency graph lacks what is hidden there, particles not shown, and render levels of modifiers;
a render's is given to nobody but a render engine. So a survey is a render by an engine that draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import bpy

from splat_engine.formats.errors import UserError

T = TypeVar("T")

_ENGINE = "SPLATFIT_SURVEY"


def survey(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, visit: Callable[[bpy.types.Depsgraph], T]
) -> T:
    """Calls ``visit`` with the evaluated dependency graph of a render of the scene at its present frame.

    The scene must be set aside and have a camera (``Stage``), and render this view layer alone. Nothing evaluated may be kept beyond the call.

    Args:
        scene: The scene.
        view_layer: The view layer that renders.
        visit: Called once; what it returns is returned, what it raises is raised.

    Raises:
        UserError: Blender cannot render now.
    """
    answers: list[T] = []
    failures: list[BaseException] = []

    class SPLATFIT_RE_survey(bpy.types.RenderEngine):
        bl_idname = _ENGINE
        bl_label = "Splatfit Survey"

        def render(self, depsgraph: Any) -> None:  # type: ignore[override]
            try:
                answers.append(visit(depsgraph))
            except BaseException as error:  # carried across Blender, which would only print it
                failures.append(error)

    render: Any = scene.render  # engines register themselves: their names are no closed list
    engine = render.engine
    bpy.utils.register_class(SPLATFIT_RE_survey)
    try:
        render.engine = _ENGINE
        call_render(scene, write=False)
    finally:
        render.engine = engine
        bpy.utils.unregister_class(SPLATFIT_RE_survey)
    if failures:
        raise failures[0]
    if not answers:
        raise UserError(
            f"The view layer {view_layer.name!r} of {scene.name!r} does not render.",
            "Check that it holds a collection that is not excluded.",
        )
    return answers[0]


def call_render(scene: bpy.types.Scene, *, write: bool) -> None:
    """Renders the scene's present frame.

    Raises:
        UserError: Blender refuses, or could not write the file.
    """
    try:
        bpy.ops.render.render(write_still=write, scene=scene.name)
    except RuntimeError as error:
        text = str(error).removeprefix("Error: ").strip()
        raise UserError(
            f"Blender cannot render the scene {scene.name!r}: {text.splitlines()[0] if text else 'no reason given'}",
            "If a render is running, wait for its end; otherwise see the message.",
            error,
        ) from error
