"""What new splats look like, and the small tools that strategies share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.place import send

SPLIT_CHILDREN = 2
SPLIT_SHRINK = 0.8 * SPLIT_CHILDREN
"""Children of a split are this much smaller than their parent (Kerbl et al. 2023)."""


def clone_and_split(
    state: SplatState, stays: Tensor, cloned: Tensor, split: Tensor, generator: torch.Generator
) -> None:
    """Adds a copy of some splats and puts two smaller ones, drawn from its density, in place of each of others.

    Args:
        state: Changed.
        stays: [N] bool, False for splats that go anyway; changed.
        cloned, split: Indices.
        generator: On the processor.

    Source: Kerbl et al. 2023, section 5.2.
    """
    stays[split] = False
    parents = split.repeat(SPLIT_CHILDREN)
    means, log_scales = state.params["means"], state.params["log_scales"]
    normal = send(torch.randn((len(parents), 3), generator=generator), state.device)
    offsets = rotate(state.params["quats_wxyz"][parents], normal * log_scales[parents].exp())
    changed = {
        "means": torch.cat((means[cloned], means[parents] + offsets)),
        "log_scales": torch.cat((log_scales[cloned], log_scales[parents] - math.log(SPLIT_SHRINK))),
    }
    state.rearrange(stays.nonzero()[:, 0], torch.cat((cloned, parents)), changed)


def highest(values: Tensor, threshold: float, most: int) -> Tensor:
    """Indices, ascending, of values above a threshold; the ``most`` highest if they are too many."""
    above = (values > threshold).nonzero()[:, 0]
    if len(above) > most:
        order = torch.sort(values[above], descending=True, stable=True).indices
        above = above[order[: max(0, most)]].sort().values
    return above


def rotate(quats_wxyz: Tensor, vectors: Tensor) -> Tensor:
    """Turns [N, 3] vectors by [N, 4] quaternions of any norm but zero."""
    unit = torch.nn.functional.normalize(quats_wxyz, dim=1)
    scalar, axis = unit[:, :1], unit[:, 1:]
    twice = 2.0 * torch.linalg.cross(axis, vectors, dim=1)
    turned: Tensor = vectors + scalar * twice + torch.linalg.cross(axis, twice, dim=1)
    return turned


def draw_by_weight(weights: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draws ``count`` indices with replacement, each with a chance in proportion to its weight.

    Args:
        weights: [N], at least 0, finite, on any device. Where all are 0, so are the indices.
        count: How many.
        generator: On the processor.

    Returns:
        [count] int64 on the weights' device.
    """
    sums = weights.double().cumsum(dim=0)
    shares = send(torch.rand(count, generator=generator, dtype=torch.float64), weights.device)
    # A share is below 1, but rounding can bring the product to the last sum.
    return torch.searchsorted(sums, shares * sums[-1], right=True).clamp_max(len(weights) - 1)
