"""What training views say about splats and places: where the picture is wrong, and who drew it.

A splat's share in a picture is the sum over pixels of its blending weight, alpha times transmittance: the gradient of the
picture by what is blended of the splat. Weighted with the pixels' errors, it says how much of the error a splat drew.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.fit.drawing import Screen, blend, to_screen
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.views import ViewTensors
from splat_engine.ops import RasterPass


class Judged(NamedTuple):
    """A training view and how the splats draw it.

    Attributes:
        screen: The splats on the screen.
        errors: [H, W] mean absolute difference of the encoded pictures over black; 0 where the view is not valid.
        depth: [H, W] drawn planar depth, alpha-normalised, scene units.
        alpha: [H, W] drawn alpha.
    """

    screen: Screen
    errors: Tensor
    depth: Tensor
    alpha: Tensor


@torch.no_grad()
def judge(state: SplatState, view: ViewTensors, formation: ImageFormation, backend: str) -> Judged:
    """Draws a view and compares it with its target."""
    screen = to_screen(state.params, view.viewmat, view.intrinsics, view.camera, formation, backend=backend)
    black = torch.zeros(3, device=state.device)
    drawn = blend(screen, view.camera, background=black, with_depth=True, backend=backend)
    assert drawn.depth is not None
    errors = (formation.picture(drawn.blended) - formation.picture(view.color)).abs().mean(dim=-1)
    if view.valid is not None:
        errors = errors * view.valid
    return Judged(screen, errors, drawn.depth, drawn.alpha)


@torch.no_grad()
def shares(screen: Screen, pixels: Tensor, backend: str) -> Tensor:
    """Returns each splat's share in a picture.

    Args:
        screen: N splats on the screen.
        pixels: [H, W] what each pixel counts.
        backend: "cpu", "cuda" or "reference".

    Returns:
        [N] sums over pixels of blending weight times what the pixel counts; of ones it is an area in px.
    """
    projected = screen.projected
    drawing = RasterPass(
        projected.means2d,
        projected.conics,
        projected.opacities,
        torch.ones_like(projected.opacities)[:, None],
        projected.depths,
        pixels.shape[1],
        pixels.shape[0],
        depth_slopes=projected.depth_slopes,
        backend=backend,
    )
    return drawing.backward(pixels[..., None], None)[3][:, 0]


@torch.no_grad()
def seen_area(state: SplatState, view: ViewTensors, formation: ImageFormation, backend: str) -> Tensor:
    """Returns [N] the area that each splat covers in a view, px, behind what hides it."""
    screen = to_screen(state.params, view.viewmat, view.intrinsics, view.camera, formation, backend=backend)
    return shares(screen, torch.ones_like(view.alpha), backend)
