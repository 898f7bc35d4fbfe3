"""Reference of ``relocate``: the opacity and the size of a splat's copies, in plain torch.

Source: Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", equation 9.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

COUNT_MAX = 51
OPACITY_MIN, OPACITY_MAX = 1e-6, 1.0 - 2.0**-23


def relocate(opacities: Tensor, scales: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Opacities and scales of the copies; see ``splat_engine.ops.relocate`` for the arguments."""
    copies = counts.clamp(1, COUNT_MAX)
    held = opacities.double().clamp(OPACITY_MIN, OPACITY_MAX)
    each = 1 - (1 - held) ** copies.double().reciprocal()
    powers = each[:, None] ** torch.arange(1, COUNT_MAX + 1, device=each.device)
    total = (_weights().to(each.device)[copies] * powers).sum(dim=1)
    moved = copies > 1
    new_opacities = torch.where(moved, each, opacities.double())
    ratios = torch.where(moved, held / total, torch.ones_like(total))
    return new_opacities.to(opacities.dtype), (scales * ratios[:, None]).to(scales.dtype)


def _weights() -> Tensor:
    """[COUNT_MAX + 1, COUNT_MAX]: row n has the factors of o', o'^2 ... in the paper's double sum over n copies."""
    rows = [[0.0] * COUNT_MAX for _ in range(COUNT_MAX + 1)]
    for copies in range(1, COUNT_MAX + 1):
        rows[copies] = list(rows[copies - 1])
        for k in range(copies):  # the paper's i is `copies` here
            rows[copies][k] += math.comb(copies - 1, k) * (-1) ** k / math.sqrt(k + 1)
    return torch.tensor(rows, dtype=torch.float64)
