"""Keeps splats from shrinking below what the training views can see.

The ``blender`` formation draws splats as small as they are, through a pixel filter, so nothing stops a splat from becoming
thinner than a pixel. Blender's viewport has no such filter: there the splat falls between the sample points of one view,
shows full in another, and aliases. So no axis may become smaller than a share of a pixel in the nearest training view
that sees the splat.

Source: the 3D smoothing filter of Mip-Splatting (Yu et al. 2024, eq. 7) takes the same sampling rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from splat_engine.fit.place import send
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
    forms = send(_linear_forms(chosen), means.device)
    chunk = CHUNK if means.device.type == "cpu" else CHUNK_ON_CARD
    for first in range(0, means.shape[0], chunk):
        rows = slice(first, first + chunk)
        nearest[rows] = _pixel_sizes(means[rows], forms).amin(dim=0)
    floors = torch.log(nearest * min_sigma_px)
    return torch.where(torch.isfinite(floors), floors, -math.inf)


def _linear_forms(cameras: Sequence[Camera]) -> Tensor:
    """What a camera asks of a point is linear in it: [6, V, 4] forms of (x, y, z, 1) in the world.

    Five are 0 or more where the view sees the point: its distances from the left, right, upper and lower border and from
    the near plane, each times something positive. The last is the size of a pixel there, scene units.
    """
    forms = []
    for camera in cameras:
        across, down, depth = camera.viewmat[:3]
        one = np.array([0.0, 0.0, 0.0, 1.0])
        divisor = one if camera.model == "orthographic" else depth
        fx, fy, cx, cy = camera.intrinsics
        forms.append(
            [
                across * fx + divisor * cx,
                divisor * (camera.width - cx) - across * fx,
                down * fy + divisor * cy,
                divisor * (camera.height - cy) - down * fy,
                depth - one * camera.near,
                divisor / min(abs(fx), abs(fy)),
            ]
        )
    return torch.from_numpy(np.array(forms).transpose(1, 0, 2).astype(np.float32))


def _pixel_sizes(means: Tensor, forms: Tensor) -> Tensor:
    """Scene units that a pixel covers at each centre, [V, N]; infinite where the camera does not see it."""
    points = torch.cat((means, means.new_ones(means.shape[0], 1)), dim=1).T
    values = (forms.reshape(-1, 4) @ points).reshape(*forms.shape[:2], -1)  # [6, V, N]
    seen = values[:5].amin(dim=0) >= 0
    return torch.where(seen, values[5], math.inf)
