"""Draws splats from a camera through the ops: the one path for training, evaluation, previews and renders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from splat_engine.fit.formation import ImageFormation
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import sh_degree
from splat_engine.ops import Projected, ScreenGradients, project, project_colors, rasterize, sh_colors

ALPHA_DIVISOR_MIN = 1e-4
"""Depth and normals are divided by alpha; where less is drawn they mean nothing."""

NEAR_MIN = 1e-5
"""Scene units; stands in for a clip distance of 0, at which a perspective has no size."""


class Screen(NamedTuple):
    """Splats as one camera sees them, ready to be blended.

    Attributes:
        projected: Centres, depths, conics, opacities, radii, normals where they were asked for, and the depths' slopes where
            each pixel has its own order.
        colors: [N, 3] in the formation's blending space.
    """

    projected: Projected
    colors: Tensor


class Drawn(NamedTuple):
    """A drawn view.

    Attributes:
        blended: [H, W, 3] composite over the background, in the formation's blending space.
        alpha: [H, W].
        depth: [H, W] planar depth, alpha-normalised, scene units; or None.
        normals: [H, W, 3] alpha-weighted sum of normals, world frame, not normalised; or None.
    """

    blended: Tensor
    alpha: Tensor
    depth: Tensor | None
    normals: Tensor | None


class CameraOptions(TypedDict):
    """How a camera and an image formation project; the keywords of the ops."""

    camera_model: str
    dilation_px2: float
    antialiased: bool
    near: float


def camera_options(camera: Camera, formation: ImageFormation) -> CameraOptions:
    """Returns what ``project`` and ``update_splats`` must agree about."""
    return {
        "camera_model": camera.model,
        "dilation_px2": formation.dilation_px2,
        "antialiased": formation.antialiased,
        "near": max(camera.near, NEAR_MIN),
    }


def to_screen(
    params: Mapping[str, Tensor],
    viewmat: Tensor,
    intrinsics: Tensor,
    camera: Camera,
    formation: ImageFormation,
    *,
    with_normals: bool = False,
    backend: str = "cpu",
) -> Screen:
    """Projects and colours splats, differentiable.

    Args:
        params: means, log_scales, quats_wxyz, opacity_logits, sh, as in ``Splats``; N may be 0.
        viewmat, intrinsics: The camera as tensors.
        camera: Gives the size, the model and the near distance.
        formation: The image formation.
        with_normals: Also give the normals.
        backend: "cpu", "cuda" or "reference".
    """
    if not _asks_gradient(params, viewmat, intrinsics):
        return _to_screen_at_once(
            params, viewmat, intrinsics, camera, formation, with_normals=with_normals, backend=backend
        )
    projected = project(
        params["means"],
        params["log_scales"],
        params["quats_wxyz"],
        params["opacity_logits"],
        viewmat,
        intrinsics,
        camera.width,
        camera.height,
        **camera_options(camera, formation),
        with_normals=with_normals,
        with_depth_slopes=formation.by_ray,
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
    return Screen(projected, colors)


def _asks_gradient(params: Mapping[str, Tensor], *camera: Tensor) -> bool:
    everything = (*params.values(), *camera)
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in everything)


def _to_screen_at_once(
    params: Mapping[str, Tensor],
    viewmat: Tensor,
    intrinsics: Tensor,
    camera: Camera,
    formation: ImageFormation,
    *,
    with_normals: bool,
    backend: str,
) -> Screen:
    """``to_screen`` without gradients, which is one kernel on a card."""
    projected, colors = project_colors(
        params["means"],
        params["log_scales"],
        params["quats_wxyz"],
        params["opacity_logits"],
        params["sh"],
        viewmat,
        intrinsics,
        camera.width,
        camera.height,
        **camera_options(camera, formation),
        degree=sh_degree(params["sh"].shape[1]),
        with_normals=with_normals,
        with_depth_slopes=formation.by_ray,
        decode=formation.is_linear,
        backend=backend,
    )
    return Screen(projected, colors)


def screen_leaves(
    params: Mapping[str, Tensor],
    viewmat: Tensor,
    intrinsics: Tensor,
    camera: Camera,
    formation: ImageFormation,
    *,
    with_depth: bool = False,
    with_normals: bool = False,
    backend: str = "cpu",
) -> Screen:
    """The same as ``to_screen``, as leaves of a graph that begins on the screen: a training step needs no more of
    autograd, since ``update_splats`` goes the way from there to the parameters by itself.

    Args:
        with_depth: The depth will be drawn, so it has a gradient.
    """
    with torch.no_grad():
        screen = to_screen(
            params, viewmat, intrinsics, camera, formation, with_normals=with_normals, backend=backend
        )
    for name, value in _differentiable(screen).items():
        value.requires_grad_(name != "depths" or with_depth)
    return screen


def screen_gradients(loss: Tensor, leaves: Screen) -> ScreenGradients:
    """Returns the gradient of a loss by what ``screen_leaves`` returned."""
    wanted = {name: value for name, value in _differentiable(leaves).items() if value.requires_grad}
    found = torch.autograd.grad(loss, list(wanted.values()))
    return ScreenGradients(**dict(zip(wanted, found, strict=True)))


def _differentiable(screen: Screen) -> dict[str, Tensor]:
    """What of a screen can have a gradient, under the names of ``ScreenGradients``."""
    values = {name: getattr(screen.projected, name) for name in ScreenGradients._fields if name != "colors"}
    return {name: value for name, value in {**values, "colors": screen.colors}.items() if value is not None}


def blend(
    screen: Screen, camera: Camera, *, background: Tensor, with_depth: bool = False, backend: str = "cpu"
) -> Drawn:
    """Blends projected splats into a view, differentiable.

    Args:
        screen: The splats; their normals are drawn if they have them.
        camera: Gives the size.
        background: [3] in the blending space.
        with_depth: Also draw the depth.
        backend: "cpu", "cuda" or "reference".
    """
    projected = screen.projected
    features, backdrop = feature_stack(screen, background, with_depth=with_depth)
    image, alpha = rasterize(
        projected.means2d,
        projected.conics,
        projected.opacities,
        features,
        projected.depths,
        camera.width,
        camera.height,
        depth_slopes=projected.depth_slopes,
        background=backdrop,
        backend=backend,
    )
    return drawn_of(image, alpha, with_depth=with_depth, with_normals=projected.normals is not None)


def feature_stack(screen: Screen, background: Tensor, *, with_depth: bool) -> tuple[Tensor, Tensor]:
    """Returns what is blended of each splat, [N, C], and what lies behind all of them, [C]: colour, depth, normal."""
    normals = screen.projected.normals
    if not with_depth and normals is None:
        return screen.colors, background
    features = [screen.colors]
    if with_depth:
        features.append(screen.projected.depths[:, None])
    if normals is not None:
        features.append(normals)
    stack = torch.cat(features, dim=1)
    return stack, torch.cat((background, background.new_zeros(stack.shape[1] - 3)))


def drawn_of(image: Tensor, alpha: Tensor, *, with_depth: bool, with_normals: bool) -> Drawn:
    """Returns the parts of a blended ``feature_stack`` [H, W, C]."""
    return Drawn(
        blended=image[..., :3] if image.shape[2] > 3 else image,
        alpha=alpha,
        depth=image[..., 3] / alpha.clamp_min(ALPHA_DIVISOR_MIN) if with_depth else None,
        normals=image[..., -3:] if with_normals else None,
    )


def draw(
    params: Mapping[str, Tensor],
    viewmat: Tensor,
    intrinsics: Tensor,
    camera: Camera,
    formation: ImageFormation,
    *,
    background: Tensor,
    backend: str = "cpu",
) -> Drawn:
    """Draws splats: ``to_screen`` and ``blend``, differentiable. N = 0 draws the background."""
    screen = to_screen(params, viewmat, intrinsics, camera, formation, backend=backend)
    return blend(screen, camera, background=background, backend=backend)
