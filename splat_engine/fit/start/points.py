"""Splats out of points: as wide as the way to their neighbours, flat where a normal is known; and random points."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from splat_engine.fit.start.scene import scene_bounds
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture
from splat_engine.formats.conventions import SH_C0, Float, srgb_from_linear
from splat_engine.formats.point_ply import Points
from splat_engine.formats.splats import Splats

Doubles = NDArray[np.float64]

NEIGHBOURS = 3
"""A first splat is as large as the distance to this many nearest points (Kerbl et al. 2023)."""
NORMAL_SHARE = 0.2
"""Thickness of a first splat along the surface's normal, as a share of its width (FACTS.md section 8: 0.1 to 0.3)."""
LARGEST_SHARE = 0.1
"""No first splat is wider than this share of the scene's extent, nor of its distance to a camera."""
SMALLEST_SHARE = 1e-5
"""Coincident points get splats of this share of the scene's extent."""
NEAR_SHARE = 0.01
"""Points nearer to a perspective camera than this share of the scene's extent are left out: they fill its picture."""
RANDOM_OPACITY = 0.1
"""Random points begin no stronger: a fog that hides the scene from the views learns slowly (suzanne256, 1000 steps: 38.6
dB in place of 27.5)."""


def random_points(capture: Capture, count: int, rng: np.random.Generator) -> Points:
    """Returns grey points, even in the ball around what the views look at; normals zero."""
    centre, radius = scene_bounds(capture)
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    positions = centre + directions * radius * np.cbrt(rng.uniform(size=(count, 1)))
    colors = rng.uniform(0.1, 0.4, size=(count, 3))
    return Points(
        positions.astype(np.float32), colors.astype(np.float32), np.zeros((count, 3), dtype=np.float32)
    )


def splats_from_points(
    points: Points, *, extent: float, opacity: float, cameras: list[Camera] | None = None
) -> Splats:
    """Returns a splat for each point: as wide as the way to its neighbours, flat where a normal is known.

    Args:
        points: N points; coincident ones are legal.
        extent: The scene's, scene units; bounds the sizes.
        opacity: Of every splat, 0 to 1 exclusive.
        cameras: Training cameras; points close to a perspective one are left out, and splats near it stay small.

    Returns:
        At most N splats of SH degree 0.
    """
    width = neighbour_distance(points.positions.astype(np.float64))
    return sized_splats(
        points,
        np.stack((width, width), axis=1),
        quats_z_to(points.normals.astype(np.float64)),
        extent=extent,
        opacity=opacity,
        cameras=cameras,
    )


def sized_splats(
    points: Points,
    widths: Doubles,
    quats_wxyz: Doubles,
    *,
    extent: float,
    opacity: float,
    cameras: list[Camera] | None = None,
) -> Splats:
    """Returns a splat for each point that is not close to a camera.

    Args:
        points: N points; where the normal is not zero the splat is flat along its own z axis, elsewhere a ball.
        widths: [N, 2] standard deviations along the splat's x and y axes, scene units; bounded here.
        quats_wxyz: [N, 4] the splat's rotation.
        extent, opacity, cameras: As of ``splats_from_points``.
    """
    distance = _camera_distance(points.positions.astype(np.float64), cameras or [])
    kept = distance > NEAR_SHARE * extent
    widest = LARGEST_SHARE * np.minimum(extent, distance[kept])
    along = np.clip(widths[kept], SMALLEST_SHARE * extent, widest[:, None])
    thick = np.sqrt(along.prod(axis=1, keepdims=True))
    is_flat = np.linalg.norm(points.normals[kept], axis=1) > 0.5
    thick[is_flat] *= NORMAL_SHARE
    encoded = srgb_from_linear(points.colors[kept].astype(np.float64))
    return Splats(
        means=points.positions[kept].astype(np.float32),
        log_scales=np.log(np.c_[along, thick]).astype(np.float32),
        quats_wxyz=quats_wxyz[kept].astype(np.float32),
        opacity_logits=np.full(int(kept.sum()), math.log(opacity / (1 - opacity)), np.float32),
        sh=((encoded - 0.5) / SH_C0)[:, None, :].astype(np.float32),
    )


def _camera_distance(positions: Float, cameras: list[Camera]) -> Doubles:
    """[N] distance to the nearest perspective camera; infinite without one."""
    from scipy.spatial import cKDTree  # a third of a second: not at the top

    centres = [camera.position for camera in cameras if camera.model == "perspective"]
    if not centres or not len(positions):
        return np.full(len(positions), np.inf)
    distance: Doubles = cKDTree(np.array(centres)).query(positions)[0]
    return distance


def neighbour_distance(positions: Float) -> Doubles:
    """Returns [N] the root mean square distance to the nearest points; infinite for a single point."""
    from scipy.spatial import cKDTree  # a third of a second: not at the top

    count = len(positions)
    if count < 2:
        return np.full(count, np.inf)
    neighbours = min(NEIGHBOURS, count - 1)
    distance = cKDTree(positions).query(positions, k=neighbours + 1)[0][:, 1:]
    result: Doubles = np.sqrt(np.square(distance).mean(axis=1))
    return result


def quats_z_to(normals: Float) -> Doubles:
    """Returns [N, 4] rotations w x y z that turn the z axis to the normals, by the shortest way; none for a zero normal."""
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    unit = np.where(length > 0.5, normals / np.maximum(length, 1e-12), [0.0, 0.0, 1.0])
    # (1 + z.n, z x n), normalised; for n = -z any half turn about a horizontal axis will do.
    quats = np.stack((1 + unit[:, 2], -unit[:, 1], unit[:, 0], np.zeros(len(unit))), axis=1)
    norm = np.linalg.norm(quats, axis=1, keepdims=True)
    return np.where(norm > 1e-6, quats / np.maximum(norm, 1e-12), [0.0, 1.0, 0.0, 0.0])
