"""``photometric_loss``: how far a drawn view is from its target, with the gradient, in one pass over the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, apply, check_place, contiguous
from splat_engine.ops.reference import photometric as reference
from splat_engine.ops.reference.photometric import PhotometricLoss

__all__ = ["PhotometricLoss", "photometric_loss", "photometric_loss_and_gradients"]


def photometric_loss(
    image: Tensor,
    alpha: Tensor,
    target: Tensor,
    target_alpha: Tensor,
    background: Tensor,
    *,
    encode: bool,
    linear: bool = False,
    ssim_weight: float,
    mse_weight: float = 0.0,
    alpha_weight: float = 0.0,
    valid: Tensor | None = None,
    backend: str = "cpu",
) -> PhotometricLoss:
    """Compares a drawn view with its target: (1 - w) L1 + w (1 - SSIM) + v MSE + u L1 of the alphas.

    The target is composed over the background here: target + (1 - target_alpha) background. With ``encode``, both sides
    then go through the sRGB curve, which has no upper end and below 0 stays straight. SSIM takes zeros outside the image.
    Gradients go to ``image`` and ``alpha``; at a difference of exactly 0 that of L1 is 0.

    With ``linear`` linear light is compared: the loss is v MSE + u L1 of the alphas, and a difference is taken times the slope
    of the sRGB curve at the drawn value, which counts as a constant. So the eye's scale is kept, and yet noise in the target
    does not move the minimum away from its mean, as it does in encoded values.

    Args:
        image: [H, W, 3] drawn over the background.
        alpha: [H, W] drawn.
        target: [H, W, 3] premultiplied, in the space of the image; no gradient.
        target_alpha: [H, W]; no gradient.
        background: [3] in the same space; no gradient.
        encode: the pictures are given as linear light, and compared as sRGB values; else they are given as such.
        linear: compare linear light, whichever is given.
        ssim_weight: w, 0 to 1; 0 with ``linear``.
        mse_weight: v.
        alpha_weight: u.
        valid: [H, W] bool; pixels where it is False count as equal and have no gradient. None: all count.
        backend: "cpu", "cuda" or "reference".

    Returns:
        The loss and its parts.

    Raises:
        ValueError: a shape, type, number or name is not as above.

    Sources: Kerbl et al. 2023, 3D Gaussian Splatting, eq. 7; Wang et al. 2004 (SSIM); IEC 61966-2-1 (sRGB); Mildenhall et
    al. 2022, NeRF in the Dark, eq. 3 to 5 (linear light).
    """
    check_backend(backend)
    _check(image, alpha, target, target_alpha, background, ssim_weight, linear, valid)
    target, target_alpha, background = target.detach(), target_alpha.detach(), background.detach()
    if backend == "reference":
        return reference.photometric_loss(
            image,
            alpha,
            target,
            target_alpha,
            background,
            encode=encode,
            linear=linear,
            ssim_weight=ssim_weight,
            mse_weight=mse_weight,
            alpha_weight=alpha_weight,
            valid=valid,
        )
    check_place(backend, image)
    options = _options(encode, linear, ssim_weight, mse_weight, alpha_weight)
    given = [tensor.contiguous() for tensor in (image, alpha, target, target_alpha, background)]
    loss, figures = apply(_PhotometricLoss, *given, contiguous(valid), options, backend)
    return PhotometricLoss(loss, *figures[1:].unbind())


def photometric_loss_and_gradients(
    image: Tensor,
    alpha: Tensor,
    target: Tensor,
    target_alpha: Tensor,
    background: Tensor,
    *,
    encode: bool,
    linear: bool = False,
    ssim_weight: float,
    mse_weight: float = 0.0,
    alpha_weight: float = 0.0,
    valid: Tensor | None = None,
    backend: str = "cpu",
) -> tuple[PhotometricLoss, Tensor, Tensor]:
    """``photometric_loss`` for a caller that goes backward by itself, without autograd.

    Args:
        image: as there, and so all others.
        backend: "cpu" or "cuda".

    Returns:
        The loss and its parts without gradient; dL/dimage [H, W, 3]; dL/dalpha [H, W].

    Raises:
        ValueError: a shape, type or number is not as ``photometric_loss`` wants it.
    """
    _check(image, alpha, target, target_alpha, background, ssim_weight, linear, valid)
    check_place(backend, image)
    given = [tensor.detach().contiguous() for tensor in (image, alpha, target, target_alpha, background)]
    v_image, v_alpha = torch.empty_like(given[0]), torch.empty_like(given[1])
    options = _options(encode, linear, ssim_weight, mse_weight, alpha_weight)
    figures = _compare(given, contiguous(valid), options, v_image, v_alpha, backend)
    return PhotometricLoss(*figures.unbind()), v_image, v_alpha


def _options(
    encode: bool, linear: bool, ssim_weight: float, mse_weight: float, alpha_weight: float
) -> dict[str, float]:
    """What is compared, and the weights, under the names of the native structure."""
    return {
        "encode": int(encode),
        "linear": int(linear),
        "l1_weight": 0.0 if linear else 1.0 - ssim_weight,
        "ssim_weight": ssim_weight,
        "mse_weight": mse_weight,
        "alpha_weight": alpha_weight,
    }


def _compare(
    given: Sequence[Tensor],
    valid: Tensor | None,
    options: dict[str, float],
    v_image: Tensor | None,
    v_alpha: Tensor | None,
    backend: str,
) -> Tensor:
    """The kernels' call on contiguous image, alpha, target, target_alpha, background: the figures [5]; fills gradients."""
    image, alpha, target, target_alpha, background = given
    figures = image.new_empty(5)
    call(
        backend,
        "photometric_loss",
        image,
        height=image.shape[0],
        width=image.shape[1],
        **options,
        image=address(image),
        alpha=address(alpha),
        target=address(target),
        target_alpha=address(target_alpha),
        background=address(background),
        valid=address(valid),
        figures=address(figures),
        v_image=address(v_image),
        v_alpha=address(v_alpha),
    )
    return figures


def _check(
    image: Tensor,
    alpha: Tensor,
    target: Tensor,
    target_alpha: Tensor,
    background: Tensor,
    ssim_weight: float,
    linear: bool,
    valid: Tensor | None,
) -> None:
    scalar_name(image.dtype)
    check_tensor("image", image, (None, None, 3))
    size = tuple(image.shape[:2])
    for name, tensor in (("alpha", alpha), ("target_alpha", target_alpha)):
        check_tensor(name, tensor, size, image)
    check_tensor("target", target, (*size, 3), image)
    check_tensor("background", background, (3,), image)
    if min(size) < 1:
        raise ValueError(f"image: expected at least 1 x 1 pixels, got {list(image.shape)}")
    if valid is not None:
        check_tensor("valid", valid, size)
        if valid.dtype != torch.bool or valid.device != image.device:
            raise ValueError(f"valid: expected bool on {image.device}, got {valid.dtype} on {valid.device}")
    if not 0 <= ssim_weight <= 1:
        raise ValueError(f"ssim_weight: expected 0 to 1, got {ssim_weight}")
    if linear and ssim_weight > 0:
        raise ValueError(f"ssim_weight: expected 0 with linear, got {ssim_weight}: SSIM of noise is biased")


class _PhotometricLoss(torch.autograd.Function):
    """The kernels make value and gradient at once; backward only scales the gradient."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *given, valid, options, backend = arguments
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        v_image, v_alpha = [torch.empty_like(value) for value in given[:2]] if wanted else (None, None)
        figures = _compare(given, valid, options, v_image, v_alpha, backend)
        ctx.backend = backend
        ctx.save_for_backward(v_image, v_alpha)
        ctx.mark_non_differentiable(figures)
        return figures[0].clone(), figures

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        # To see that the factor is 1 a card would have to be waited for.
        if ctx.backend != "cpu" or v_loss.item() != 1.0:
            gradients = tuple(v_loss * gradient for gradient in gradients)
        return (*gradients, None, None, None, None, None, None)
