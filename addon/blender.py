"""What Blender is asked and told again and again: the areas of all windows, and functions that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import bpy
from bpy.app.handlers import persistent


def areas(*types: str) -> Iterator[Any]:
    """Yields the areas of some types (``VIEW_3D``, ``IMAGE_EDITOR`` ...) in all windows; none without a window."""
    manager: Any = bpy.context.window_manager
    for window in manager.windows:
        yield from (area for area in window.screen.areas if area.type in types)


def redraw(*types: str) -> None:
    """Has the areas of some types drawn anew."""
    for area in areas(*types):
        area.tag_redraw()


def call_at(event: str, function: Callable[..., None]) -> None:
    """Has Blender call a function at an event, in every file that is opened.

    Args:
        event: A list of ``bpy.app.handlers``: ``load_pre``, ``undo_post`` ...
        function: What is called; once, however often it is asked for.
    """
    handlers: Any = getattr(bpy.app.handlers, event)
    if function not in handlers:
        handlers.append(persistent(function))


def call_no_more(event: str, function: Callable[..., None]) -> None:
    """Takes ``call_at`` back; does nothing where Blender was not asked."""
    handlers: Any = getattr(bpy.app.handlers, event)
    if function in handlers:
        handlers.remove(function)
