"""Splats or originals: shown in turn by the eye icons, and all as it was before.

What was visible is remembered in the scene, so it is still known after the file was saved and opened, and undo takes it back.
"""

from __future__ import annotations

from typing import Any

import bpy

from .encoding import REQUIRED
from .originals import is_replaceable
from .splat_object import is_splat_object

OFF, SPLATS, ORIGINALS = "OFF", "SPLATS", "ORIGINALS"


def make_class() -> Any:
    """Returns a fresh class of what is remembered of an object: the object, and whether its eye was closed."""
    group: Any = type("SPLATFIT_PG_remembered", (bpy.types.PropertyGroup,), {"__doc__": "An object's eye."})
    group.__annotations__ = {
        "object": bpy.props.PointerProperty(type=bpy.types.Object),
        "hidden": bpy.props.BoolProperty(),
    }
    return group


def sides_of(scene: Any, view_layer: Any) -> tuple[list[Any], list[Any]]:
    """Returns the splat objects and the originals of a scene that have an eye icon in a view layer."""
    splats, originals = [], []
    for item in scene.objects:
        if item.name not in view_layer.objects:  # its collection is excluded
            continue
        if is_splat_object(item):
            splats.append(item)
        elif is_replaceable(item):
            originals.append(item)
    return splats, originals


def show(scene: Any, view_layer: Any, wanted: str) -> None:
    """Shows one side and hides the other, or shows everything as it was before.

    Objects whose eye was closed before the comparison stay hidden, but the side that is shown must show something: a side
    that was hidden as a whole is opened as a whole.

    Args:
        scene: The scene.
        view_layer: Whose eye icons are used.
        wanted: ``SPLATS``, ``ORIGINALS`` or ``OFF``.
    """
    chosen = scene.splatfit
    if chosen.compared == OFF and wanted != OFF:
        _remember(scene, view_layer)
    before = {item.object: item.hidden for item in chosen.remembered if item.object is not None}
    splats, originals = sides_of(scene, view_layer)
    for side, name in ((splats, SPLATS), (originals, ORIGINALS)):
        all_hidden = all(before.get(item, False) for item in side)
        for item in side:
            hidden = before.get(item, False)
            if wanted != OFF:
                hidden = name != wanted or (hidden and not all_hidden)
            elif item not in before:
                continue  # made since; it stays as it is
            if item.hide_get(view_layer=view_layer) != hidden:
                item.hide_set(hidden, view_layer=view_layer)
    chosen.compared = wanted
    if wanted == OFF:
        chosen.remembered.clear()


def _remember(scene: Any, view_layer: Any) -> None:
    remembered = scene.splatfit.remembered
    remembered.clear()
    for side in sides_of(scene, view_layer):
        for item in side:
            entry = remembered.add()
            entry.object, entry.hidden = item, item.hide_get(view_layer=view_layer)


def next_side(scene: Any, view_layer: Any) -> str:
    """Returns what a toggle shows next: at first whichever side changes something."""
    compared: str = scene.splatfit.compared
    if compared != OFF:
        return ORIGINALS if compared == SPLATS else SPLATS
    _, originals = sides_of(scene, view_layer)
    visible = any(not item.hide_get(view_layer=view_layer) for item in originals)
    return SPLATS if visible else ORIGINALS


def closeness(psnr_db: float) -> str:
    """Returns in words how like the original a view of so many dB looks."""
    steps = ((38, "almost identical"), (32, "very close"), (28, "close"), (24, "softer"), (20, "rough"))
    return next((words for least, words in steps if psnr_db >= least), "far off")


def has_splats() -> bool:
    """Tells whether this file has point clouds that are splats; asked at each draw, so it looks at no other object."""
    return any(all(name in cloud.attributes for name in REQUIRED) for cloud in bpy.data.pointclouds)
