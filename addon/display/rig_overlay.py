"""The rig in the viewport, before anything is rendered: what ``splatfit.show_rig`` shows.

The cameras are those of the capture's own plan, so what is dropped there is not shown here. While a rig around the target is
shown, its settings act at once: the target is known, and only whether a camera is in the way is looked at again with the
next press of the button.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bpy
import gpu
from gpu_extras.batch import batch_for_shader

from splat_engine.formats.capture import View
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import AROUND_RIGS, CaptureSettings, declarations

from .. import blender
from ..capture.plan import Plan, around_views
from ..capture.rigs import Framing
from ..settings import choices, properties
from .rig_lines import Lines, RigLines, box_lines, camera_lines

TRAINING_COLOR, HELD_OUT_COLOR, BOX_COLOR = (1.0, 0.6, 0.1, 0.9), (0.3, 0.7, 1.0, 0.9), (1.0, 1.0, 1.0, 0.35)
Key = tuple[Any, ...]
_NAMES = tuple(declarations(CaptureSettings))
_WIDTH_PX = 1.5
MOST_SHOWN = 2000
"""Of more cameras, evenly chosen ones are drawn."""


@dataclass
class Shown:
    """What is on show.

    Attributes:
        scene_name: Whose rig it is.
        framing: The target, or None where nothing has a surface.
        settings: What the lines were made of.
        key: What the scene said then, to tell quickly whether it says something else.
        refused: What it said last that could not act at once.
        views, held_out: How many there are.
        notes: What the plan said.
        lines: What is drawn.
    """

    scene_name: str
    framing: Framing | None
    settings: CaptureSettings
    key: Key
    refused: Key
    views: int
    held_out: int
    notes: tuple[str, ...]
    lines: RigLines

    @property
    def is_outdated(self) -> bool:
        """Tells whether the scene's settings ask for another rig by now."""
        scene = bpy.data.scenes.get(self.scene_name)
        return scene is None or _key_of(scene) != self.key


_shown: Shown | None = None
_handle: Any = None


def shown(scene: Any) -> Shown | None:
    """Returns what is on show of a scene, after its settings of now where they can act at once."""
    if _shown is None or _shown.scene_name != scene.name:
        return None
    key = _key_of(scene)
    if key not in (_shown.key, _shown.refused):
        settings = _settings_of(scene)
        if settings is not None and _shown.framing is not None and _acts_at_once(_shown, settings):
            _take(_shown, settings, around_views(_shown.framing, settings))
            _shown.key = key
        else:
            _shown.refused = key
    return _shown


def show(scene: Any, plan: Plan, settings: CaptureSettings) -> Shown:
    """Puts a plan on show, in every viewport of the scene, in place of another."""
    global _shown, _handle
    nothing = RigLines.of_nothing()
    _shown = Shown(scene.name, plan.framing, settings, _key_of(scene), (), 0, 0, plan.notes, nothing)
    _take(_shown, settings, plan.views)
    if _handle is None:
        space: Any = bpy.types.SpaceView3D
        _handle = space.draw_handler_add(_draw, (), "WINDOW", "POST_VIEW")
    return _shown


def hide() -> None:
    """Takes it away; does nothing where nothing is on show."""
    global _shown, _handle
    _shown = None
    if _handle is not None:
        space: Any = bpy.types.SpaceView3D
        space.draw_handler_remove(_handle, "WINDOW")
        _handle = None


def _key_of(scene: Any) -> Key:
    chosen = scene.splatfit
    target = choices.chosen_target(chosen)
    pointed = (chosen.target_kind, target and target.name, chosen.faces_object and chosen.faces_object.name)
    return (*(getattr(chosen.capture, name) for name in _NAMES), *pointed)


def _settings_of(scene: Any) -> CaptureSettings | None:
    try:
        return properties.capture_settings(scene)
    except UserError:  # something is not chosen yet: the panel says so, and what is shown stays
        return None


def _acts_at_once(before: Shown, settings: CaptureSettings) -> bool:
    around = before.settings.rig in AROUND_RIGS and settings.rig in AROUND_RIGS
    return around and before.settings.target == settings.target


def _take(into: Shown, settings: CaptureSettings, views: Sequence[View]) -> None:
    training = [view.camera for view in views if view.split == "train"]
    held_out = [view.camera for view in views if view.split == "test"]
    into.settings, into.views, into.held_out = settings, len(views), len(held_out)
    stride = -(-len(views) // MOST_SHOWN) or 1
    if into.framing is None:
        middle, radius, box = views[0].camera.position, 1.0, into.lines.box
    else:
        middle, radius = into.framing.sphere.center, into.framing.sphere.radius
        box = box_lines(into.framing.bounds_min, into.framing.bounds_max)
    into.lines = RigLines(
        camera_lines(training[::stride], middle, radius),
        camera_lines(held_out[::stride], middle, radius),
        box,
    )


def _draw() -> None:
    """Called by Blender for each viewport."""
    on_show = shown(bpy.context.scene)
    if on_show is None:
        return
    context: Any = bpy.context
    shader: Any = gpu.shader.from_builtin("POLYLINE_UNIFORM_COLOR")
    shader.uniform_float("viewportSize", gpu.state.viewport_get()[2:])
    shader.uniform_float("lineWidth", _WIDTH_PX * context.preferences.system.pixel_size)
    gpu.state.blend_set("ALPHA")
    gpu.state.depth_test_set("LESS_EQUAL")
    try:
        lines = on_show.lines
        for ends, color in (
            (lines.box, BOX_COLOR),
            (lines.training, TRAINING_COLOR),
            (lines.held_out, HELD_OUT_COLOR),
        ):
            _draw_lines(shader, ends, color)
    finally:
        gpu.state.blend_set("NONE")
        gpu.state.depth_test_set("NONE")


def _draw_lines(shader: Any, ends: Lines, color: tuple[float, float, float, float]) -> None:
    if len(ends):
        shader.uniform_float("color", color)
        make: Any = batch_for_shader
        make(shader, "LINES", {"pos": ends}).draw(shader)


def _file_loads(*_: Any) -> None:
    hide()


def register() -> None:
    """Has what is shown go when another file is loaded."""
    blender.call_at("load_pre", _file_loads)


def unregister() -> None:
    """Takes away what is shown; does nothing where nothing is."""
    hide()
    blender.call_no_more("load_pre", _file_loads)
