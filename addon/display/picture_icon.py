"""A picture of ours as an icon, which is how panels show pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from bpy.utils import previews
from numpy.typing import NDArray

Pixels = NDArray[np.float32]
"""[height, width, 4] RGBA in 0 to 1, the lowest row first, as Blender keeps pictures."""
_OUTSIDE = 0.005
"""Share of the alpha that may lie beyond each edge of what is framed: splats that float far off count for nothing."""
_AIR = 1.25
"""Of the square, relative to what it frames."""


def framed(pixels: Pixels) -> Pixels:
    """Returns the square around what a picture shows, for an icon is square; as much of the picture as lies within it.

    Args:
        pixels: The picture; where it is transparent it shows nothing.

    Returns:
        A part of it, or all of it where nothing or everything is shown.
    """
    spans = [_span(pixels[..., 3].sum(axis=axis)) for axis in (1, 0)]
    side = int(_AIR * max(end - start for start, end in spans))
    parts = []
    for (start, end), size in zip(spans, pixels.shape[:2], strict=True):
        length = min(side, size)
        first = min(max((start + end - length) // 2, 0), size - length)
        parts.append(slice(first, first + length))
    return pixels[parts[0], parts[1]]


def _span(weights: NDArray[np.float32]) -> tuple[int, int]:
    """Returns (first, behind the last) line of nearly all the weight; all lines where there is none."""
    total = np.cumsum(weights, dtype=np.float64)
    if total[-1] <= 0:
        return 0, len(weights)
    first, last = np.searchsorted(total, total[-1] * np.array([_OUTSIDE, 1 - _OUTSIDE]))
    return int(first), int(last) + 1


class PictureIcon:
    """Holds one picture at a time."""

    def __init__(self) -> None:
        self._collection: Any = None
        self._number = 0

    @property
    def icon_id(self) -> int:
        """The icon's number for layouts; 0 without a picture, and where there is no window."""
        return int(self._collection[str(self._number)].icon_id) if self._collection is not None else 0

    @property
    def pictures(self) -> int:
        """How many there have been."""
        return self._number

    def show(self, pixels: Pixels) -> None:
        """Takes another picture, as a new preview: Blender keeps what it has uploaded of an old one.

        The one before is kept until the next, for it may still be on the screen.
        """
        if self._collection is None:
            self._collection = previews.new()
        self._number += 1
        made = self._collection.new(str(self._number))
        made.image_size = (pixels.shape[1], pixels.shape[0])
        made.image_pixels_float.foreach_set(np.ascontiguousarray(pixels, np.float32).ravel())
        outdated = str(self._number - 2)
        if outdated in self._collection:
            del self._collection[outdated]

    def free(self) -> None:
        """Gives the pictures back."""
        if self._collection is not None:
            previews.remove(self._collection)
        self._collection = None
