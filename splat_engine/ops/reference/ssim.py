"""Reference of ``ssim``: structural similarity of two images, in plain torch.

Source: Wang et al. 2004, Image Quality Assessment: From Error Visibility to Structural Similarity, eq. 13 and 14.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

WINDOW = 11
SIGMA_PX = 1.5
K1, K2 = 0.01, 0.03


def ssim(image: Tensor, target: Tensor, *, padding: str, data_range: float) -> Tensor:
    """Mean SSIM of two [H, W, C] images; see ``splat_engine.ops.ssim`` for the arguments."""
    planes = torch.stack((image, target)).permute(0, 3, 1, 2)  # [2, C, H, W]
    first, second = planes[0], planes[1]
    moments = torch.stack((first, second, first * first, second * second, first * second))
    mean_1, mean_2, square_1, square_2, product = _blur(moments, padding)
    variance_1, variance_2 = square_1 - mean_1**2, square_2 - mean_2**2
    covariance = product - mean_1 * mean_2
    c1, c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2
    luminance = (2 * mean_1 * mean_2 + c1) / (mean_1**2 + mean_2**2 + c1)
    structure = (2 * covariance + c2) / (variance_1 + variance_2 + c2)
    mean: Tensor = (luminance * structure).mean()
    return mean


def gaussian_taps(dtype: torch.dtype) -> Tensor:
    """The window along one axis: [11], sums to 1."""
    offsets = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    taps = torch.exp(-0.5 * (offsets / SIGMA_PX) ** 2)
    return (taps / taps.sum()).to(dtype)


def _blur(planes: Tensor, padding: str) -> Tensor:
    """Blurs [..., H, W] planes with the window; "same" pads with zeros, "valid" loses 5 pixels on each side."""
    taps = gaussian_taps(planes.dtype)
    pad = WINDOW // 2 if padding == "same" else 0
    flat = planes.reshape(-1, 1, *planes.shape[-2:])
    flat = functional.conv2d(flat, taps.reshape(1, 1, WINDOW, 1), padding=(pad, 0))
    flat = functional.conv2d(flat, taps.reshape(1, 1, 1, WINDOW), padding=(0, pad))
    return flat.reshape(*planes.shape[:-2], *flat.shape[-2:])
