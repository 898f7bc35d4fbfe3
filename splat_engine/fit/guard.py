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

from splat_engine.fit.data import camera_tensors
from splat_engine.formats.cameras import Camera

CHUNK = 4096
"""Splats that are looked at together, from all views: some 1 MB an array."""
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
        [N] natural logarithms of scene units; minus infinity for a splat that no view sees.
    """
    chosen = cameras[:: max(1, math.ceil(len(cameras) / VIEWS_MAX))]
    nearest = torch.full((means.shape[0],), math.inf)
    if not chosen:
        return torch.full_like(nearest, -math.inf)
    for first in range(0, means.shape[0], CHUNK):
        rows = slice(first, first + CHUNK)
        nearest[rows] = _pixel_sizes(means[rows], chosen).amin(dim=0)
    floors = torch.log(nearest * min_sigma_px)
    return torch.where(torch.isfinite(floors), floors, -math.inf)


def _pixel_sizes(means: Tensor, cameras: Sequence[Camera]) -> Tensor:
    """Scene units that a pixel covers at each centre, [V, N]; infinite where the camera does not see it."""
    tensors = [camera_tensors(camera) for camera in cameras]
    viewmats = torch.stack([viewmat for viewmat, _ in tensors])  # [V, 4, 4]
    fx, fy, cx, cy = torch.stack([intrinsics for _, intrinsics in tensors]).T[..., None]  # [V, 1] each
    width, height, near, orthographic = torch.tensor(
        [[c.width, c.height, c.near, float(c.model == "orthographic")] for c in cameras]
    ).T[..., None]
    x, y, depth = torch.einsum("vij,nj->ivn", viewmats[:, :3, :3], means) + viewmats[:, :3, 3].T[..., None]
    divisor = torch.where(orthographic > 0, 1.0, depth)
    column, row = x / divisor * fx + cx, y / divisor * fy + cy
    seen = (depth > near) & (column >= 0) & (column <= width) & (row >= 0) & (row <= height)
    return torch.where(seen, divisor / torch.minimum(fx.abs(), fy.abs()), math.inf)
