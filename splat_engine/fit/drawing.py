"""Draws splats from a camera through the ops: the one path for training, evaluation, previews and renders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.fit.formation import ImageFormation
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import sh_degree
from splat_engine.ops import project, rasterize, sh_colors

ALPHA_DIVISOR_MIN = 1e-4
"""Depth and normals are divided by alpha; where less is drawn they mean nothing."""

NEAR_MIN = 1e-5
"""Scene units; stands in for a clip distance of 0, at which a perspective has no size."""


class Drawn(NamedTuple):
    """A drawn view.

    Attributes:
        blended: [H, W, 3] composite over the background, in the formation's blending space.
        alpha: [H, W].
        depth: [H, W] planar depth, alpha-normalised, scene units; or None.
        normals: [H, W, 3] alpha-weighted sum of normals, world frame, not normalised; or None.
        means2d: [N, 2] centres, px, in the graph: their gradient steers densification.
        radii: [N, 2] px, 0 for a culled splat.
    """

    blended: Tensor
    alpha: Tensor
    depth: Tensor | None
    normals: Tensor | None
    means2d: Tensor
    radii: Tensor


def draw(
    params: Mapping[str, Tensor],
    viewmat: Tensor,
    intrinsics: Tensor,
    camera: Camera,
    formation: ImageFormation,
    *,
    background: Tensor,
    with_depth: bool = False,
    with_normals: bool = False,
    backend: str = "cpu",
) -> Drawn:
    """Draws splats, differentiable.

    Args:
        params: means, log_scales, quats_wxyz, opacity_logits, sh, as in ``Splats``; N = 0 draws the background.
        viewmat, intrinsics: The camera as tensors.
        camera: Gives the size, the model and the near distance.
        formation: The image formation.
        background: [3] in the blending space.
        with_depth, with_normals: Also draw these.
        backend: "cpu" or "reference".
    """
    projected = project(
        params["means"],
        params["log_scales"],
        params["quats_wxyz"],
        params["opacity_logits"],
        viewmat,
        intrinsics,
        camera.width,
        camera.height,
        camera_model=camera.model,
        dilation_px2=formation.dilation_px2,
        near=max(camera.near, NEAR_MIN),
        with_normals=with_normals,
        backend=backend,
    )
    colors = sh_colors(
        params["means"],
        params["sh"],
        viewmat,
        degree=sh_degree(params["sh"].shape[1]),
        camera_model=camera.model,
        decode=formation.is_linear,
        backend=backend,
    )
    features = [colors]
    if with_depth:
        features.append(projected.depths[:, None])
    if projected.normals is not None:
        features.append(projected.normals)
    extra = background.new_zeros(sum(feature.shape[1] for feature in features[1:]))
    image, alpha = rasterize(
        projected.means2d,
        projected.conics,
        projected.opacities,
        torch.cat(features, dim=1) if len(features) > 1 else colors,
        projected.depths,
        camera.width,
        camera.height,
        background=torch.cat((background, extra)) if len(extra) else background,
        backend=backend,
    )
    depth = image[..., 3] / alpha.clamp_min(ALPHA_DIVISOR_MIN) if with_depth else None
    return Drawn(
        blended=image[..., :3] if len(extra) else image,
        alpha=alpha,
        depth=depth,
        normals=image[..., -3:] if with_normals else None,
        means2d=projected.means2d,
        radii=projected.radii,
    )
