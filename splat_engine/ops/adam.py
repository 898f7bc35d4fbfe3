"""``adam_step``: one update of the Adam optimiser, in place, in one pass over memory."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, check_place
from splat_engine.ops.reference import adam as reference

__all__ = ["adam_step"]


def adam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    *,
    lr: float,
    step: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-15,
    visible: Tensor | None = None,
    backend: str = "cpu",
) -> None:
    """Updates a parameter and its two moments in place, bias-corrected as ``torch.optim.Adam`` is.

    Args:
        param: [N, ...] parameter, contiguous; N may be 0. Changed.
        grad: gradient of the same shape.
        exp_avg: first moment, same shape, contiguous. Changed.
        exp_avg_sq: second moment, same shape, contiguous. Changed.
        lr: learning rate.
        step: number of this step, counted from 1.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        eps: added to the denominator.
        visible: [N] bool; rows where it is False stay as they are, moments included. None updates all rows.
        backend: "cpu", "cuda" or "reference".

    Raises:
        ValueError: a shape, type or number is not as above.

    Source: Kingma and Ba 2015, Adam, algorithm 1.
    """
    _check(param, grad, exp_avg, exp_avg_sq, visible, step, (beta1, beta2), backend)
    if backend == "reference":
        reference.adam_step(
            param,
            grad,
            exp_avg,
            exp_avg_sq,
            lr=lr,
            step=step,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            visible=visible,
        )
        return
    check_place(backend, param)
    grad = grad.detach().contiguous()
    mask = None if visible is None else visible.contiguous()
    rows = param.shape[0]
    call(
        backend,
        "adam_step",
        param,
        rows=rows,
        row_size=param.numel() // rows if rows else 0,
        rate1=1.0 - beta1,
        beta2=beta2,
        rate2=1.0 - beta2,
        eps=eps,
        step_size=lr / (1.0 - beta1**step),
        inverse_root=1.0 / math.sqrt(1.0 - beta2**step),
        gradient=address(grad),
        visible=address(mask),
        parameter=address(param),
        exp_avg=address(exp_avg),
        exp_avg_sq=address(exp_avg_sq),
    )


def _check(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    visible: Tensor | None,
    step: int,
    betas: tuple[float, float],
    backend: str,
) -> None:
    check_backend(backend)
    scalar_name(param.dtype)
    if param.dim() < 1:
        raise ValueError("param: expected at least one dimension, got a scalar")
    shape = tuple(param.shape)
    check_tensor("grad", grad, shape, param)
    for name, tensor in (("param", param), ("exp_avg", exp_avg), ("exp_avg_sq", exp_avg_sq)):
        check_tensor(name, tensor, shape, param)
        if not tensor.is_contiguous():
            raise ValueError(f"{name}: expected a contiguous tensor, since it is changed in place")
    if visible is not None:
        check_tensor("visible", visible, shape[:1])
        if visible.dtype != torch.bool or visible.device != param.device:
            raise ValueError(
                f"visible: expected bool on {param.device}, got {visible.dtype} on {visible.device}"
            )
    check_step(step, betas)


def check_step(step: int, betas: tuple[float, float]) -> None:
    """Raise ValueError unless a step's number and Adam's decays are possible."""
    if step < 1:
        raise ValueError(f"step: expected 1 or more, got {step}")
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"beta1, beta2: expected 0 to below 1, got {betas}")
