"""Reference of ``photometric_loss``: a drawn view against its target, in plain torch.

Sources: Kerbl et al. 2023, 3D Gaussian Splatting, eq. 7 (L1 and D-SSIM); IEC 61966-2-1 (sRGB).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.ops.reference.ssim import ssim


class PhotometricLoss(NamedTuple):
    """A loss and what it is made of; scalars. Only ``loss`` has a gradient.

    Attributes:
        loss: The weighted sum.
        l1: Mean absolute difference of the colours; of linear light, times the slope of the sRGB curve.
        ssim: Mean structural similarity; 0 where its weight is 0: it is then not computed.
        squared: Mean squared difference of the colours, in the same sense.
        alpha: Mean absolute difference of the alphas.
    """

    loss: Tensor
    l1: Tensor
    ssim: Tensor
    squared: Tensor
    alpha: Tensor


def photometric_loss(
    image: Tensor,
    alpha: Tensor,
    target: Tensor,
    target_alpha: Tensor,
    background: Tensor,
    *,
    encode: bool,
    linear: bool,
    ssim_weight: float,
    mse_weight: float,
    alpha_weight: float,
    valid: Tensor | None,
) -> PhotometricLoss:
    """See ``splat_engine.ops.photometric_loss`` for the arguments."""
    wanted = target + (1.0 - target_alpha)[..., None] * background
    drawn, wanted = (_compared(picture, encode, linear) for picture in (image, wanted))
    if valid is not None:
        drawn = torch.where(valid[..., None], drawn, wanted)
        alpha = torch.where(valid, alpha, target_alpha)
    difference = drawn - wanted
    if linear:
        difference = difference * _slope(drawn.detach())
    l1, squared = difference.abs().mean(), difference.square().mean()
    alpha_l1 = (alpha - target_alpha).abs().mean()
    loss = (0.0 if linear else 1.0 - ssim_weight) * l1 + mse_weight * squared + alpha_weight * alpha_l1
    similarity = torch.zeros_like(l1)
    if ssim_weight > 0:
        similarity = ssim(drawn, wanted, padding="same", data_range=1.0)
        loss = loss + ssim_weight * (1.0 - similarity)
    return PhotometricLoss(loss, *(part.detach() for part in (l1, similarity, squared, alpha_l1)))


def _compared(given: Tensor, encode: bool, linear: bool) -> Tensor:
    """sRGB values, or linear light, of what is given as linear light (``encode``) or as sRGB values."""
    if encode == linear:
        return given
    return _encoded(given) if encode else _decoded(given)


def _decoded(encoded: Tensor) -> Tensor:
    knee = 0.04045
    curved = ((encoded.clamp_min(knee) + 0.055) / 1.055) ** 2.4
    return torch.where(encoded <= knee, encoded / 12.92, curved)


def _slope(linear: Tensor) -> Tensor:
    """Derivative of the sRGB value by the linear light."""
    knee = 0.0031308
    curved = 1.055 / 2.4 * linear.clamp_min(knee) ** (1 / 2.4 - 1)
    return torch.where(linear <= knee, torch.full_like(linear, 12.92), curved)


def _encoded(linear: Tensor) -> Tensor:
    knee = 0.0031308
    curved = 1.055 * linear.clamp_min(knee) ** (1 / 2.4) - 0.055
    return torch.where(linear <= knee, 12.92 * linear, curved)
