"""Small sets of 2D Gaussians for the rasterizer's tests, and how far their pixels are from the op's decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.ops.rasterize import rasterize
from splat_engine.ops.reference.rasterize import ALPHA_MAX, ALPHA_MIN, TRANSMITTANCE_STOP, drawable

INPUTS = ("means2d", "conics", "opacities", "features", "background")
"""The inputs of ``rasterize`` that have gradients."""


class Rendered(NamedTuple):
    """What one run gives: images, and the gradients of a random functional of them."""

    image: Tensor
    alpha: Tensor
    gradients: dict[str, Tensor]


def conics_of(sigma_long_px: Tensor, sigma_short_px: Tensor, angle_rad: Tensor) -> Tensor:
    """[N, 3] inverse covariances of ellipses with given standard deviations and direction of the long axis."""
    cosine, sine = torch.cos(angle_rad), torch.sin(angle_rad)
    long, short = sigma_long_px**-2, sigma_short_px**-2
    return torch.stack(
        [
            cosine**2 * long + sine**2 * short,
            cosine * sine * (long - short),
            sine**2 * long + cosine**2 * short,
        ],
        dim=1,
    )


def scene(
    count: int,
    width: int,
    height: int,
    channels: int = 3,
    *,
    seed: int = 0,
    sigma_px: tuple[float, float] = (0.3, 12.0),
    opacity: tuple[float, float] = (0.0, 1.0),
) -> dict[str, Tensor]:
    """Random splats in and around an image, float64: centres up to 15 % outside, both sigmas drawn log-uniformly."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    low, high = (math.log(sigma) for sigma in sigma_px)
    size = torch.tensor([width, height], dtype=torch.float64)
    sigmas = torch.exp(low + (high - low) * uniform(count, 2))
    return {
        "means2d": (1.3 * uniform(count, 2) - 0.15) * size,
        "conics": conics_of(sigmas[:, 0], sigmas[:, 1], math.tau * uniform(count)),
        "opacities": opacity[0] + (opacity[1] - opacity[0]) * uniform(count),
        "features": 2 * uniform(count, channels) - 0.5,
        "depths": 1 + uniform(count),
        "background": uniform(channels),
    }


def cast(
    tensors: Mapping[str, Tensor], dtype: torch.dtype, device: torch.device | None = None
) -> dict[str, Tensor]:
    """The same tensors in another type, and perhaps elsewhere."""
    return {name: tensor.to(device, dtype) for name, tensor in tensors.items()}


def render(tensors: Mapping[str, Tensor], width: int, height: int, backend: str = "cpu") -> Rendered:
    """Images, and gradients for a fixed random cotangent of image and alpha."""
    leaves = {
        name: tensor.detach().clone().requires_grad_(name in INPUTS) for name, tensor in tensors.items()
    }
    background = leaves.pop("background")
    image, alpha = rasterize(**leaves, width=width, height=height, background=background, backend=backend)
    leaves["background"] = background
    generator = torch.Generator().manual_seed(99)
    v_image, v_alpha = (
        torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor)
        for tensor in (image, alpha)
    )
    gradients = torch.autograd.grad(
        (image * v_image).sum() + (alpha * v_alpha).sum(), [leaves[name] for name in INPUTS]
    )
    return Rendered(image.detach(), alpha.detach(), dict(zip(INPUTS, gradients, strict=True)))


def margin(tensors: Mapping[str, Tensor], width: int, height: int) -> Tensor:
    """[H, W] how near, relatively, each pixel comes to a decision: the skip, the clamp, the stop.

    Where it is small, rounding may decide one way in one implementation and the other way in another.
    """
    arguments = [tensors[name].double() for name in ("means2d", "conics", "opacities", "features", "depths")]
    means2d, conics, opacities, _, depths = arguments
    kept = drawable(*arguments).nonzero()[:, 0]
    order = kept[torch.argsort(depths[kept], stable=True)]
    pixel_x = torch.arange(width, dtype=torch.float64) + 0.5
    pixel_y = (torch.arange(height, dtype=torch.float64) + 0.5)[:, None]
    nearest = torch.full((height, width), math.inf, dtype=torch.float64)
    transmittance = torch.ones(height, width, dtype=torch.float64)
    for splat in order.tolist():
        dx, dy = pixel_x - means2d[splat, 0], pixel_y - means2d[splat, 1]
        a, b, c = conics[splat]
        raw = opacities[splat] * torch.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)
        alpha = torch.where(raw >= ALPHA_MIN, raw.clamp(max=ALPHA_MAX), torch.zeros_like(raw))
        following = transmittance * (1 - alpha)
        for value, limit in ((raw, ALPHA_MIN), (raw, ALPHA_MAX), (following, TRANSMITTANCE_STOP)):
            nearest = torch.minimum(nearest, (value / limit - 1).abs())
        transmittance = torch.where(following > TRANSMITTANCE_STOP, following, torch.zeros_like(following))
    return nearest
