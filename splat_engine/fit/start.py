"""The first splats of a fit: from points, from splats, or at random in the scene's bounds; and the scene's size.

Numpy alone: nothing here is optimised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture
from splat_engine.formats.colmap import is_colmap, read_colmap_points
from splat_engine.formats.conventions import SH_C0, Float, srgb_from_linear
from splat_engine.formats.errors import UserError
from splat_engine.formats.ply import read_ply_element
from splat_engine.formats.point_ply import Points, read_point_ply
from splat_engine.formats.settings import RANDOM_START, FitSettings
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats

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
EXTENT_MARGIN = 1.1
"""3DGS multiplies the cameras' radius by this."""


def scene_bounds(capture: Capture, positions: Float | None = None) -> tuple[Float, float]:
    """Returns a sphere around what the views look at.

    Args:
        capture: Its own bounds count first, then the points.
        positions: [N, 3] points on the scene, or None.

    Returns:
        (centre [3], radius), scene units; the radius is positive.
    """
    info = capture.info
    if info.bounds_min is not None and info.bounds_max is not None:
        low, high = np.array(info.bounds_min, np.float64), np.array(info.bounds_max, np.float64)
        if np.isfinite([low, high]).all() and (high > low).any():
            return (low + high) / 2, float(np.linalg.norm(high - low)) / 2
    if positions is not None and len(positions) > 1:
        low, high = np.percentile(positions.astype(np.float64), [1, 99], axis=0)
        if (high > low).any():
            return (low + high) / 2, float(np.linalg.norm(high - low)) / 2
    return _looked_at([view.camera for view in capture.of_split("train")])


def _looked_at(cameras: list[Camera]) -> tuple[Float, float]:
    """The point nearest to all cameras' axes (weakly drawn to the origin), and the radius their pictures cover there."""
    normal_equations, right_side = 1e-3 * np.eye(3), np.zeros(3)
    for camera in cameras:
        across = np.eye(3) - np.outer(camera.forward, camera.forward)
        normal_equations += across
        right_side += across @ camera.position
    centre = np.linalg.solve(normal_equations, right_side)
    radii = []
    for camera in cameras:
        half_px = min(camera.width, camera.height) / 2
        distance = abs(float((centre - camera.position) @ camera.forward))
        radii.append(half_px / abs(camera.fx) * (1.0 if camera.model == "orthographic" else distance))
    radius = float(np.median(radii))
    return centre, radius if radius > 0 else 1.0


def scene_extent(capture: Capture, positions: Float | None = None) -> float:
    """Returns the length that learning rates and densification are relative to, scene units, positive.

    It is 3DGS's: 1.1 times the largest distance of a training camera from the cameras' centre. Where that says nothing
    (a single camera, orthographic cameras, cameras in one spot) it is the radius of the scene's bounds.
    """
    cameras = [view.camera for view in capture.of_split("train")]
    _, bounds_radius = scene_bounds(capture, positions)
    if any(camera.model == "orthographic" for camera in cameras):
        return bounds_radius
    centres = np.array([camera.position for camera in cameras])
    radius = EXTENT_MARGIN * float(np.linalg.norm(centres - centres.mean(axis=0), axis=1).max())
    return radius if radius > 0.1 * bounds_radius else bounds_radius


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
    positions = points.positions.astype(np.float64)
    distance = _camera_distance(positions, cameras or [])
    kept = distance > NEAR_SHARE * extent
    positions, distance = positions[kept], distance[kept]
    widest = LARGEST_SHARE * np.minimum(extent, distance)
    width = np.clip(_neighbour_distance(positions), SMALLEST_SHARE * extent, widest)
    scales = np.repeat(width[:, None], 3, axis=1)
    normals = points.normals[kept].astype(np.float64)
    has_normal = np.linalg.norm(normals, axis=1) > 0.5
    scales[has_normal, 2] *= NORMAL_SHARE
    encoded = srgb_from_linear(points.colors[kept].astype(np.float64))
    return Splats(
        means=positions.astype(np.float32),
        log_scales=np.log(scales).astype(np.float32),
        quats_wxyz=np.where(has_normal[:, None], _quats_z_to(normals), [1, 0, 0, 0]).astype(np.float32),
        opacity_logits=np.full(len(positions), math.log(opacity / (1 - opacity)), np.float32),
        sh=((encoded - 0.5) / SH_C0)[:, None, :].astype(np.float32),
    )


def _camera_distance(positions: Float, cameras: list[Camera]) -> NDArray[np.float64]:
    """[N] distance to the nearest perspective camera; infinite without one."""
    centres = [camera.position for camera in cameras if camera.model == "perspective"]
    if not centres or not len(positions):
        return np.full(len(positions), np.inf)
    distance: NDArray[np.float64] = cKDTree(np.array(centres)).query(positions)[0]
    return distance


def _neighbour_distance(positions: Float) -> NDArray[np.float64]:
    """[N] root mean square distance to the nearest points; infinite for a single point."""
    count = len(positions)
    if count < 2:
        return np.full(count, np.inf)
    neighbours = min(NEIGHBOURS, count - 1)
    distance = cKDTree(positions).query(positions, k=neighbours + 1)[0][:, 1:]
    result: NDArray[np.float64] = np.sqrt(np.square(distance).mean(axis=1))
    return result


def _quats_z_to(normals: Float) -> NDArray[np.float64]:
    """[N, 4] rotations w x y z that turn the z axis to the normals, by the shortest way."""
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    unit = np.where(length > 0.5, normals / np.maximum(length, 1e-12), [0.0, 0.0, 1.0])
    # (1 + z.n, z x n), normalised; for n = -z any half turn about a horizontal axis will do.
    quats = np.stack((1 + unit[:, 2], -unit[:, 1], unit[:, 0], np.zeros(len(unit))), axis=1)
    norm = np.linalg.norm(quats, axis=1, keepdims=True)
    return np.where(norm > 1e-6, quats / np.maximum(norm, 1e-12), [0.0, 1.0, 0.0, 0.0])


def start_splats(
    capture: Capture, settings: FitSettings, rng: np.random.Generator, warn: Callable[[str], None]
) -> tuple[Splats, float]:
    """Returns the first splats of a fit and the scene's extent.

    Args:
        capture: Its init.ply is used where the settings name no start.
        settings: start, start_opacity, random_points, max_splats.
        rng: Places random points, and chooses where there are too many.
        warn: Told in a sentence what is not as it should be.

    Raises:
        UserError: The file of the start is missing or damaged, or holds no usable point.
    """
    path = Path(settings.start) if settings.start else capture.init
    path = None if settings.start == RANDOM_START else path
    cameras = [view.camera for view in capture.of_split("train")]
    if path is None:
        points = random_points(capture, min(settings.random_points, settings.max_splats), rng)
        extent = scene_extent(capture)
        opacity = min(settings.start_opacity, RANDOM_OPACITY)
        splats = splats_from_points(points, extent=extent, opacity=opacity, cameras=cameras)
    elif not is_colmap(path) and "f_dc_0" in read_ply_element(path).properties:
        splats, _, notes = read_splat_ply(path)
        for note in notes:
            warn(note)
        splats = splats.select(splats.finite())
        chosen = _chosen(len(splats), settings.max_splats, rng, warn)
        splats = splats.select(chosen).with_sh_degree(min(splats.sh_degree, settings.sh_degree))
        extent = scene_extent(capture, splats.means)
    else:
        from_colmap = is_colmap(path)
        points = read_colmap_points(path, capture.world_from_colmap) if from_colmap else read_point_ply(path)
        chosen = _chosen(len(points), settings.max_splats, rng, warn)
        points = Points(points.positions[chosen], points.colors[chosen], points.normals[chosen])
        extent = scene_extent(capture, points.positions)
        splats = splats_from_points(points, extent=extent, opacity=settings.start_opacity, cameras=cameras)
    if not len(splats):
        raise UserError(
            f"{path or capture.root} holds no usable point to start from.",
            "Capture again with start points, or name another file with --start.",
        )
    return splats, extent


def _chosen(
    count: int, most: int, rng: np.random.Generator, warn: Callable[[str], None]
) -> NDArray[np.int64]:
    """Indices of all rows, or of a random choice in ascending order where there are too many."""
    if count <= most:
        return np.arange(count)
    warn(f"The start holds {count} points; {most} of them are taken (the most splats allowed).")
    return np.sort(rng.choice(count, most, replace=False))
