"""Fits a picture with 2D Gaussians: nine numbers each, blended in the order they are stored in.

The smallest use of the rasterizer: autograd turns mean, two log-scales and an angle into a conic in front of
``ops.rasterize``, whose depth order is the array's. Everything is in display values; nothing is projected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from splat_engine.fit.metrics import psnr_db
from splat_engine.formats.settings import ImageFitSettings
from splat_engine.ops import adam_step, rasterize

NUMBERS_PER_SPLAT = 9
SIGMA_MIN_PX = 0.3
"""Narrower ones would fall between the pixel centres; a floor keeps their gradient alive."""


@dataclass
class ImageFit:
    """The result.

    Attributes:
        params: means [K, 2] px, log_scales [K, 2], angles_rad [K], colors [K, 3] encoded, opacity_logits [K].
        picture: [H, W, 3] encoded, of the final parameters.
        first: The same of the parameters before the first step.
        psnr: PSNR in dB before each step, and after the last: steps + 1 values.
    """

    params: dict[str, Tensor]
    picture: Tensor
    first: Tensor
    psnr: list[float] = field(default_factory=list)


def ring_example(size: int = 96) -> Tensor:
    """Returns the procedural ring picture [size, size, 3] in 0 to 1.

    u and v run over [-1, 1] across the picture, r is the distance from (-0.25, -0.15), the channels are
    0.5 + 0.5 cos(9 r - p) for p = 0, 2.1, 4.2, mixed 0.65 to 0.35 with (u + 1) / 2.
    """
    axis = torch.linspace(-1.0, 1.0, size)
    v, u = torch.meshgrid(axis, axis, indexing="ij")
    radius = torch.sqrt((u + 0.25) ** 2 + (v + 0.15) ** 2)
    phases = torch.tensor([0.0, 2.1, 4.2])
    waves = 0.5 + 0.5 * torch.cos(9.0 * radius[..., None] - phases)
    return (0.65 * waves + 0.35 * ((u + 1) / 2)[..., None]).clamp(0.0, 1.0)


def start_params(target: Tensor, settings: ImageFitSettings) -> dict[str, Tensor]:
    """Returns Gaussians scattered over a picture [H, W, 3], coloured by it, wide enough to cover it."""
    generator = torch.Generator().manual_seed(settings.seed)
    height, width = target.shape[:2]
    count = settings.count
    means = torch.rand(count, 2, generator=generator) * torch.tensor([width, height])
    column, row = means.long().unbind(dim=1)
    sigma_px = 0.6 * math.sqrt(height * width / max(1, count))
    logit = math.log(settings.start_opacity / (1 - settings.start_opacity))
    return {
        "means": means,
        "log_scales": torch.full((count, 2), math.log(sigma_px)),
        "angles_rad": torch.rand(count, generator=generator) * math.pi,
        "colors": target[row.clamp_max(height - 1), column.clamp_max(width - 1)].clone(),
        "opacity_logits": torch.full((count,), logit),
    }


def conics_of(log_scales: Tensor, angles_rad: Tensor) -> Tensor:
    """Returns the inverse covariances (a, b, c) [K, 3], px^-2, of axes turned by an angle from the picture's x axis.

    With R the rotation and s the standard deviations, the inverse is R diag(s^-2) R^T.
    """
    inverse = torch.exp(-2.0 * log_scales)
    cosine, sine = torch.cos(angles_rad), torch.sin(angles_rad)
    first, second = inverse.unbind(dim=1)
    return torch.stack(
        (
            cosine**2 * first + sine**2 * second,
            cosine * sine * (first - second),
            sine**2 * first + cosine**2 * second,
        ),
        dim=1,
    )


def draw_image(params: Mapping[str, Tensor], width: int, height: int, backend: str = "cpu") -> Tensor:
    """Draws 2D Gaussians over black, first ones in front, differentiable: [H, W, 3]."""
    count = params["means"].shape[0]
    image, _ = rasterize(
        params["means"],
        conics_of(params["log_scales"], params["angles_rad"]),
        torch.sigmoid(params["opacity_logits"]),
        params["colors"],
        torch.arange(count, dtype=params["means"].dtype),
        width,
        height,
        background=params["means"].new_zeros(3),
        backend=backend,
    )
    drawn: Tensor = image
    return drawn


def fit_image(
    target: Tensor,
    settings: ImageFitSettings,
    *,
    on_step: Callable[[int, float], None] = lambda step, psnr: None,
    backend: str = "cpu",
) -> ImageFit:
    """Fits 2D Gaussians to a picture by Adam on the mean squared error.

    Args:
        target: [H, W, 3] encoded, 0 to 1.
        settings: Number, steps, rates, seed.
        on_step: Told the step and the PSNR before it.
        backend: Of the ops.

    Returns:
        The Gaussians, their picture, and the curve.
    """
    height, width = target.shape[:2]
    params = {name: value.requires_grad_(True) for name, value in start_params(target, settings).items()}
    moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in params.items()}
    rates = {"means": settings.rate_means * width, "colors": settings.rate_colors}
    with torch.no_grad():
        first = draw_image(params, width, height, backend)
    curve = []
    for step in range(1, settings.steps + 1):
        loss = (draw_image(params, width, height, backend) - target).square().mean()
        curve.append(psnr_db(loss.item()))
        on_step(step, curve[-1])
        gradients = torch.autograd.grad(loss, list(params.values()))
        for (name, value), gradient in zip(params.items(), gradients, strict=True):
            rate = rates.get(name, settings.rate_shapes)
            adam_step(
                value.detach(), gradient.contiguous(), *moments[name], lr=rate, step=step, backend=backend
            )
        params["log_scales"].data.clamp_min_(math.log(SIGMA_MIN_PX))
    with torch.no_grad():
        picture = draw_image(params, width, height, backend)
    curve.append(psnr_db((picture - target).square().mean().item()))
    return ImageFit({name: value.detach() for name, value in params.items()}, picture, first, curve)
