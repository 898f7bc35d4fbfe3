"""The capture's points as splats: what is seen of a fit while its engine starts. Knows no bpy.

The engine needs seconds until it has loaded PyTorch and has made its own first splats; these are there at once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.capture import INIT_NAME
from splat_engine.formats.conventions import SH_C0, srgb_from_linear
from splat_engine.formats.errors import UserError
from splat_engine.formats.point_ply import Points, read_point_ply

from ..scene import encoding
from .snapshots import Snapshot

_OPACITY = 0.95
_SIGMAS_PER_SPACING = 0.6
"""Of the distance of two neighbours: discs of that size overlap to a closed surface."""
_THICKNESS = 0.15
"""Of a disc, times its size."""
_POINTS_PER_CELL = 4
_BISECTIONS = 12
_LEAST_SPACING = 1e-6


def read_first_look(capture: Path, most: int | None = None) -> Snapshot:
    """Reads a capture's points as discs on the surfaces.

    Args:
        capture: The capture's folder.
        most: Show at most so many, evenly chosen; None for all.

    Raises:
        UserError: The capture has no points.
    """
    points = read_point_ply(capture / INIT_NAME)
    if most is not None and len(points) > most:
        chosen = np.linspace(0, len(points) - 1, most).astype(np.intp)
        points = Points(points.positions[chosen], points.colors[chosen], points.normals[chosen])
    if not len(points):
        raise UserError(f"{capture / INIT_NAME} holds no points.", "Look at the capture's views.")
    return Snapshot(discs(points), {}, len(points))


def discs(points: Points) -> dict[str, NDArray[np.float32]]:
    """Returns points as the attributes of flat splats along their normals; of balls where a normal is zero."""
    size = _SIGMAS_PER_SPACING * spacing_of(points.positions)
    has_normal = (points.normals != 0).any(axis=1)
    scales = np.full((len(points), 3), size)
    scales[has_normal, 2] *= _THICKNESS
    encoded = srgb_from_linear(np.maximum(points.colors, 0))
    base = np.c_[(encoded - 0.5) / SH_C0, np.full(len(points), _OPACITY)]
    attributes = {
        encoding.POSITION: points.positions,
        encoding.SCALE: scales,
        encoding.ROTATION: _turns_z_to(points.normals),
        encoding.BASE: base,
    }
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in attributes.items()}


def spacing_of(positions: NDArray[np.float32]) -> float:
    """Returns about the distance of neighbours among points spread over surfaces.

    The size of cells is sought at which each one that is occupied holds four points: as on a plane in a grid.

    Args:
        positions: [N, 3]; N at least 1.
    """
    low = positions.min(axis=0)
    reach = max(float((positions - low).max()), _LEAST_SPACING)
    smallest, largest = reach / 4096, reach
    for _ in range(_BISECTIONS):
        cell = float(np.sqrt(smallest * largest))
        index = ((positions - low) / cell).astype(np.int64)
        occupied = len(np.unique((index[:, 0] << 40) + (index[:, 1] << 20) + index[:, 2]))
        if occupied * _POINTS_PER_CELL > len(positions):
            smallest = cell
        else:
            largest = cell
    return max(float(np.sqrt(smallest * largest / _POINTS_PER_CELL)), _LEAST_SPACING)


def _turns_z_to(normals: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns [N, 4] unit quaternions, w x y z, that turn the z axis to unit normals; the identity for zero ones."""
    x, y, z = normals.astype(np.float64).T
    quats = np.stack([1.0 + z, -y, x, np.zeros_like(z)], axis=1)
    upside_down = z < -1 + 1e-6
    quats[upside_down] = (0.0, 1.0, 0.0, 0.0)
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    return quats
