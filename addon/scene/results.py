"""What becomes of results, as the panel's choices say: earlier splats kept, originals hidden, and shown again for the next fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy

from ..capture.capture import scene_of
from . import compare, originals
from .splat_object import get_provenance, is_splat_object

KEPT_KEY = "splatfit_kept"
"""Custom property of a splat object that the next result of its run does not replace."""
HIDDEN_KEY = "splatfit_hidden"
"""On an original that was hidden for a result: what was hidden before, of ``_EYE`` and ``_RENDER``."""
_EYE, _RENDER = 1, 2


def made_by(scene: Any, run: Path, *, with_kept: bool = False) -> list[Any]:
    """Returns the objects of a scene that a run made; those that a person wants to keep as they are only if asked for."""
    origin = str(run.resolve())
    found = [item for item in scene.objects if is_splat_object(item) and get_provenance(item).run == origin]
    return [item for item in found if with_kept or not item.get(KEPT_KEY)]


def remove_splats(object: Any) -> None:
    """Removes a splat object, and its data if nobody else uses it; instances of ellipsoids go with it."""
    data = object.data
    bpy.data.objects.remove(object)
    if data is not None and data.users == 0:
        bpy.data.batch_remove([data])


def result_name(run: Path) -> str:
    """Returns the name of the object that a run's splats get."""
    origin = run.resolve()
    return f"Splats {origin.parent.name}/{origin.name}"


def keep_earlier(scene: Any, run: Path) -> None:
    """Has the splats that a run made so far stay as they are: the next result becomes an object of its own."""
    for item in made_by(scene, run):
        item[KEPT_KEY] = True


def hide_originals(scene: Any, kept: Any) -> tuple[str, ...]:
    """Hides what the splats replace, and remembers what was hidden before.

    Args:
        scene: The scene.
        kept: The splat object that stays.

    Returns:
        Notes: which objects cannot be hidden.
    """
    _, view_layer = scene_of(scene)
    if scene.splatfit.compared != compare.OFF:
        compare.show(scene, view_layer, compare.OFF)
    before = {item: _hidden(item, view_layer) for item in scene.objects}
    notes = originals.hide(scene, view_layer, kept)
    for item, hidden in before.items():
        if _hidden(item, view_layer) != hidden:
            item[HIDDEN_KEY] = hidden
    scene.splatfit.originals_hidden = True
    return notes


def show_originals(scene: Any) -> None:
    """Takes back what ``hide_originals`` did, exactly; what a person has shown meanwhile stays shown."""
    _, view_layer = scene_of(scene)
    for item in scene.objects:
        hidden = item.get(HIDDEN_KEY)
        if not isinstance(hidden, int):
            continue
        del item[HIDDEN_KEY]
        item.hide_render = item.hide_render and bool(hidden & _RENDER)
        if item.name in view_layer.objects:
            item.hide_set(item.hide_get(view_layer=view_layer) and bool(hidden & _EYE), view_layer=view_layer)
    scene.splatfit.originals_hidden = False


def show_hidden(scene: Any) -> None:
    """Shows hidden originals, if there are any, before they are captured."""
    if scene.splatfit.originals_hidden:
        show_originals(scene)


def _hidden(item: Any, view_layer: Any) -> int:
    eye = item.name in view_layer.objects and item.hide_get(view_layer=view_layer)
    return _EYE * bool(eye) + _RENDER * bool(item.hide_render)


def before_fit(scene: Any, run: Path, *, resume: bool) -> None:
    """Prepares a scene for a fit: hidden originals are shown, for they are what is fitted; earlier splats are kept if asked for."""
    show_hidden(scene)
    if scene.splatfit.result_mode == "NEW" and not resume:
        keep_earlier(scene, run)


def after_fit(scene: Any, added: Any) -> tuple[str, ...]:
    """Does with a result in its scene what the panel's choices say; returns notes."""
    return hide_originals(scene, added) if scene.splatfit.hide_originals else ()


@contextmanager
def as_fitted(scene: Any, run: Path | None) -> Iterator[None]:
    """Has renders see meanwhile what a fit would see: hidden originals, and nothing that its run made.

    Args:
        scene: The scene.
        run: The run's folder, or None: it has made nothing yet.
    """
    made = made_by(scene, run, with_kept=True) if run is not None else []
    left_out = [item for item in made if not item.hide_render]
    hidden = [item for item in scene.objects if is_original(item) and item.hide_render]
    brought_back = [item for item in hidden if item not in made]
    _set_hide_render(left_out, brought_back)
    try:
        yield
    finally:
        _set_hide_render(brought_back, left_out)


def _set_hide_render(hidden: list[Any], shown: list[Any]) -> None:
    for item in hidden:
        item.hide_render = True
    for item in shown:
        item.hide_render = False


def is_original(item: Any) -> bool:
    """Tells whether an object was hidden for a result and rendered before."""
    hidden = item.get(HIDDEN_KEY)
    return isinstance(hidden, int) and not hidden & _RENDER
