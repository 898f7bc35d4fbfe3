"""The areas of all windows: what there is to be drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bpy


def areas(*types: str) -> Iterator[Any]:
    """Yields the areas of some types (``VIEW_3D``, ``IMAGE_EDITOR`` ...) in all windows; none without a window."""
    manager: Any = bpy.context.window_manager
    for window in manager.windows:
        yield from (area for area in window.screen.areas if area.type in types)


def redraw(*types: str) -> None:
    """Has the areas of some types drawn anew."""
    for area in areas(*types):
        area.tag_redraw()
