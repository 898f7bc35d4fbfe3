"""Which splats are faint, of an odd size or shape, or alone; numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import Float
from splat_engine.formats.splats import Splats

Mask = NDArray[np.bool_]

WIDTH_SIGMAS = 4.0
"""A splat's width as one sees it: two standard deviations to either side, where 14 % of its opacity is left."""
REACH_SIGMAS = WIDTH_SIGMAS / 2
BULK = (1.0, 99.0)
"""Percentiles between which the splats that make the picture lie."""


@dataclass(frozen=True)
class Limits:
    """What splats may be; 0 is no limit.

    Attributes:
        opacity_min: 0 to 1.
        width_min, width_max: Of the longest axis, scene units.
        aspect_max: The longest axis by the middle one: needles have much, discs and balls 1.
    """

    opacity_min: float = 0.0
    width_min: float = 0.0
    width_max: float = 0.0
    aspect_max: float = 0.0


def beyond_limits(opacities: Float, scales: Float, limits: Limits) -> Mask:
    """Returns [N] which splats are not what the limits allow.

    Args:
        opacities: [N] 0 to 1.
        scales: [N, 3] standard deviations, scene units.
        limits: The limits.
    """
    ordered = np.sort(scales, axis=1)
    widths = WIDTH_SIGMAS * ordered[:, 2]
    beyond: Mask = (opacities < limits.opacity_min) | (widths < limits.width_min)
    if limits.width_max > 0:
        beyond |= widths > limits.width_max
    if limits.aspect_max > 0:
        beyond |= ordered[:, 2] > limits.aspect_max * ordered[:, 1]
    return beyond


def default_distance(splats: Splats) -> float:
    """Returns how far from a surface a splat may lie, scene units: twice the visible width of an ordinary splat.

    And at least a 250th of the whole's size, since the surface that is measured may be less finely subdivided than
    the one that was rendered. In five of six fits 0 to 0.02 % of the splats lie farther off (in a room 1.9 %); at
    half of it up to 2.1 % would (7.7 %), as opaque as all others. N = 0 gives 0.
    """
    if not len(splats):
        return 0.0
    low, high = np.percentile(splats.means, BULK, axis=0)
    width = WIDTH_SIGMAS * float(np.median(splats.scales().max(axis=1)))
    return max(2 * width, float(np.linalg.norm(high - low)) / 250)


def small_groups(means: Float, distance: float, least: int) -> Mask:
    """Returns [N] which splats belong to a group of fewer than ``least``; the largest group always stays.

    Groups are made of cubes of space that touch, ``distance`` wide: splats nearer than that are always in one
    group, splats more than 3.5 times as far apart never join two. What is not finite is in no group.

    Args:
        means: [N, 3] centres.
        distance: Scene units, above 0.
        least: Splats.
    """
    finite: Mask = np.all(np.isfinite(means), axis=1)
    if not finite.any():
        return ~finite
    cells, members = _cells(means[finite], distance)
    groups = _joined(len(cells), *_touching(cells))[members]
    sizes = np.bincount(groups)
    small = sizes < least
    small[np.argmax(sizes)] = False
    found: Mask = ~finite
    found[finite] = small[groups]
    return found


def _cells(means: Float, distance: float) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Returns the keys of the occupied cubes, sorted, and each splat's cube.

    Along each axis empty cubes are left out but for one, so that a splat a million cubes away needs no large number.
    The key of the next cube is greater by 1 along z, and by ``_STRIDE`` and its square along y and x.
    """
    key = np.zeros(len(means), np.int64)
    for axis in range(3):
        steps, which = np.unique(np.floor(means[:, axis].astype(np.float64) / distance), return_inverse=True)
        places = np.cumsum(np.minimum(np.diff(steps, prepend=steps[0]), 2.0)).astype(np.int64)
        key = key * _STRIDE + places[which] + 1
    cells, members = np.unique(key, return_inverse=True)
    return cells, members


_STRIDE = 2**21
"""More than two places for a million splats along one axis; its cube is the greatest int64."""


def _touching(cells: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns the pairs of cubes that touch by face, edge or corner, each once."""
    first, second = [], []
    neighbours = [(x, y, z) for x in (0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) > (0, 0, 0)]
    for x, y, z in neighbours:
        wanted = cells + ((x * _STRIDE + y) * _STRIDE + z)
        at = np.minimum(np.searchsorted(cells, wanted), len(cells) - 1)
        there = np.flatnonzero(cells[at] == wanted)
        first.append(there)
        second.append(at[there])
    return np.concatenate(first), np.concatenate(second)


def _joined(count: int, first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.intp]:
    """Returns [count] the lowest member of each one's group, when pairs are joined.

    Source: Zhang, Azad, Hu, "FastSV" (2020): roots are hooked to lower roots, and all point to their roots.
    """
    roots = np.arange(count)
    while True:
        lower = np.minimum(roots[first], roots[second])
        hooked = roots.copy()
        np.minimum.at(hooked, roots[first], lower)
        np.minimum.at(hooked, roots[second], lower)
        while not np.array_equal(hooked[hooked], hooked):
            hooked = hooked[hooked]
        if np.array_equal(hooked, roots):
            return roots
        roots = hooked
