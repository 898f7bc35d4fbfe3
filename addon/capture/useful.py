"""Which places for a camera are of use: rays through its picture meet something, and from the outside."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import bpy
import numpy as np
from mathutils import Matrix, Vector

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float

from .inside import AROUND, Cast, Hit
from .rigs import Framing

_STEP = 1e-4
"""A ray that goes on behind a surface begins so far behind it, as a share of the distance to it."""
_MOST_PASSED = 64
_FARTHEST = 1e9
_OPENINGS = 2
"""Of the 14 rays around a camera in a solid so many may find a way out, through a hole or a seam."""
_RAYS_A_SIDE = 5
_INSIDE_SHARE = 0.5
"""A camera is inside geometry if more than this share of what it meets shows its back."""


class Rays:
    """Rays into what renders. Blender's own also meet what is hidden from renders, or from the camera; these pass through it.

    Args:
        graph: The dependency graph of a render.
        rendered: Full names of the objects that the camera sees; ``Bodies.objects``.
    """

    def __init__(self, graph: bpy.types.Depsgraph, rendered: Container[str]) -> None:
        self._graph, self._rendered = graph, rendered

    def first(self, origin: Float, direction: Float, length: float = math.inf) -> Met | None:
        """Returns what a ray of unit direction meets within a length, or None."""
        ray, at = Vector(direction.tolist()), 0.0
        scene, longest = self._graph.scene, min(length, _FARTHEST)
        for _ in range(_MOST_PASSED):
            start = Vector((origin + at * direction).tolist())
            hit, place, normal, _, obj, matrix = scene.ray_cast(
                self._graph, start, ray, distance=longest - at
            )
            if not hit:
                return None
            at += (place - start).length
            if obj.original.name_full in self._rendered:
                return Met(np.array(place), at, normal.dot(ray) > 0, obj, matrix)
            at += max(_STEP * at, _STEP)
            if at >= longest:
                return None
        return None


class Met(NamedTuple):
    """What a ray meets: where, how far away, whether from behind, and which object under which matrix."""

    place: Float
    distance: float
    is_back: bool
    obj: bpy.types.Object
    matrix: Matrix


def useful_cameras(rays: Rays, cameras: Sequence[Camera]) -> list[Camera]:
    """Returns those cameras that see something and are not inside of it.

    Backs tell nothing where most cameras meet them: the scene is a room, or its normals are flipped. Hair and volumes meet no
    ray; where nothing in the whole scene does, all cameras are of use.

    Args:
        rays: Into the scene.
        cameras: Perspective cameras.
    """
    counts = [_hits(rays, camera) for camera in cameras]
    seeing = [number for number, (hits, _) in enumerate(counts) if hits]
    outside = [number for number in seeing if counts[number][1] <= _INSIDE_SHARE * counts[number][0]]
    kept = outside if 2 * len(outside) >= len(seeing) else seeing
    return [cameras[number] for number in kept] if kept else list(cameras)


@dataclass(frozen=True)
class Verdict:
    """What rays from cameras to the target have met.

    Attributes:
        clear: Numbers of the cameras that are kept.
        inside: How many cameras stand inside something.
        blocked: How many have something in front of the whole target.
    """

    clear: tuple[int, ...]
    inside: int = 0
    blocked: int = 0

    @property
    def dropped(self) -> int:
        """How many are not kept."""
        return self.inside + self.blocked


def judge_views(rays: Rays, cameras: Sequence[Camera], framing: Framing) -> Verdict:
    """Judges which cameras have a free view of the target.

    One ray to the target's middle is enough where it meets nothing, or first the front of something in the target's box or
    beyond its middle: with tens of thousands of instances a ray takes many milliseconds. Else the camera is inside something if nearly all rays around it meet backs near by; that tells nothing where most cameras do: the target
    is a room, or its normals are flipped. Its view is blocked if all rays to points in the target's box end before they reach
    the box; one that meets nothing goes through hair, volumes and what is hollow. Where no camera would be left, all are kept.

    Args:
        rays: Into the scene.
        cameras: Perspective cameras that look at the target.
        framing: The target.
    """
    plain = [_is_plainly_clear(rays, camera.position, framing) for camera in cameras]
    inside = [
        not is_plain and _is_inside(rays, camera.position, framing)
        for is_plain, camera in zip(plain, cameras, strict=True)
    ]
    if 2 * sum(inside) > len(cameras):
        inside = [False] * len(cameras)
    words = []
    for is_plain, is_in, camera in zip(plain, inside, cameras, strict=True):
        is_blocked = not is_plain and not is_in and _is_blocked(rays, camera.position, framing)
        words.append("inside" if is_in else "blocked" if is_blocked else "clear")
    clear = tuple(number for number, word in enumerate(words) if word == "clear")
    if not clear:
        return Verdict(tuple(range(len(cameras))))
    return Verdict(clear, words.count("inside"), words.count("blocked"))


def caster(rays: Rays) -> Cast:
    """Returns what casts rays for ``inside``."""

    def cast(origin: Float, direction: Float) -> Hit | None:
        met = rays.first(origin, direction)
        if met is None:
            return None
        corners = np.array(met.obj.bound_box) @ np.array(met.matrix)[:3, :3].T
        return Hit(met.distance, met.is_back, float(np.linalg.norm(np.ptp(corners, axis=0))))

    return cast


def _is_inside(rays: Rays, position: Float, framing: Framing) -> bool:
    """Tells whether nearly all rays around a place meet backs within the target's size: a sky dome is farther away."""
    others = 0
    for direction in AROUND:
        met = rays.first(position, direction, 2 * framing.sphere.radius)
        others += met is None or not met.is_back
        if others > _OPENINGS:
            return False
    return True


def _is_plainly_clear(rays: Rays, position: Float, framing: Framing) -> bool:
    middle = _aims(framing)[0]
    length = float(np.linalg.norm(middle - position))
    if length <= _slack(framing):
        return False
    met = rays.first(position, (middle - position) / length)
    return met is None or (not met.is_back and (met.distance >= length or _is_in_box(met, framing)))


def _slack(framing: Framing) -> float:
    return 1e-3 * framing.sphere.radius


def _is_in_box(met: Met, framing: Framing) -> bool:
    low, high = framing.bounds_min - _slack(framing), framing.bounds_max + _slack(framing)
    return bool((met.place >= low).all() and (met.place <= high).all())


def _is_blocked(rays: Rays, position: Float, framing: Framing) -> bool:
    for point in _aims(framing):
        length = float(np.linalg.norm(point - position))
        if length <= _slack(framing):
            return False
        met = rays.first(position, (point - position) / length, length)
        if met is None or _is_in_box(met, framing):
            return False
    return True


def _aims(framing: Framing) -> Float:
    """[9, 3] the middle of the target's box, and points half-way to its corners."""
    middle = (framing.bounds_min + framing.bounds_max) / 2
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return np.r_[middle[None], middle + signs * (framing.bounds_max - middle) / 2]


def _hits(rays: Rays, camera: Camera) -> tuple[int, int]:
    """Returns how many rays meet a surface, and how many of them its back."""
    found = [rays.first(camera.position, direction) for direction in _rays(camera)]
    return sum(met is not None for met in found), sum(met is not None and met.is_back for met in found)


def _rays(camera: Camera) -> Float:
    """[N, 3] unit directions through an even grid of the picture."""
    share = (np.arange(_RAYS_A_SIDE) + 0.5) / _RAYS_A_SIDE
    x, y = np.meshgrid(share * camera.width, share * camera.height)
    local = np.stack(
        [(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, np.ones_like(x)], axis=-1
    ).reshape(-1, 3)
    world: Float = local @ camera.world_from_camera[:3, :3].T
    return world / np.linalg.norm(world, axis=1, keepdims=True)
