"""Compares gradients with central differences and says how far they are apart.

Also used by tools/bench/gradcheck.py, which prints the table of worst errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

STEP = 1e-3
FLOOR = 1e-3
"""Entries below this fraction of the largest one are compared with that fraction: differences have no more digits."""


def worst_relative_errors(loss: Callable[..., Tensor], inputs: Mapping[str, Tensor]) -> dict[str, float]:
    """Worst relative error of the gradient of a scalar function, for each input.

    Args:
        loss: called with ``inputs`` as keywords; gives a scalar.
        inputs: float64 tensors.

    Returns:
        For each input the largest |gradient - difference| / max(|difference|, FLOOR * its largest entry).

    Raises:
        AssertionError: an input's differences are all zero: the check would prove nothing.
    """
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in inputs.items()}
    gradients = torch.autograd.grad(loss(**leaves), list(leaves.values()))
    errors = {}
    for name, gradient in zip(leaves, gradients, strict=True):
        differences = central_differences(loss, inputs, name)
        largest = differences.abs().max()
        assert largest > 0, f"the loss does not depend on {name}"
        scale = differences.abs().clamp_min(FLOOR * largest)
        errors[name] = float(((gradient - differences).abs() / scale).max())
    return errors


def central_differences(loss: Callable[..., Tensor], inputs: Mapping[str, Tensor], name: str) -> Tensor:
    """(f(x + h) - f(x - h)) / 2h for each entry x of one input; of fourth order, so that h need not be tiny."""
    with torch.no_grad():
        moved = {key: tensor.detach().clone() for key, tensor in inputs.items()}
        flat = moved[name].view(-1)
        result = torch.empty_like(flat)
        for index in range(flat.numel()):
            value = flat[index].item()
            step = STEP * max(1.0, abs(value))
            samples = []
            for multiple in (-2, -1, 1, 2):
                flat[index] = value + multiple * step
                samples.append(loss(**moved))
            flat[index] = value
            result[index] = (samples[0] - 8 * samples[1] + 8 * samples[2] - samples[3]) / (12 * step)
    return result.view_as(moved[name])


def weighted_sum(tensors: tuple[Tensor, ...], seed: int = 7) -> Tensor:
    """A scalar in which every entry of the tensors has a random weight of its own, the same for the same shapes."""
    generator = torch.Generator().manual_seed(seed)
    total = tensors[0].new_zeros(())
    for tensor in tensors:
        weights = torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor)
        total = total + (tensor * weights).sum()
    return total


def relative_l2(a: Tensor, b: Tensor) -> float:
    """|a - b| / |b|; 0 for two empty or zero tensors."""
    a, b = a.detach(), b.detach()
    norm = float(b.norm())
    return float((a - b).norm()) / norm if norm > 0 else float(a.norm())
