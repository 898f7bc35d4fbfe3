"""Views at a lower resolution: each pixel the mean of a block of the view's own.

A splat composite averaged over a block is what a coarse pixel should be in the space that splats are blended in (linear
light for ``blender``, encoded values for ``classic``), so the mean is taken there, of premultiplied values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from splat_engine.fit.views import Views, ViewTensors, camera_tensors
from splat_engine.formats.cameras import Camera

SIDE_MIN_PX = 64
"""No side becomes shorter than this: below, splats learn to be what no pixel shows."""
QUARTER_SHARE = 0.3
"""Share of the coarse steps at a quarter of the resolution; the others are at half of it."""

COSTS = {4: 0.5, 2: 0.75, 1: 1.0}
"""Time of a step by the length of a block's side, as a share of one at full resolution: 5, 10 and 13 CPU ms on
suzanne256 from points3d_10k.ply, while splats are still few."""


def coarse_factor(share: float, coarse_share: float) -> int:
    """Returns the length of a block's side, px, where a fit is at ``share`` (0 to 1) of its schedules.

    Args:
        share: How far the fit is.
        coarse_share: Until where it is coarse; 0: never.
    """
    if share >= coarse_share:
        return 1
    return 4 if share < QUARTER_SHARE * coarse_share else 2


def coarse_cost(share: float, coarse_share: float) -> float:
    """Returns the time of a fit's schedules from 0 to ``share``, as a share of their time at full resolution."""
    quarter = min(share, QUARTER_SHARE * coarse_share)
    half = min(share, coarse_share) - quarter
    return COSTS[4] * quarter + COSTS[2] * half + COSTS[1] * (share - quarter - half)


def coarse_camera(camera: Camera, factor: int) -> Camera:
    """Returns the camera whose pixels are blocks of ``factor`` x ``factor`` of the given one's.

    What does not fill a block at the right and lower border is cut off, so that every block is whole: focal lengths and
    principal point, which counts from the upper left corner, are divided exactly.

    Args:
        camera: The camera.
        factor: 1, 2 or 4; halved until each side keeps at least 64 px.
    """
    factor = _fitting(camera, factor)
    if factor == 1:
        return camera
    width, height = camera.width // factor, camera.height // factor
    fx, fy, cx, cy = (value / factor for value in (camera.fx, camera.fy, camera.cx, camera.cy))
    return replace(camera, width=width, height=height, fx=fx, fy=fy, cx=cx, cy=cy)


def coarse_view(view: ViewTensors, factor: int) -> ViewTensors:
    """Returns a view seen by its ``coarse_camera``.

    A coarse pixel counts where all pixels of its block do. Depth is the block's mean where each of its pixels has one, and
    0 elsewhere: at an outline a mean would be of two surfaces. Normals are the mean's direction.

    Args:
        view: The view.
        factor: As ``coarse_camera`` takes it.
    """
    factor = _fitting(view.camera, factor)
    camera = coarse_camera(view.camera, factor)
    if factor == 1:
        return view
    _, intrinsics = camera_tensors(camera)
    normals = None if view.normals is None else _means(view.normals, factor)
    return replace(
        view,
        camera=camera,
        intrinsics=intrinsics.to(view.intrinsics.device),
        color=_means(view.color, factor),
        alpha=_means(view.alpha[..., None], factor)[..., 0],
        depth=None if view.depth is None else _depths(view.depth, factor),
        normals=None if normals is None else torch.nn.functional.normalize(normals, dim=-1),
        valid=None if view.valid is None else _means(view.valid[..., None].float(), factor)[..., 0] == 1,
    )


def _fitting(camera: Camera, factor: int) -> int:
    while factor > 1 and min(camera.width, camera.height) < SIDE_MIN_PX * factor:
        factor //= 2
    return factor


def _means(values: Tensor, factor: int) -> Tensor:
    """[H, W, C] to [H // factor, W // factor, C], contiguous."""
    pooled = torch.nn.functional.avg_pool2d(values.permute(2, 0, 1)[None], factor)[0]
    return pooled.permute(1, 2, 0).contiguous()


def _depths(depth: Tensor, factor: int) -> Tensor:
    known = _means((depth > 0).float()[..., None], factor)[..., 0]
    return torch.where(known == 1, _means(depth[..., None], factor)[..., 0], 0.0)


class CoarseViews:
    """Views at a lower resolution, made when they are asked for: that costs less than keeping them would.

    Args:
        views: At their own resolution.
        factor: Length of a block's side, px.
    """

    def __init__(self, views: Views, factor: int) -> None:
        self._views = views
        self._factor = factor

    @property
    def cameras(self) -> Sequence[Camera]:
        """Of all views."""
        return [coarse_camera(camera, self._factor) for camera in self._views.cameras]

    def __len__(self) -> int:
        """Returns the number of views."""
        return len(self._views)

    def __getitem__(self, number: int) -> ViewTensors:
        """Returns a view."""
        return coarse_view(self._views[number], self._factor)
