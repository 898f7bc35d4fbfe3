"""The course of a fit as a small picture: numbers to pixels, and pixels to an icon that the panel can show."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from splat_engine.formats.conventions import Float

from ..runs.curve import Point
from .picture_icon import PictureIcon, Pixels

SIDE_PX = 160
REDRAW_S = 1.0
"""A picture is redrawn no more often."""
_BACKGROUND, _GRID = (0.09, 0.09, 0.09, 1.0), (0.2, 0.2, 0.2, 1.0)
LOSS_COLOR, PSNR_COLOR = (0.93, 0.55, 0.18, 1.0), (0.36, 0.72, 0.95, 1.0)
_BORDER_PX, _THICKNESS_PX = 6, 1.2


def draw_curve(points: Sequence[Point], side_px: int = SIDE_PX) -> Pixels:
    """Draws loss (orange, logarithmic) and PSNR (blue), each over its own range, against steps.

    Args:
        points: Step, loss and PSNR; with fewer than two there is no line yet.
        side_px: Side of the picture.

    Returns:
        [side, side, 4] RGBA in 0 to 1, the lowest row first, as Blender keeps pictures.
    """
    picture = np.empty((side_px, side_px, 4), np.float32)
    picture[:] = _BACKGROUND
    for share in (0.25, 0.5, 0.75):
        picture[round(share * side_px)] = _GRID
    if len(points) < 2:
        return picture
    table = np.array(points, dtype=np.float64)
    losses = np.log10(np.maximum(table[:, 1], 1e-12))
    for values, color in ((losses, LOSS_COLOR), (table[:, 2], PSNR_COLOR)):
        good = np.isfinite(values)
        if good.sum() >= 2:
            _draw_line(picture, table[good, 0], values[good], color)
    return picture


def _draw_line(picture: Pixels, steps: Float, values: Float, color: Sequence[float]) -> None:
    """Blends a line into the picture: each column covers what lies near the line's heights within it."""
    side = picture.shape[0]
    columns = np.arange(_BORDER_PX, side - _BORDER_PX)
    edges = np.linspace(steps[0], steps[-1], len(columns) + 1)
    heights = _BORDER_PX + (side - 2 * _BORDER_PX - 1) * _to_unit(np.interp(edges, steps, values), values)
    low, high = np.minimum(heights[:-1], heights[1:]), np.maximum(heights[:-1], heights[1:])
    rows = np.arange(side)[:, None]
    beyond = np.maximum(np.maximum(low - rows, rows - high), 0)
    cover = np.clip(_THICKNESS_PX + 0.5 - beyond, 0, 1)[..., None].astype(np.float32)
    part = picture[:, columns]
    picture[:, columns] = part + cover * (np.array(color, np.float32) - part)


def _to_unit(values: Float, all_values: Float) -> Float:
    low, high = float(all_values.min()), float(all_values.max())
    if high <= low:
        return np.full_like(values, 0.5)
    return (values - low) / (high - low)


class CurveIcon:
    """The picture of the present fit as an icon; drawn anew when there is news, no more than once a second.

    Args:
        clock: Seconds; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._icon = PictureIcon()
        self._drawn: tuple[int, int] | None = None
        self._drawn_at_s = -REDRAW_S

    def of(self, points: Sequence[Point]) -> int:
        """Returns the icon's number; 0 without a window, where there are no icons."""
        key = (len(points), points[-1][0] if points else -1)
        now_s = self._clock()
        if key != self._drawn and (self._drawn is None or now_s - self._drawn_at_s >= REDRAW_S):
            self._icon.show(draw_curve(points))
            self._drawn, self._drawn_at_s = key, now_s
        return self._icon.icon_id

    @property
    def pictures(self) -> int:
        """How many were drawn."""
        return self._icon.pictures

    def free(self) -> None:
        """Gives the pictures back."""
        self._icon.free()
        self._drawn = None


icon = CurveIcon()
