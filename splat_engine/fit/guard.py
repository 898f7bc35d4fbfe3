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
    nearest = torch.full((means.shape[0],), math.inf)
    for camera in cameras[:: max(1, math.ceil(len(cameras) / VIEWS_MAX))]:
        torch.minimum(nearest, _pixel_size(means.detach(), camera), out=nearest)
    floors = torch.log(nearest * min_sigma_px)
    return torch.where(torch.isfinite(floors), floors, -math.inf)


def _pixel_size(means: Tensor, camera: Camera) -> Tensor:
    """Scene units that a pixel covers at each centre, [N]; infinite where the camera does not see it."""
    viewmat, intrinsics = camera_tensors(camera)
    local = torch.addmm(viewmat[:3, 3], means, viewmat[:3, :3].T)
    depth = local[:, 2]
    focal_px = min(abs(camera.fx), abs(camera.fy))
    if camera.model == "orthographic":
        plane, size = local[:, :2], torch.full_like(depth, 1.0 / focal_px)
    else:
        plane, size = local[:, :2] / depth[:, None], depth / focal_px
    pixels = plane * intrinsics[:2] + intrinsics[2:]
    bounds = torch.tensor([camera.width, camera.height], dtype=pixels.dtype)
    seen = (depth > camera.near) & ((pixels >= 0) & (pixels <= bounds)).all(dim=1)
    return torch.where(seen, size, math.inf)
