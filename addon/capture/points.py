"""Start points from what the views see: depth, colour and normal passes, merged. Pure numpy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float, unit_vectors
from splat_engine.formats.exr import read_passes
from splat_engine.formats.point_ply import Points

log = logging.getLogger(__name__)

NO_HIT_DEPTH = 1e9
"""Blender writes 1e10 where a ray meets nothing."""
ALPHA_LEAST = 0.5
"""A pixel below shows mostly background; its surface is not sampled."""
_SAMPLES_PER_POINT = 6
"""Pixels gathered for each point kept: enough for the merge to even out surfaces seen often and rarely."""
_BISECTIONS = 14
_SAME_PLACE = 0.01
"""Depth and position pass mean one surface if they agree within this share of the distance."""
_AGREEING = 0.9
"""Length of a mean of unit normals above which they face one way."""


@dataclass(frozen=True)
class Samples:
    """Surface pixels of one view or more.

    Attributes:
        points: Position, scene-linear colour and normal.
        footprints: [N] a pixel's width at the surface, scene units.
    """

    points: Points
    footprints: NDArray[np.float32]


def view_samples(passes: dict[str, NDArray[np.float32]], camera: Camera, most: int, seed: int) -> Samples:
    """Returns at most ``most`` surface pixels of a view, chosen evenly at random.

    Only pixels with a surface count: alpha at least ``ALPHA_LEAST``, depth short of the background's. Their place is
    the depth's along the camera's ray, since the position pass is zero where Grease Pencil is drawn; their normal is
    zero where the position pass disagrees, for it is then another surface's. Colours are divided by alpha.
    """
    if not {"color", "depth"} <= set(passes):
        return _no_samples()
    color, depth = passes["color"], passes["depth"]
    good = (
        (color[..., 3] >= ALPHA_LEAST)
        & (depth > 0)
        & (depth < NO_HIT_DEPTH)
        & np.isfinite(color).all(axis=-1)
    )
    chosen = np.flatnonzero(good)
    if len(chosen) > most:
        chosen = np.random.default_rng(seed).choice(chosen, most, replace=False, shuffle=False)
    distance = depth.reshape(-1)[chosen].astype(np.float64)
    rows, columns = np.divmod(chosen, camera.width)
    positions = camera.unproject(np.stack((columns, rows), axis=1) + 0.5, distance)
    scale = distance if camera.model == "perspective" else np.ones_like(distance)
    straight = color.reshape(-1, 4)[chosen]
    return Samples(
        Points(
            positions=positions.astype(np.float32),
            colors=np.maximum(straight[:, :3] / straight[:, 3:], 0).astype(np.float32),
            normals=_normals_at(passes, chosen, positions, distance),
        ),
        (scale / camera.fx).astype(np.float32),
    )


def _normals_at(
    passes: dict[str, NDArray[np.float32]], chosen: NDArray[np.intp], positions: Float, distance: Float
) -> NDArray[np.float32]:
    if not {"normal", "position"} <= set(passes):
        return np.zeros((len(chosen), 3), np.float32)
    normals = unit_vectors(passes["normal"].reshape(-1, 3)[chosen])
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(passes["position"].reshape(-1, 3)[chosen] - positions).max(axis=1)
    normals[~(apart <= _SAME_PLACE * distance)] = 0
    return normals


def _no_samples() -> Samples:
    nothing = np.zeros((0, 3), np.float32)
    return Samples(Points(nothing, nothing, nothing), np.zeros(0, np.float32))


def merge_samples(samples: Samples, most: int) -> Points:
    """Merges samples into at most ``most`` points, and nearly that many where there are enough.

    Samples in one cube of space become one. A cube's side grows with the pixel's footprint, in powers of
    two, so that a ground that reaches to the horizon does not coarsen what stands in front of the camera.
    """
    if len(samples.points) <= most:
        return samples.points
    level = np.round(np.log2(np.maximum(samples.footprints, 1e-20))).astype(np.int64)
    scale = np.exp2(level.astype(np.float64))[:, None]
    origin = samples.points.positions.min(axis=0).astype(np.float64)
    relative = (samples.points.positions - origin) / scale
    low, high = 0.0, 40.0  # logarithm of the cube's side in footprints, offset below
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if len(np.unique(_keys(relative, level, 2.0 ** (middle - 10)))) > most:
            low = middle
        else:
            high = middle
    return _means(samples.points, _keys(relative, level, 2.0 ** (high - 10)))


def _keys(relative: NDArray[np.float64], level: NDArray[np.int64], side: float) -> NDArray[np.uint64]:
    """Returns [N] a number for the cube of each sample; different cubes collide about never."""
    cells = np.floor(relative / side).astype(np.int64).astype(np.uint64)
    key = level.astype(np.uint64)
    for axis in range(3):
        key = (key ^ cells[:, axis]) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def _means(points: Points, keys: NDArray[np.uint64]) -> Points:
    """Returns a point for each key: the sample nearest to the mean, which lies on the surface, in the mean colour."""
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)

    def mean(values: NDArray[np.float32]) -> NDArray[np.float64]:
        sums = np.stack([np.bincount(inverse, values[:, axis], len(counts)) for axis in range(3)], axis=1)
        return sums / counts[:, None]

    distance = ((points.positions - mean(points.positions)[inverse]) ** 2).sum(axis=1)
    by_key_then_distance = np.lexsort((distance, inverse))
    nearest = by_key_then_distance[np.concatenate([[0], np.cumsum(counts)[:-1]])]
    normals = mean(points.normals)
    edge = (
        np.linalg.norm(normals, axis=1) < _AGREEING
    )  # an edge, or both sides of a sheet: the mean is no normal
    normals[edge] = points.normals[nearest[edge]]
    return Points(
        points.positions[nearest],
        mean(points.colors).astype(np.float32),
        unit_vectors(normals.astype(np.float32)),
    )


def gather_points(views: Sequence[tuple[Path, Camera]], most: int, seed: int = 0) -> tuple[Points, int]:
    """Makes start points from rendered views.

    Args:
        views: (EXR, camera) of the views that may be looked at: training views.
        most: Most points.
        seed: Seed of the choice of pixels.

    Returns:
        The points, possibly none (a scene of volumes alone), and the number of views in which nothing is visible.

    Raises:
        UserError: A view is missing or damaged.
    """
    share = -(-most * _SAMPLES_PER_POINT // max(len(views), 1))
    gathered, empty = [], 0
    for number, (path, camera) in enumerate(views):
        passes = read_passes(path, ("color", "depth", "normal", "position"))
        empty += "color" not in passes or not (passes["color"][..., :3] > 1e-4).any()
        gathered.append(view_samples(passes, camera, share, seed + number))
    merged = merge_samples(_joined(gathered), most)
    log.info("%d start points from %d views", len(merged), len(views))
    return merged, empty


def _joined(samples: Sequence[Samples]) -> Samples:
    if not samples:
        return _no_samples()
    names = ("positions", "colors", "normals")
    arrays = {name: np.concatenate([getattr(s.points, name) for s in samples]) for name in names}
    return Samples(Points(**arrays), np.concatenate([s.footprints for s in samples]))
