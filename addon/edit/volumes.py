"""Which splats lie inside an object: its closed surface, the cube or sphere of an empty, or its bounding box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from mathutils import Vector
from mathutils.bvhtree import BVHTree
from numpy.typing import NDArray

from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats

from ..scene import transforms
from .measures import REACH_SIGMAS
from .surfaces import Triangles, triangles_of

Mask = NDArray[np.bool_]

_WAYS = tuple(Vector(way).normalized() for way in ((0.31, 0.59, 0.74), (-0.83, 0.41, 0.37)))
"""Along no edge or face that one would model."""
_SKIP = 1e-5
"""A ray goes on this share of the surface's size behind a hit."""
_HITS_MOST = 1000


class Volume(Protocol):
    """A part of space."""

    def contains(self, points: Float) -> Mask:
        """Returns [N] which world points [N, 3] are inside."""

    def contains_whole(self, splats: Splats) -> Mask:
        """Returns [N] which splats are inside with all that one sees of them: ``REACH_SIGMAS`` to each side."""


def axes_of(splats: Splats) -> Float:
    """Returns [N, 3, 3] the splats' half axes as columns, as long as one sees them."""
    scales = REACH_SIGMAS * np.exp(splats.log_scales.astype(np.float64))
    axes: Float = transforms.rotations_of(splats.quats_wxyz) * scales[:, None, :]
    return axes


@dataclass(frozen=True)
class Box:
    """A box that may be turned and stretched.

    Attributes:
        local_from_world: [4, 4].
        low, high: [3] its corners, local.
    """

    local_from_world: Float
    low: Float
    high: Float

    def contains(self, points: Float) -> Mask:
        """See ``Volume``."""
        local = _mapped(self.local_from_world, points)
        inside: Mask = np.all((local >= self.low) & (local <= self.high), axis=1)
        return inside

    def contains_whole(self, splats: Splats) -> Mask:
        """See ``Volume``; exact: along each side an ellipsoid reaches as far as its half axes together."""
        local = _mapped(self.local_from_world, splats.means)
        reach = np.linalg.norm(self.local_from_world[:3, :3] @ axes_of(splats), axis=2)
        inside: Mask = np.all((local - reach >= self.low) & (local + reach <= self.high), axis=1)
        return inside


@dataclass(frozen=True)
class Sphere:
    """A sphere that may be stretched, around the local origin.

    Attributes:
        local_from_world: [4, 4].
        radius: Local.
    """

    local_from_world: Float
    radius: float

    def contains(self, points: Float) -> Mask:
        """See ``Volume``."""
        inside: Mask = np.linalg.norm(_mapped(self.local_from_world, points), axis=1) <= self.radius
        return inside

    def contains_whole(self, splats: Splats) -> Mask:
        """See ``Volume``; a splat counts as a ball of its longest axis, so that none that is in sticks out."""
        room = self.radius - np.linalg.norm(_mapped(self.local_from_world, splats.means), axis=1)
        inside: Mask = room >= 0
        axes = self.local_from_world[:3, :3] @ axes_of(splats.select(inside))
        inside[inside] = np.linalg.norm(axes, ord=2, axis=(1, 2)) <= room[inside]
        return inside


class Solid:
    """What a surface encloses; parts may overlap. Where it is open, most rays decide.

    Args:
        triangles: The surface, world.
    """

    def __init__(self, triangles: Triangles) -> None:
        self._low, self._high = triangles.vertices.min(axis=0), triangles.vertices.max(axis=0)
        self._middle = (self._low + self._high) / 2
        self._skip = _SKIP * float(np.linalg.norm(self._high - self._low))
        self._tree = BVHTree.FromPolygons(
            (triangles.vertices - self._middle).tolist(), triangles.corners.tolist(), all_triangles=True
        )

    def contains(self, points: Float) -> Mask:
        """See ``Volume``."""
        inside: Mask = np.all((points >= self._low) & (points <= self._high), axis=1)
        rows = np.flatnonzero(inside)
        inside[rows] = [self._is_inside(Vector(point)) for point in (points[rows] - self._middle).tolist()]
        return inside

    def _is_inside(self, point: Vector) -> bool:
        """Asks the ray to either side, and a third one if they do not agree."""
        first, second = self._encloses(point, _WAYS[0]), self._encloses(point, -_WAYS[0])
        return first if first == second else self._encloses(point, _WAYS[1])

    def _encloses(self, point: Vector, way: Vector) -> bool:
        """Tells whether a ray leaves the surface more often, or less often, than it enters it."""
        turns = 0
        for _ in range(_HITS_MOST):
            place, normal, _, _ = self._tree.ray_cast(point, way)
            if place is None or normal is None:
                break
            turns += 1 if normal.dot(way) > 0 else -1
            point = place + way * self._skip
        return turns != 0

    def contains_whole(self, splats: Splats) -> Mask:
        """See ``Volume``; a splat whose longest axis reaches the surface is asked at 14 of its own surface's points."""
        inside = self.contains(splats.means)
        rows = np.flatnonzero(inside)
        within = splats.select(rows)
        centres, axes = within.means.astype(np.float64), axes_of(within)
        reaches = self._reach_surface(centres, np.linalg.norm(axes, axis=1).max(axis=1, initial=0.0))
        tips = centres[reaches, None] + np.einsum("nij,kj->nki", axes[reaches], _AROUND)
        held = self.contains(tips.reshape(-1, 3)).reshape(-1, len(_AROUND))
        inside[rows[reaches]] = np.all(held, axis=1)
        return inside

    def _reach_surface(self, centres: Float, reach: Float) -> NDArray[np.intp]:
        """Returns which of the balls [N] of these radii the surface cuts."""
        local = (centres - self._middle).tolist()
        find = self._tree.find_nearest
        cut = [
            find(Vector(centre), most)[0] is not None
            for centre, most in zip(local, reach.tolist(), strict=True)
        ]
        return np.flatnonzero(cut)


_CORNERS = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
_AROUND: Float = np.concatenate([np.eye(3), -np.eye(3), np.array(_CORNERS) / np.sqrt(3)])
"""[14, 3] points of the unit sphere."""


def _mapped(matrix: Float, points: Float) -> Float:
    mapped: Float = np.asarray(points, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]
    return mapped


def volume_of(object: Any, depsgraph: Any, *, as_box: bool = False) -> Volume:
    """Returns the volume of an object, with its modifiers and its transform.

    Args:
        object: A mesh, or something that can become one; or an empty that is shown as cube or sphere.
        depsgraph: Of the view layer.
        as_box: Take the object's bounding box, which turns with it.

    Raises:
        UserError: The object encloses nothing, or its transform flattens it.
    """
    evaluated = object.evaluated_get(depsgraph)
    matrix = np.array(evaluated.matrix_world, np.float64)
    if abs(np.linalg.det(matrix[:3, :3])) < 1e-30:
        raise UserError(f"The scale of {object.name!r} is zero: it encloses nothing.", "Give it a size.")
    inverse = np.linalg.inv(matrix)
    if object.type == "EMPTY":
        return _volume_of_empty(object, inverse)
    if as_box:
        corners = np.array(evaluated.bound_box, np.float64)
        return Box(inverse, corners.min(axis=0), corners.max(axis=0))
    triangles = triangles_of(evaluated)
    if triangles is None:
        raise UserError(
            f"{object.name!r} has no surface to crop by.",
            "Choose a mesh, or an empty shown as cube or sphere.",
        )
    return Solid(triangles.mapped(matrix))


def _volume_of_empty(object: Any, local_from_world: Float) -> Volume:
    size = np.full(3, float(object.empty_display_size))
    if object.empty_display_type == "CUBE":
        return Box(local_from_world, -size, size)
    if object.empty_display_type == "SPHERE":
        return Sphere(local_from_world, float(size[0]))
    raise UserError(
        f"The empty {object.name!r} shows no volume.",
        "Set Object Data > Empty > Display As to Cube or Sphere.",
    )
