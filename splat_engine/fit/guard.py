"""Keeps splats from shrinking below what the training views can see.

Without a screen-space dilation (the ``blender`` formation) nothing stops a splat from becoming thinner than a pixel:
it then falls between the sample points of one view, shows full in another, and aliases. So no axis may become smaller
than a share of a pixel in the nearest training view that sees the splat.

Source: the 3D smoothing filter of Mip-Splatting (Yu et al. 2024, eq. 7) takes the same sampling rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from splat_engine.fit.place import send
from splat_engine.fit.views import camera_tensors
from splat_engine.formats.cameras import Camera

CHUNK, CHUNK_ON_CARD = 4096, 1 << 17
"""Splats that are looked at together, from all views: some 1 MB an array, which a cache holds, and 32 MB, which fills a
card."""
VIEWS_MAX = 64
"""Of more views an even choice is looked at: the bound need not be sharp."""


@torch.no_grad()
def log_scale_floors(means: Tensor, cameras: Sequence[Camera], min_sigma_px: float) -> Tensor:
    """Returns the smallest log-scale each splat may have.

    Args:
        means: [N, 3] centres, world.
        cameras: The training views.
        min_sigma_px: Least standard deviation on the screen, px; 0 gives no bound.

    Returns:
        [N] natural logarithms of scene units, where the means lie; minus infinity for a splat that no view sees.
    """
    chosen = cameras[:: max(1, math.ceil(len(cameras) / VIEWS_MAX))]
    nearest = torch.full((means.shape[0],), math.inf, device=means.device)
    if not chosen:
        return torch.full_like(nearest, -math.inf)
    cameras_there = [send(values, means.device) for values in _stacked(chosen)]
    chunk = CHUNK if means.device.type == "cpu" else CHUNK_ON_CARD
    for first in range(0, means.shape[0], chunk):
        rows = slice(first, first + chunk)
        nearest[rows] = _pixel_sizes(means[rows], *cameras_there).amin(dim=0)
    floors = torch.log(nearest * min_sigma_px)
    return torch.where(torch.isfinite(floors), floors, -math.inf)


def _stacked(cameras: Sequence[Camera]) -> tuple[Tensor, Tensor, Tensor]:
    """The cameras as tensors: viewmats [V, 4, 4], intrinsics [V, 4], and width, height, near, is orthographic [V, 4]."""
    tensors = [camera_tensors(camera) for camera in cameras]
    frames = [[c.width, c.height, c.near, float(c.model == "orthographic")] for c in cameras]
    return (
        torch.stack([viewmat for viewmat, _ in tensors]),
        torch.stack([intrinsics for _, intrinsics in tensors]),
        torch.tensor(frames),
    )


def _pixel_sizes(means: Tensor, viewmats: Tensor, intrinsics: Tensor, frames: Tensor) -> Tensor:
    """Scene units that a pixel covers at each centre, [V, N]; infinite where the camera does not see it."""
    fx, fy, cx, cy = intrinsics.T[..., None]  # [V, 1] each
    width, height, near, orthographic = frames.T[..., None]
    x, y, depth = torch.einsum("vij,nj->ivn", viewmats[:, :3, :3], means) + viewmats[:, :3, 3].T[..., None]
    divisor = torch.where(orthographic > 0, 1.0, depth)
    column, row = x / divisor * fx + cx, y / divisor * fy + cy
    seen = (depth > near) & (column >= 0) & (column <= width) & (row >= 0) & (row <= height)
    return torch.where(seen, divisor / torch.minimum(fx.abs(), fy.abs()), math.inf)
