"""Which places for a camera are of use: rays through its picture meet something, and from the outside."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np
from mathutils import Vector

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float

_RAYS_A_SIDE = 5
_INSIDE_SHARE = 0.5
"""A camera is inside geometry if more than this share of what it meets shows its back."""


def useful_cameras(graph: bpy.types.Depsgraph, cameras: Sequence[Camera]) -> list[Camera]:
    """Returns those cameras that see something and are not inside of it.

    Backs tell nothing where most cameras meet them: the scene is a room, or its normals are flipped. Hair and volumes meet no
    ray; where nothing in the whole scene does, all cameras are of use.

    Args:
        graph: The dependency graph of a render.
        cameras: Perspective cameras.
    """
    counts = [_hits(graph, camera) for camera in cameras]
    seeing = [number for number, (hits, _) in enumerate(counts) if hits]
    outside = [number for number in seeing if counts[number][1] <= _INSIDE_SHARE * counts[number][0]]
    kept = outside if 2 * len(outside) >= len(seeing) else seeing
    return [cameras[number] for number in kept] if kept else list(cameras)


def _hits(graph: bpy.types.Depsgraph, camera: Camera) -> tuple[int, int]:
    """Returns how many rays meet a surface, and how many of them its back."""
    hits = backs = 0
    origin = Vector(camera.position.tolist())
    for direction in map(Vector, _rays(camera).tolist()):
        hit, _, normal, *_ = graph.scene.ray_cast(graph, origin, direction)
        hits += hit
        backs += hit and normal.dot(direction) > 0
    return hits, backs


def _rays(camera: Camera) -> Float:
    """[N, 3] unit directions through an even grid of the picture."""
    share = (np.arange(_RAYS_A_SIDE) + 0.5) / _RAYS_A_SIDE
    x, y = np.meshgrid(share * camera.width, share * camera.height)
    local = np.stack(
        [(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, np.ones_like(x)], axis=-1
    ).reshape(-1, 3)
    world: Float = local @ camera.world_from_camera[:3, :3].T
    return world / np.linalg.norm(world, axis=1, keepdims=True)
