"""One view of a training step: draw it, compare it, and what the comparison says about each splat on the screen.

The backends "cpu" and "cuda" go forward and backward through a few calls and leave autograd to the losses of depth and
normals, which torch makes; "reference" is autograd all the way. tests/engine/test_fit_gradients.py and
tests/cuda/test_fit.py hold them together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.fit.drawing import (
    Screen,
    blend,
    drawn_of,
    feature_stack,
    screen_gradients,
    screen_leaves,
    to_screen,
)
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.losses import fit_loss, geometry_loss, photometric_options
from splat_engine.fit.model import SplatState
from splat_engine.fit.views import ViewTensors
from splat_engine.formats.settings import LossSettings
from splat_engine.ops import RasterPass, ScreenGradients, photometric_loss_and_gradients


class Comparison(NamedTuple):
    """What a view says.

    Attributes:
        loss: A scalar, without gradient.
        squared: Mean squared difference of the encoded pictures, a scalar.
        gradients: Of the loss by the splats on the screen.
        radii: [N, 2] px, 0 for a culled splat.
        absolute: [N, 2] sums over pixels of the absolute gradient by the centres, where they were asked for.
    """

    loss: Tensor
    squared: Tensor
    gradients: ScreenGradients
    radii: Tensor
    absolute: Tensor | None = None


def compare_view(
    state: SplatState,
    view: ViewTensors,
    background: Tensor,
    formation: ImageFormation,
    settings: LossSettings,
    *,
    extent: float,
    geometry_share: float,
    backend: str,
    absolute: bool = False,
) -> Comparison:
    """Draws the splats over a background, compares them with a view, and differentiates.

    Args:
        state: The splats; only read.
        view: Camera and target.
        background: [3] in the blending space.
        formation: The image formation.
        settings: The weights.
        extent: The scene's, scene units.
        geometry_share: Factor on the depth and normal losses, 0 to 1.
        backend: "cpu", "cuda" or "reference".
        absolute: Also tell the absolute gradients by the centres; then "reference" too goes through the calls.
    """
    with_depth, with_normals = settings.depth_weight > 0, settings.normal_weight > 0
    camera = (view.viewmat, view.intrinsics, view.camera, formation)
    if backend == "reference" and not absolute:
        screen = screen_leaves(
            state.params, *camera, with_depth=with_depth, with_normals=with_normals, backend=backend
        )
        drawn = blend(screen, view.camera, background=background, with_depth=with_depth, backend=backend)
        options = {"extent": extent, "geometry_share": geometry_share, "backend": backend}
        loss, squared = fit_loss(drawn, view, background, formation, settings, **options)  # type: ignore[arg-type]
        return Comparison(loss.detach(), squared, screen_gradients(loss, screen), screen.projected.radii)
    with torch.no_grad():
        screen = to_screen(state.params, *camera, with_normals=with_normals, backend=backend)
    return _compare_screen(
        screen, view, background, formation, settings, extent, geometry_share, backend, absolute
    )


def _compare_screen(
    screen: Screen,
    view: ViewTensors,
    background: Tensor,
    formation: ImageFormation,
    settings: LossSettings,
    extent: float,
    geometry_share: float,
    backend: str,
    absolute: bool,
) -> Comparison:
    projected, with_depth = screen.projected, settings.depth_weight > 0
    features, backdrop = feature_stack(screen, background, with_depth=with_depth)
    drawing = RasterPass(
        projected.means2d,
        projected.conics,
        projected.opacities,
        features,
        projected.depths,
        view.camera.width,
        view.camera.height,
        backdrop,
        depth_slopes=projected.depth_slopes,
        backend=backend,
    )
    color_only = features is screen.colors
    photometric, v_image, v_alpha = photometric_loss_and_gradients(
        drawing.image if color_only else drawing.image[..., :3],
        drawing.alpha,
        view.color,
        view.alpha,
        background,
        **photometric_options(view, formation, settings),
        backend=backend,
    )
    loss = photometric.loss
    if not color_only:
        # The two losses' gradients add up on the image and on alpha.
        image, alpha = drawing.image.detach().requires_grad_(), drawing.alpha.detach().requires_grad_()
        drawn = drawn_of(image, alpha, with_depth=with_depth, with_normals=projected.normals is not None)
        geometry = geometry_loss(drawn, view, settings, extent=extent, share=geometry_share)
        loss = loss + geometry.detach()
        v_geometry, v_coverage = torch.autograd.grad(geometry, (image, alpha), materialize_grads=True)
        v_geometry[..., :3] += v_image
        v_image, v_alpha = v_geometry, v_alpha + v_coverage
    v_means2d, v_conics, v_opacities, v_features, *sums = drawing.backward(
        v_image, v_alpha, absolute=absolute
    )
    gradients = ScreenGradients(
        means2d=v_means2d,
        depths=v_features[:, 3] if with_depth else None,
        conics=v_conics,
        opacities=v_opacities,
        normals=v_features[:, -3:] if projected.normals is not None else None,
        colors=v_features if color_only else v_features[:, :3],
    )
    return Comparison(loss, photometric.squared, gradients, projected.radii, sums[0] if absolute else None)
