"""Reference of ``adam_step``: one update of the Adam optimiser, in plain torch.

Source: Kingma and Ba 2015, Adam: A Method for Stochastic Optimization, algorithm 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


@torch.no_grad()
def adam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    *,
    lr: float,
    step: int,
    beta1: float,
    beta2: float,
    eps: float,
    visible: Tensor | None,
) -> None:
    """Updates ``param`` and both moments in place; see ``splat_engine.ops.adam_step`` for the arguments."""
    first = beta1 * exp_avg + (1 - beta1) * grad
    second = beta2 * exp_avg_sq + (1 - beta2) * grad * grad
    step_size = lr / (1 - beta1**step)
    denominator = second.sqrt() / math.sqrt(1 - beta2**step) + eps
    updated = param - step_size * first / denominator
    for destination, source in ((param, updated), (exp_avg, first), (exp_avg_sq, second)):
        if visible is None:
            destination.copy_(source)
        else:
            destination[visible] = source[visible]
