"""How large the target is, for the panel: found when the scene has been still for a moment, never while drawing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.errors import UserError

from .. import blender
from ..capture.bounds import INVISIBLE
from ..capture.rigs import frame_target
from ..scene.results import is_original
from ..scene.splat_object import is_splat_object

log = logging.getLogger(__name__)

_STILL_S = 0.3
"""So long after the last draw that missed it, the size is found."""


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
    """Measures a target by its objects' boxes, and remembers it for its scene; splats do not count.

    Args:
        scene: The scene.
        target: An object with its children, a collection, or None for everything that renders.
    """
    found = TargetSize()
    names, boxes = _boxes(scene, target)
    try:
        framing = frame_target(boxes, names, chosen=target is not None)
    except UserError as error:
        log.debug("%s has no size: %s", scene.name, error)
    else:
        x, y, z = (framing.bounds_max - framing.bounds_min).tolist()
        found = TargetSize((x, y, z), framing.backdrops)
    _known[scene.name] = found
    _fresh.add(scene.name)
    return found


def _boxes(scene: Any, target: Any) -> tuple[list[str], NDArray[np.float32]]:
    """Returns names and [N, 8, 3] corners of what has an extent: objects, and what collection instances show."""
    is_collection = isinstance(target, bpy.types.Collection)
    items = target.all_objects if is_collection else scene.objects
    renders = ~_array(items, "hide_render", np.bool_)
    if scene.splatfit.originals_hidden:  # the next fit shows them
        renders |= np.array([is_original(item) for item in items], np.bool_)
    renders &= _array(items, "visible_camera", np.bool_)
    if target is not None and not is_collection:
        members = {target, *target.children_recursive}
        renders &= np.array([item in members for item in items], np.bool_)
    world = _array(items, "matrix_world", np.float32, 16).reshape(-1, 4, 4)
    solid = renders & _is_solid(items)
    names = [items[int(number)].name for number in np.flatnonzero(solid)]
    boxes = [_placed(_corners(items)[solid], world[solid])]
    for number in np.flatnonzero(renders & (_array(items, "instance_type", np.int32) != 0)):
        item = items[int(number)]
        if item.instance_collection is not None:
            shown = _boxes_of_instance(item.instance_collection, world[number])
            names += [item.name] * len(shown)
            boxes.append(shown)
    points = np.concatenate(boxes)
    good = np.isfinite(points).all(axis=(1, 2)) & (np.ptp(points, axis=1).max(axis=1) > 0)
    return [name for name, is_good in zip(names, good, strict=True) if is_good], points[good]


def _boxes_of_instance(shown: Any, world: NDArray[np.float32]) -> NDArray[np.float32]:
    items = shown.all_objects
    solid = _is_solid(items)
    matrices = _array(items, "matrix_world", np.float32, 16).reshape(-1, 4, 4)[solid]
    local = _placed(_corners(items)[solid], matrices) - np.array(shown.instance_offset, np.float32)
    return _placed(local, np.broadcast_to(world, matrices.shape))


def _is_solid(items: Any) -> NDArray[np.bool_]:
    """Tells which objects are drawn and hold no splats."""
    numbers = {item.identifier: item.value for item in bpy.types.Object.bl_rna.properties["type"].enum_items}  # type: ignore[attr-defined]
    types = _array(items, "type", np.int32)
    solid: NDArray[np.bool_] = ~np.isin(types, [numbers[name] for name in INVISIBLE])
    for number in np.flatnonzero(types == numbers["POINTCLOUD"]):
        solid[number] = not is_splat_object(items[int(number)])
    return solid


def _array(items: Any, name: str, kind: Any, width: int = 1) -> Any:
    values = np.empty(len(items) * width, kind)
    items.foreach_get(name, values)
    return values


def _corners(items: Any) -> NDArray[np.float32]:
    corners: NDArray[np.float32] = _array(items, "bound_box", np.float32, 24).reshape(-1, 8, 3)
    return corners


def _placed(points: NDArray[np.float32], matrices: NDArray[np.float32]) -> NDArray[np.float32]:
    """Moves [N, 8, 3] points by Blender's matrices, which it hands out column by column."""
    return points @ matrices[:, :3, :3] + matrices[:, 3:, :3]


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


def _find() -> float | None:
    """Called by a timer; again while an animation plays, which is not to stutter."""
    from .choices import chosen_target  # it fills the settings, and tells this module so

    context: Any = bpy.context
    if any(window.screen.is_animation_playing for window in context.window_manager.windows):
        return _STILL_S
    for name in _waiting:
        scene: Any = bpy.data.scenes.get(name)
        if scene is not None:
            measure(scene, chosen_target(scene.splatfit))
    _waiting.clear()
    blender.redraw("VIEW_3D")
    return None


def _scene_changed(*_: Any) -> None:
    forget()


def _file_loaded(*_: Any) -> None:
    forget()
    _known.clear()


_CALLS = (
    ("load_post", _file_loaded),
    ("depsgraph_update_post", _scene_changed),
    ("undo_post", _scene_changed),
    ("redo_post", _scene_changed),
)


def register() -> None:
    """Listens for changes."""
    for event, call in _CALLS:
        blender.call_at(event, call)


def unregister() -> None:
    """Listens no longer; does nothing where it did not."""
    forget()
    _known.clear()
    _waiting.clear()
    if bpy.app.timers.is_registered(_find):
        bpy.app.timers.unregister(_find)
    for event, call in _CALLS:
        blender.call_no_more(event, call)
