"""The course of a fit, kept short enough to draw again and again. Knows no bpy."""

from __future__ import annotations

POINTS_MAX = 400
"""More than a picture in the sidebar has columns."""

Point = tuple[int, float, float]
"""Step, loss, and PSNR in dB."""


class CurveKeeper:
    """Adds points to a list and halves it whenever it is full, so that the points stay evenly spaced.

    Args:
        points: The list that is filled; its owner only reads it.
    """

    def __init__(self, points: list[Point]) -> None:
        self._points = points
        self._stride = 1
        self._seen = 0

    def add(self, point: Point) -> None:
        """Takes in a point, or leaves it out where the list has grown coarser."""
        if self._seen % self._stride == 0:
            self._points.append(point)
        self._seen += 1
        if len(self._points) > POINTS_MAX:
            self._points[:] = self._points[::2]
            self._stride *= 2
