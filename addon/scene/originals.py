"""The objects that splats replace: told from lights and cameras, and hidden."""

from __future__ import annotations

from typing import Any

ORIGINAL_TYPES = {
    "MESH",
    "CURVE",
    "SURFACE",
    "META",
    "FONT",
    "CURVES",
    "POINTCLOUD",
    "VOLUME",
    "GREASEPENCIL",
}
"""Types of objects whose picture the splats replace."""


def is_replaceable(object: Any) -> bool:
    """Tells whether splats can show what an object shows: its own surface, or what it instances."""
    return object.type in ORIGINAL_TYPES or object.instance_type != "NONE"


def hide(scene: Any, view_layer: Any, kept: Any) -> tuple[str, ...]:
    """Hides what the splats replace, in the viewport and in renders; lights and cameras stay.

    Args:
        scene: The scene.
        view_layer: Whose eye icons are closed.
        kept: The splat object.

    Returns:
        Notes: which objects cannot be hidden, because they are linked.
    """
    linked = []
    for object in scene.objects:
        if object == kept or not is_replaceable(object):
            continue
        if object.library is not None and object.override_library is None:
            linked.append(object.name)
            continue
        object.hide_render = True
        if object.name in view_layer.objects:  # not in a collection that is excluded
            object.hide_set(True, view_layer=view_layer)
    if not linked:
        return ()
    return (f"Linked objects cannot be hidden here: {', '.join(linked[:5])}{' ...' * (len(linked) > 5)}.",)
