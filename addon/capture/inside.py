"""Cameras inside a target that look out of its free space all around: for rooms. Pure numpy; rays are cast by the caller."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

from .rigs import Framing, look_at, rig_directions, square_camera

LENS_MM = 24.0
"""Wide: a room is seen from within its walls. Picture of 74 degrees."""
_SENSOR_MM = 36.0
VIEWS_A_PLACE = 8
"""So many pictures of 74 degrees cover most of a sphere."""
_CANDIDATES_A_PLACE, _CANDIDATES_LEAST, _CANDIDATES_MOST = 16, 64, 512
_CLEARANCE = 0.05
"""Least free distance around a camera, as a share of the target's middle extent."""
_OWN_WALLS = 0.6
"""A thing of this share of the target's size or more is the room itself: its backs do not mean that a camera is in a solid."""
_MARGIN = 0.04
"""Share of the box at each side in which no camera stands."""


class Hit(NamedTuple):
    """What a ray meets first.

    Attributes:
        distance: Scene units.
        is_back: Whether it meets the back of a face.
        size: Diagonal of the thing's box, scene units.
    """

    distance: float
    is_back: bool
    size: float


Cast = Callable[[Float, Float], Hit | None]
"""Origin [3] and unit direction [3] to what is met, or None."""


def inside_cameras(
    framing: Framing, cast: Cast, count: int, *, size_px: int, lens_mm: float = 0.0, seed: int = 0
) -> list[Camera]:
    """Returns square views from free places inside a target, looking evenly to all sides, up and down too.

    Args:
        framing: The target: a room with what is in it.
        cast: Casts a ray.
        count: Number of views.
        size_px: Side of a view.
        lens_mm: Focal length on a 36 mm sensor; 0: ``LENS_MM``.
        seed: Turns the views.

    Raises:
        UserError: There is no free place inside the target.
    """
    places = free_places(framing, cast, max(1, math.ceil(count / VIEWS_A_PLACE)))
    focal_px = (lens_mm or LENS_MM) / _SENSOR_MM * size_px
    digits = len(str(count))
    cameras = []
    for number, share in enumerate(np.array_split(np.arange(count), len(places))):
        directions = rig_directions("sphere", len(share), seed=seed * len(places) + number + 1)
        for at, direction in zip(share, directions, strict=True):
            cameras.append(
                square_camera(
                    size_px,
                    focal_px,
                    look_at(places[number], places[number] + direction),
                    near=framing.sphere.radius * 1e-3,
                    far=framing.sphere.radius * 1000,
                    name=f"inside {at + 1:0{digits}d}",
                )
            )
    return cameras


def free_places(framing: Framing, cast: Cast, count: int) -> Float:
    """Returns [N, 3] places inside a target, N <= count, far from each other and from all surfaces.

    A place is free if nothing is near and it is in no solid: a solid is a thing smaller than the room whose backs most rays
    meet. Of a target that is partly open, places that see about as much of it as others do are taken.

    Raises:
        UserError: There is none.
    """
    wanted = min(max(_CANDIDATES_A_PLACE * count, _CANDIDATES_LEAST), _CANDIDATES_MOST)
    extent = framing.bounds_max - framing.bounds_min
    low, span = framing.bounds_min + _MARGIN * extent, (1 - 2 * _MARGIN) * extent
    candidates = low + span * _halton(wanted)
    least = _CLEARANCE * float(np.median(extent))
    facts = np.array([_look_around(place, cast, float(np.linalg.norm(extent))) for place in candidates])
    clearance, enclosed, solid = facts.T
    free = (clearance >= least) & (solid < 0.5) & (enclosed > 0)
    if not free.any():
        raise UserError(
            "There is no free place inside the target for cameras.",
            "Choose the room with what is in it as the target, or a rig that stands around it.",
        )
    free &= enclosed >= 0.5 * enclosed[free].max()
    return _spread(candidates[free], clearance[free], count)


def _look_around(place: Float, cast: Cast, target_size: float) -> tuple[float, float, float]:
    """Returns the least distance to a surface, the share of rays that meet one, and the share that meets a solid from within."""
    hits = [cast(place, direction) for direction in AROUND]
    met = [hit for hit in hits if hit is not None]
    in_solid = sum(hit.is_back and hit.size < _OWN_WALLS * target_size for hit in met)
    nearest = min((hit.distance for hit in met), default=math.inf)
    return nearest, len(met) / len(hits), in_solid / len(hits)


AROUND: Float = np.array(
    [
        (x, y, z)
        for x in (-1.0, 0.0, 1.0)
        for y in (-1.0, 0.0, 1.0)
        for z in (-1.0, 0.0, 1.0)
        if abs(x) + abs(y) + abs(z) in (1, 3)
    ]
) + np.array([1.1e-3, 0.7e-3, 1.3e-3])
"""14 directions: along the axes and the diagonals, a little off, so that no ray runs along an edge."""
AROUND /= np.linalg.norm(AROUND, axis=1, keepdims=True)


def _halton(count: int) -> Float:
    """Returns [count, 3] evenly scattered points of the unit cube.

    Source: Halton 1960, On the efficiency of certain quasi-random sequences; bases 2, 3 and 5.
    """
    points = np.zeros((count, 3))
    for axis, base in enumerate((2, 3, 5)):
        rest, share = np.arange(1, count + 1), 1.0
        while rest.any():
            share /= base
            points[:, axis] += share * (rest % base)
            rest = rest // base
    return points


def _spread(places: Float, clearance: Float, count: int) -> Float:
    """Returns ``count`` of the places, each as far as can be from those before; the first is the freest."""
    chosen = [int(np.argmax(np.where(np.isfinite(clearance), clearance, 0)))]
    distance = np.full(len(places), np.inf)
    while len(chosen) < min(count, len(places)):
        distance = np.minimum(distance, np.linalg.norm(places - places[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(distance)))
    return places[chosen]
