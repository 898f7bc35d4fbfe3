"""What becomes of results, as the panel's choices say: earlier splats kept, originals hidden, and shown again for the next fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..capture.capture import scene_of
from ..runs import workflow
from . import compare

HIDDEN_KEY = "splatfit_hidden"
"""On an original that was hidden for a result: what was hidden before, of ``_EYE`` and ``_RENDER``."""
_EYE, _RENDER = 1, 2


def keep_earlier(scene: Any, run: Path) -> None:
    """Has the splats that a run made so far stay as they are: the next result becomes an object of its own."""
    for item in workflow.results_of(scene, run):
        item[workflow.KEPT_KEY] = True


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
    notes = workflow.hide_originals(scene, view_layer, kept)
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
    made = workflow.results_of(scene, run, with_kept=True) if run is not None else []
    changed = [item for item in made if not item.hide_render]
    changed += [item for item in scene.objects if is_original(item) and item.hide_render]
    for item in changed:
        item.hide_render = not item.hide_render
    try:
        yield
    finally:
        for item in changed:
            item.hide_render = not item.hide_render


def is_original(item: Any) -> bool:
    """Tells whether an object was hidden for a result and rendered before."""
    hidden = item.get(HIDDEN_KEY)
    return isinstance(hidden, int) and not hidden & _RENDER
