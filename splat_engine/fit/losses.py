"""What a fit minimises, and the weights of its parts.

Source: Kerbl et al. 2023, 3D Gaussian Splatting, eq. 7 (0.8 L1 + 0.2 D-SSIM).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import torch
from torch import Tensor

from splat_engine.fit.drawing import Drawn
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.views import ViewTensors
from splat_engine.formats.capture import CaptureInfo, View
from splat_engine.formats.settings import LossSettings, LossSpace
from splat_engine.ops import photometric_loss

GATE_ALPHA = 0.5
"""Depth and normals are compared where target and drawing are at least this opaque: elsewhere they are mixtures. The
losses put zeros elsewhere and select nothing: the size of a selection is known to a card only, and would be waited for."""

LINEAR_LIGHT_WEIGHT = 10.0
"""Weight of the squared error of linear light: at a difference of 0.04 its gradient is that of the L1 of encoded values."""
CLEAN_SAMPLES = 32
"""From so many samples a pixel on, views are compared as if they had no noise. Noise of 0.7 of the value costs encoded values
4.6 dB against linear light, 0.25 costs 1.3 dB and 0.17 0.2 dB; with 0.12 they are 0.3 dB ahead (``python -m
tools.bench.noise``). A pixel that one sample leaves as noisy as it is bright has 0.17 with 32."""


def loss_space_of(info: CaptureInfo, views: Sequence[View], settings: LossSettings) -> LossSpace:
    """Returns what "auto" means for a capture: linear light where the views have the noise of few samples.

    What a denoiser has smoothed, display pictures, which are cut at 1, and what a rasteriser drew, whose samples make smooth
    edges, are compared as encoded values.

    Args:
        info: Of the capture.
        views: The views that are fitted, each with the file that is its truth.
        settings: The wish.
    """
    if settings.loss_space != "auto":
        return settings.loss_space
    noisy = info.engine == "CYCLES" and 0 < info.samples < CLEAN_SAMPLES and not info.denoised
    return "linear" if noisy and all(view.exr is not None for view in views) else "encoded"


def depth_loss(depth: Tensor, alpha: Tensor, target: Tensor, target_alpha: Tensor, extent: float) -> Tensor:
    """Returns the mean absolute difference of depths relative to the scene's extent, over the gated pixels.

    Args:
        depth: [H, W] drawn, alpha-normalised.
        alpha: [H, W] drawn; gates, without gradient.
        target: [H, W], 0 where there is none.
        target_alpha: [H, W].
        extent: Scene units.

    Returns:
        A scalar; 0 where no pixel passes the gate.
    """
    gate = (alpha.detach() > GATE_ALPHA) & (target_alpha > GATE_ALPHA) & (target > 0)
    difference = torch.where(gate, (depth - target).abs(), 0.0)
    return difference.sum() / (gate.sum().clamp_min(1) * extent)


def normal_loss(normals: Tensor, alpha: Tensor, target: Tensor, target_alpha: Tensor) -> Tensor:
    """Returns the mean of 1 - cos of the angle between normals [H, W, 3], over the gated pixels; 0 if there is none."""
    length = torch.linalg.vector_norm(target, dim=-1)
    gate = (alpha.detach() > GATE_ALPHA) & (target_alpha > GATE_ALPHA) & (length > GATE_ALPHA)
    cosine: Tensor = torch.nn.functional.cosine_similarity(normals, target, dim=-1)
    loss: Tensor = torch.where(gate, 1.0 - cosine, 0.0).sum() / gate.sum().clamp_min(1)
    return loss


class PhotometricOptions(TypedDict):
    """How a view's picture is compared; keywords of the photometric ops."""

    encode: bool
    linear: bool
    ssim_weight: float
    mse_weight: float
    alpha_weight: float
    valid: Tensor | None


def photometric_options(
    view: ViewTensors, formation: ImageFormation, settings: LossSettings
) -> PhotometricOptions:
    """Returns how a view's picture is compared in a fit; "auto" that nobody has decided is "encoded"."""
    if settings.loss_space == "linear":
        return {
            "encode": formation.is_linear,
            "linear": True,
            "ssim_weight": 0.0,
            "mse_weight": LINEAR_LIGHT_WEIGHT + settings.mse_weight,
            "alpha_weight": settings.alpha_weight,
            "valid": view.valid,
        }
    return {
        "encode": formation.is_linear,
        "linear": False,
        "ssim_weight": settings.ssim_weight,
        "mse_weight": settings.mse_weight,
        "alpha_weight": settings.alpha_weight,
        "valid": view.valid,
    }


def fit_loss(
    drawn: Drawn,
    view: ViewTensors,
    background: Tensor,
    formation: ImageFormation,
    settings: LossSettings,
    *,
    extent: float,
    geometry_share: float,
    backend: str,
) -> tuple[Tensor, Tensor]:
    """Returns the loss of one drawn view, and the mean squared difference of the encoded pictures for the record.

    Args:
        drawn: The splats over ``background``.
        view: The target.
        background: [3] in the blending space, the same that was drawn over.
        formation: The image formation.
        settings: The weights.
        extent: The scene's, scene units.
        geometry_share: Factor on the depth and normal losses, 0 to 1: they fade out.
        backend: Of the photometric loss.

    Returns:
        (loss, mean squared difference), scalars; the second without gradient.
    """
    photometric = photometric_loss(
        drawn.blended,
        drawn.alpha,
        view.color,
        view.alpha,
        background,
        **photometric_options(view, formation, settings),
        backend=backend,
    )
    geometry = geometry_loss(drawn, view, settings, extent=extent, share=geometry_share)
    return photometric.loss + geometry, photometric.squared


def geometry_loss(
    drawn: Drawn, view: ViewTensors, settings: LossSettings, *, extent: float, share: float
) -> Tensor:
    """Returns the weighted losses of what is drawn of depth and normals; 0 where neither is drawn and known.

    Args:
        drawn: The splats.
        view: The target.
        settings: The weights.
        extent: The scene's, scene units.
        share: Factor on both, 0 to 1.
    """
    loss = drawn.alpha.new_zeros(())
    if drawn.depth is not None and view.depth is not None:
        weight = settings.depth_weight * share
        loss = loss + weight * depth_loss(drawn.depth, drawn.alpha, view.depth, view.alpha, extent)
    if drawn.normals is not None and view.normals is not None:
        weight = settings.normal_weight * share
        loss = loss + weight * normal_loss(drawn.normals, drawn.alpha, view.normals, view.alpha)
    return loss
