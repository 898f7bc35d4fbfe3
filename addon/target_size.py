"""How large the target is, for the panel: found when the scene has been still for a moment, never while drawing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

from .capture.bounds import INVISIBLE
from .capture.rigs import frame_target

log = logging.getLogger(__name__)

_STILL_S = 0.3
"""So long after the last draw that missed it, the size is found."""
_MOST_OBJECTS = 20000
"""Beyond, a look at all of them would be felt; the capture finds the bounds anyway."""


@dataclass(frozen=True)
class TargetSize:
    """How large a target is.

    Attributes:
        size: (x, y, z) scene units; None: nothing that renders has an extent.
        backdrops: Names of what counts as surroundings.
    """

    size: tuple[float, float, float] | None = None
    backdrops: tuple[str, ...] = ()


_known: dict[str, TargetSize] = {}
_fresh: set[str] = set()
_waiting: set[str] = set()


def of(scene: Any) -> TargetSize | None:
    """Returns what was known last, None at first; has it found anew where something changed. Does no work but a look-up."""
    if scene.name not in _fresh and not bpy.app.background:
        _waiting.add(scene.name)
        if not bpy.app.timers.is_registered(_find):
            bpy.app.timers.register(_find, first_interval=_STILL_S)
    return _known.get(scene.name)


def is_fresh(scene: Any) -> bool:
    """Tells whether nothing changed since the scene's target was measured."""
    return scene.name in _fresh


def forget() -> None:
    """Says that something changed: what is known is of before."""
    _fresh.clear()


def measure(scene: Any, target: Any = None) -> TargetSize:
    """Measures a target by its objects' boxes, and remembers it for its scene.

    Args:
        scene: The scene.
        target: An object with its children, a collection, or None for everything that renders.
    """
    found = TargetSize()
    pairs = [(item.name, box) for item in _members(scene, target)[:_MOST_OBJECTS] for box in _boxes(item)]
    pairs = [(name, box) for name, box in pairs if np.isfinite(box).all() and np.ptp(box, axis=0).max() > 0]
    points = np.array([box for _, box in pairs], np.float32).reshape(-1, 8, 3)
    try:
        framing = frame_target(points, [name for name, _ in pairs], chosen=target is not None)
    except UserError as error:
        log.debug("%s has no size: %s", scene.name, error)
    else:
        x, y, z = (framing.bounds_max - framing.bounds_min).tolist()
        found = TargetSize((x, y, z), framing.backdrops)
    _known[scene.name] = found
    _fresh.add(scene.name)
    return found


def _members(scene: Any, target: Any) -> list[Any]:
    if target is None:
        items = scene.objects
    elif isinstance(target, bpy.types.Collection):
        items = target.all_objects
    else:
        items = [target, *target.children_recursive]
    return [item for item in items if not item.hide_render and item.visible_camera]


def _boxes(item: Any) -> Iterator[Float]:
    """Yields [8, 3] corners: the object's own, or those of the collection that it stands for."""
    world = np.array(item.matrix_world)
    if item.instance_type == "COLLECTION" and item.instance_collection is not None:
        offset = np.array(item.instance_collection.instance_offset)
        for held in item.instance_collection.all_objects:
            if held.type not in INVISIBLE:
                yield _moved(_moved(_corners(held), np.array(held.matrix_world)) - offset, world)
    elif item.type not in INVISIBLE:
        yield _moved(_corners(item), world)


def _corners(item: Any) -> Float:
    return np.array(item.bound_box, dtype=np.float64)


def _moved(points: Float, matrix: Float) -> Float:
    moved: Float = points @ matrix[:3, :3].T + matrix[:3, 3]
    return moved


def in_words(scene: Any, found: TargetSize | None) -> str:
    """Returns a line for the panel, in the scene's units."""
    if found is None:
        return "Measuring ..."
    if found.size is None:
        return "Nothing here renders"
    return " × ".join(length_in_words(scene, value) for value in found.size)


def length_in_words(scene: Any, value: float) -> str:
    """Returns a length in the scene's units."""
    units = scene.unit_settings
    if units.system == "NONE":
        return f"{value:.3g}"
    text: str = bpy.utils.units.to_string(
        units.system, "LENGTH", value * units.scale_length, precision=3, compatible_unit=False
    )
    return text


def _find() -> None:
    """Called by a timer, once."""
    from .choices import chosen_target  # it fills the settings, and tells this module so

    for name in _waiting:
        scene: Any = bpy.data.scenes.get(name)
        if scene is not None:
            measure(scene, chosen_target(scene.splatfit))
    _waiting.clear()
    context: Any = bpy.context
    for window in context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


@persistent  # type: ignore[untyped-decorator]
def _scene_changed(*_: Any) -> None:
    forget()


@persistent  # type: ignore[untyped-decorator]
def _file_loaded(*_: Any) -> None:
    forget()
    _known.clear()


def _handlers() -> tuple[tuple[list[Any], Any], ...]:
    calls: Any = bpy.app.handlers
    changed = [calls.depsgraph_update_post, calls.undo_post, calls.redo_post]
    return ((calls.load_post, _file_loaded), *((handlers, _scene_changed) for handlers in changed))


def register() -> None:
    """Listens for changes."""
    for handlers, call in _handlers():
        handlers.append(call)


def unregister() -> None:
    """Listens no longer; does nothing where it did not."""
    forget()
    _known.clear()
    _waiting.clear()
    if bpy.app.timers.is_registered(_find):
        bpy.app.timers.unregister(_find)
    for handlers, call in _handlers():
        if call in handlers:
            handlers.remove(call)
