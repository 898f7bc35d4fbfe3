"""``ssim``: mean structural similarity of two images, with the gradient to the first."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.autograd.function import once_differentiable

from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, apply, check_place
from splat_engine.ops.reference import ssim as reference

PADDINGS = ("same", "valid", "reflect")

__all__ = ["PADDINGS", "ssim"]


def ssim(
    image: Tensor, target: Tensor, *, padding: str = "same", data_range: float = 1.0, backend: str = "cpu"
) -> Tensor:
    """Computes the mean structural similarity (SSIM) of two images: 11 x 11 Gaussian window, sigma 1.5 px.

    Args:
        image: [H, W, C], C channels of which each is compared by itself.
        target: [H, W, C]; no gradient.
        padding: "same" compares every pixel and takes zeros outside the image, as 3DGS trains with; "valid" compares the
            pixels whose window lies inside, as skimage and Wang et al. do (H and W at least 11); "reflect" compares
            every pixel and mirrors the image at its border, as torchmetrics 1.9 does (H and W at least 6).
        data_range: difference between the largest and the least possible value.
        backend: "cpu", "cuda" or "reference".

    Returns:
        The mean over pixels and channels, a scalar, at most 1.

    Raises:
        ValueError: a shape, type, size or name is not as above.

    Source: Wang et al. 2004, Image Quality Assessment, eq. 13. csrc/include/gaussian_window.h derives the gradient.
    """
    check_backend(backend)
    scalar_name(image.dtype)
    check_tensor("image", image, (None, None, None))
    check_tensor("target", target, tuple(image.shape), image)
    if padding not in PADDINGS:
        raise ValueError(f"unknown padding {padding!r}; known are {', '.join(PADDINGS)}")
    least = {"same": 1, "valid": reference.WINDOW, "reflect": reference.WINDOW // 2 + 1}[padding]
    if min(image.shape[:2]) < least or image.shape[2] < 1:
        raise ValueError(
            f"image: padding {padding!r} needs at least [{least}, {least}, 1], got {list(image.shape)}"
        )
    if not data_range > 0:
        raise ValueError(f"data_range: expected more than 0, got {data_range}")
    target = target.detach()
    if padding == "reflect":
        image, target, padding = _mirrored(image), _mirrored(target), "valid"
    if backend == "reference":
        return reference.ssim(image, target, padding=padding, data_range=data_range)
    check_place(backend, image)
    mean: Tensor = apply(
        _Ssim, image.contiguous(), target.contiguous(), padding == "valid", float(data_range), backend
    )
    return mean


def _mirrored(image: Tensor) -> Tensor:
    """The image with five more pixels on each side, mirrored about its border pixels."""
    planes = image.permute(2, 0, 1)[None]
    return functional.pad(planes, (reference.WINDOW // 2,) * 4, mode="reflect")[0].permute(1, 2, 0)


class _Ssim(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, image: Tensor, target: Tensor, valid: bool, data_range: float, backend: str
    ) -> Tensor:
        mean = image.new_empty(())
        maps = image.new_empty((3, *image.shape)) if ctx.needs_input_grad[0] else None
        height, width, channels = image.shape
        ctx.backend = backend
        ctx.shape = {"height": height, "width": width, "channels": channels, "valid": int(valid)}
        call(
            backend,
            "ssim_fwd",
            image,
            **ctx.shape,
            data_range=data_range,
            image=address(image),
            target=address(target),
            mean=address(mean),
            maps=address(maps),
        )
        if maps is not None:
            ctx.save_for_backward(image, target, maps)
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v_mean: Tensor) -> tuple[Tensor | None, ...]:
        image, target, maps = ctx.saved_tensors
        v_image = torch.empty_like(image)
        call(
            ctx.backend,
            "ssim_bwd",
            image,
            **ctx.shape,
            image=address(image),
            target=address(target),
            maps=address(maps),
            v_mean=address(v_mean.contiguous()),
            v_image=address(v_image),
        )
        return v_image, None, None, None, None
