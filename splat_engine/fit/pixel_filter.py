"""A view through the pixel filter of Cycles, as Blender shows it: blended at several points a pixel, and filtered after.

Widening each splat by the filter's variance is a shortcut: it filters before blending, and where several splats share a
pixel the light behind them leaks through. The narrower the filter, the less; so training views have a narrow one, and
what a fit is worth is measured, and shown, through the real one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from splat_engine.fit.drawing import Drawn, draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.formats.cameras import Camera

POINTS = 3
"""A pixel along each axis: a third of a pixel apart, the middle one at the pixel's centre."""
HALF_WIDTH_PX = 1.5
"""Of Cycles' default window, which its settings call a width."""
_MARGIN_PX = 1
"""Neighbours on each side whose points the window reaches."""


@cache
def window() -> Tensor:
    """Returns the weights along one axis, [POINTS, 3]: of each point of the pixel before, the pixel, and the one behind.

    Their sum is 1. Source: Harris, On the use of windows for harmonic analysis, 1978; Cycles,
    ``filter_func_blackman_harris``.
    """
    points = (torch.arange(POINTS, dtype=torch.float64) - POINTS // 2) / POINTS
    offset_px = points[:, None] + torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    angle = 2 * math.pi * (offset_px / (2 * HALF_WIDTH_PX) + 0.5)
    terms = (0.35875, -0.48829, 0.14128, -0.01168)
    weights = torch.zeros_like(angle)
    for order, term in enumerate(terms):
        weights += term * torch.cos(order * angle)
    return (weights / weights.sum()).float()


@torch.no_grad()
def draw_through_filter(
    params: Mapping[str, Tensor],
    viewmat: Tensor,
    camera: Camera,
    *,
    background: Tensor,
    backend: str = "cpu",
) -> Drawn:
    """Draws splats in the ``blender`` formation as Cycles does.

    Args:
        params: means, log_scales, quats_wxyz, opacity_logits, sh, as in ``Splats``; N may be 0.
        viewmat: [4, 4].
        camera: The view.
        background: [3] linear light.
        backend: "cpu", "cuda" or "reference".

    Returns:
        The view, without gradients, depth or normals.
    """
    plain = ImageFormation("blender", filter_px2=0.0)
    weights = window().tolist()
    color = torch.zeros(camera.height, camera.width, 3, device=viewmat.device)
    alpha = torch.zeros(camera.height, camera.width, device=viewmat.device)
    for row in range(POINTS):
        for column in range(POINTS):
            moved = _moved(camera, column, row)
            intrinsics = torch.tensor(moved.intrinsics, dtype=torch.float32, device=viewmat.device)
            drawn = draw(params, viewmat, intrinsics, moved, plain, background=background, backend=backend)
            _add_filtered(color, drawn.blended, weights[row], weights[column])
            _add_filtered(alpha, drawn.alpha, weights[row], weights[column])
    return Drawn(color, alpha, None, None)


def _add_filtered(total: Tensor, values: Tensor, down: list[float], across: list[float]) -> None:
    """Adds to [H, W, ...] the weighted sums of each 3 x 3 neighbours among [H + 2, W + 2, ...] values."""
    height, width = total.shape[:2]
    rows = sum(weight * values[:, shift : shift + width] for shift, weight in enumerate(across))
    assert isinstance(rows, Tensor)
    for shift, weight in enumerate(down):
        total.add_(rows[shift : shift + height], alpha=weight)


def _moved(camera: Camera, column: int, row: int) -> Camera:
    """The camera whose pixel centres are one of the points of the pixels, with a margin around the picture."""
    right, down = ((place - POINTS // 2) / POINTS for place in (column, row))
    return replace(
        camera,
        width=camera.width + 2 * _MARGIN_PX,
        height=camera.height + 2 * _MARGIN_PX,
        cx=camera.cx + _MARGIN_PX - right,
        cy=camera.cy + _MARGIN_PX - down,
    )
