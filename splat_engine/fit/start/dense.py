"""The dense start: a splat for each patch of the surfaces that the training views show.

A patch's splat takes everything from the samples in it: its place, its normal, its reach along the surface in each
direction, and its colour, which is the mean over the views that see the patch: a view that does not has no sample in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from splat_engine.fit.start.cells import cells_of, means_of, sizes_of
from splat_engine.fit.start.points import neighbour_distance, quats_z_to, sized_splats
from splat_engine.fit.start.surfaces import Doubles, SurfaceSamples
from splat_engine.formats.cameras import Camera
from splat_engine.formats.point_ply import Points
from splat_engine.formats.splats import Splats

SAMPLES_PER_SPLAT = 20
"""Samples gathered for each splat. With 8 the same number of splats fits 0.14 dB worse (suzanne256, 5000 splats)."""
SAMPLES_MOST = 2_000_000
"""More are not gathered but for more splats: bounds memory (some 500 MB) and time."""
WIDTH = 1.6
"""A splat's standard deviation along the surface, in its patch's. From 1.2 to 2 it hardly matters after 300 steps."""
FEW = 6
"""Patches of fewer samples do not tell their shape: they are round, of the next width."""
FEW_WIDTH = 0.5
"""A round splat's standard deviation along the surface, in the distance to its neighbours."""
ROUND_SHARE = 0.05
"""Share of the squared distance to the neighbours that every patch's variance is raised by."""
AGREEING = 0.5
"""Length of a mean of unit normals below which a patch has no side."""


def dense_splats(
    samples: SurfaceSamples,
    count: int,
    *,
    extent: float,
    opacity: float,
    cameras: list[Camera],
    rng: np.random.Generator,
    workers: int = -1,
) -> Splats:
    """Returns at most ``count`` splats of SH degree 0 that cover the surfaces.

    Args:
        samples: Of the surfaces; none gives no splats.
        count: Most splats.
        extent: The scene's, scene units; bounds the sizes.
        opacity: Of every splat, 0 to 1 exclusive.
        cameras: Training cameras; nothing is put close to a perspective one.
        rng: Chooses where patches begin.
        workers: Threads; -1: one a core.
    """
    patches = cells_of(samples, count, rng, workers)
    positions, normals = means_of(patches, samples.positions), _sides(patches, samples.normals)
    quats = quats_z_to(normals)
    widths, turn_rad = _reach(
        patches, samples.positions - positions[patches], quats, neighbour_distance(positions)
    )
    points = Points(
        positions.astype(np.float32),
        means_of(patches, samples.colors).astype(np.float32),
        normals.astype(np.float32),
    )
    return sized_splats(
        points, widths, _turned(quats, turn_rad), extent=extent, opacity=opacity, cameras=cameras
    )


def _sides(patches: NDArray[np.intp], normals: Doubles) -> Doubles:
    """[N, 3] unit mean normals; zero where the samples have none, or face all ways."""
    mean = means_of(patches, normals)
    length = np.linalg.norm(mean, axis=1, keepdims=True)
    return np.where(length > AGREEING, mean / np.maximum(length, AGREEING), 0.0)


def _reach(
    patches: NDArray[np.intp], offsets: Doubles, quats_wxyz: Doubles, neighbours: Doubles
) -> tuple[Doubles, Doubles]:
    """How far the patches reach along their two longest ways in the plane of the quaternions' x and y axes.

    Args:
        patches: [M] patch of each sample.
        offsets: [M, 3] from the patch's middle, world.
        quats_wxyz: [N, 4] of the patches' planes.
        neighbours: [N] distance to the neighbours: the width of patches that do not tell their own.

    Returns:
        widths [N, 2] as standard deviations of a splat, and the angle [N] from the x axis to the longer way, rad.
    """
    x, y = (np.einsum("mc,mc->m", offsets, axis[patches]) for axis in _axes(quats_wxyz))
    xx, xy, yy = means_of(patches, np.stack((x * x, x * y, y * y), axis=1)).T
    middle, half = (xx + yy) / 2, np.hypot((xx - yy) / 2, xy)
    least = ROUND_SHARE * np.square(np.where(np.isinf(neighbours), 0.0, neighbours))
    variances = np.stack((middle + half, np.maximum(middle - half, 0.0)), axis=1) + least[:, None]
    few = sizes_of(patches) < FEW
    widths = np.where(few[:, None], neighbours[:, None] * FEW_WIDTH, WIDTH * np.sqrt(variances))
    return widths, np.where(few, 0.0, 0.5 * np.arctan2(2 * xy, xx - yy))


def _axes(quats_wxyz: Doubles) -> tuple[Doubles, Doubles]:
    """[N, 3] the world's directions of the x and of the y axis of unit quaternions."""
    w, x, y, z = quats_wxyz.T
    return (
        np.stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)), axis=1),
        np.stack((2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)), axis=1),
    )


def _turned(quats_wxyz: Doubles, angle_rad: Doubles) -> Doubles:
    """[N, 4] unit quaternions turned first about their own z axis."""
    w, x, y, z = quats_wxyz.T
    c, s = np.cos(angle_rad / 2), np.sin(angle_rad / 2)
    return np.stack((w * c - z * s, x * c + y * s, y * c - x * s, z * c + w * s), axis=1)
