"""An order of points in which neighbours in space are neighbours in memory.

Source: Morton 1966, "A Computer Oriented Geodetic Data Base and a New Technique in File Sequencing"; of splats: the
re-sorting of parameters in the fastest public engines.
"""

from __future__ import annotations

import torch
from torch import Tensor

AXIS_BITS = 10
SPREAD = ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249))
"""Shift and mask of each round that doubles the distances between an axis's bits, until two free bits follow each."""
REACH_SIGMA = 3.0
"""The grid's reach around the mean, in standard deviations of each axis; what lies beyond is in its outermost cells. Taking
the smallest and the largest value instead, one stray splat could put all others into one cell."""

FARTHEST = 1e15
"""Whose square can still be summed in float32."""


def morton_codes(points: Tensor) -> Tensor:
    """Gives the cell of each point on a 1024^3 grid, its place along Morton's curve.

    Args:
        points: [N, 3] on any device; N may be 0. What is not finite counts as lying at the origin.

    Returns:
        [N] int32 of 30 bits: of x, y and z in turns, x lowest. Nothing here waits for a card.
    """
    points = torch.nan_to_num(points, nan=0.0, posinf=0.0, neginf=0.0).clamp(-FARTHEST, FARTHEST)
    count = max(1, len(points))
    offsets = points - points.sum(dim=0) / count
    reach = REACH_SIGMA * (offsets.square().sum(dim=0) / count).sqrt()
    cells = 2**AXIS_BITS
    shares = offsets / reach.clamp_min(torch.finfo(points.dtype).tiny) * 0.5 + 0.5
    bits = (shares * cells).clamp(0, cells - 1).to(torch.int32)
    for shift, mask in SPREAD:
        bits = (bits | (bits << shift)) & mask
    x, y, z = bits.unbind(dim=1)
    codes: Tensor = x | (y << 1) | (z << 2)
    return codes


def morton_order(points: Tensor) -> Tensor:
    """Returns the indices [N] that put points [N, 3] into Morton's order; those of one cell keep theirs."""
    return torch.sort(morton_codes(points), stable=True).indices
