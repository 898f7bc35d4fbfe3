"""Runs of the kernels of ssim.cu and photometric.cu in which each of their barriers is needed: several tiles and channels."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.ops.photometric import photometric_loss_and_gradients
from splat_engine.ops.ssim import ssim
from tests.engine.test_photometric import WEIGHTS, view_of
from tests.engine.test_ssim import pictures

SIZE = (24, 35)
"""Two tiles each way."""


def ssim_scenario() -> dict[str, Tensor]:
    """All kernels of ssim.cu: value and gradient, three channels."""
    image, target = pictures(*SIZE, 3, torch.float32)
    image.requires_grad_()
    value = ssim(image, target, backend="cuda")
    (gradient,) = torch.autograd.grad(value, image)
    return {"value": value.detach(), "gradient": gradient}


def photometric_scenario() -> dict[str, Tensor]:
    """All kernels of photometric.cu: with SSIM, and without it."""
    found: dict[str, Tensor] = {}
    for ssim_weight in (0.2, 0.0):
        view = view_of(*SIZE, torch.float32)
        parts, v_image, v_alpha = photometric_loss_and_gradients(
            *view.values(), encode=True, backend="cuda", **{**WEIGHTS, "ssim_weight": ssim_weight}
        )
        made = {**parts._asdict(), "v_image": v_image, "v_alpha": v_alpha}
        found |= {f"{name}, SSIM {ssim_weight}": value for name, value in made.items()}
    del found["ssim, SSIM 0.0"]  # not computed, and told as 0
    return found
