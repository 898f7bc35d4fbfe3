"""Coloured points with normals: the start of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import linear_from_srgb, srgb_from_linear
from splat_engine.formats.errors import FormatError
from splat_engine.formats.ply import read_ply_element, write_ply_element


@dataclass(frozen=True)
class Points:
    """N points on surfaces.

    Attributes:
        positions: [N, 3] world, scene units, float32.
        colors: [N, 3] scene-linear, float32; 0.5 encoded where the file has none.
        normals: [N, 3] unit or zero, world, float32.
    """

    positions: NDArray[np.float32]
    colors: NDArray[np.float32]
    normals: NDArray[np.float32]

    def __len__(self) -> int:
        """Returns N."""
        return int(self.positions.shape[0])


def write_point_ply(path: str | Path, points: Points) -> None:
    """Writes points: float positions and normals, sRGB-encoded 8-bit red green blue as every viewer reads them,
    and the exact scene-linear colour in three more floats (values above 1 survive).

    Raises:
        UserError: The file cannot be written.
    """
    finite = np.nan_to_num(points.colors, nan=0.0, posinf=1.0, neginf=0.0)
    encoded = np.clip(np.rint(srgb_from_linear(finite) * 255), 0, 255).astype(np.uint8)
    columns: dict[str, NDArray[np.generic]] = {}
    columns |= {name: points.positions[:, i].astype(np.float32) for i, name in enumerate("xyz")}
    columns |= {name: points.normals[:, i].astype(np.float32) for i, name in enumerate(("nx", "ny", "nz"))}
    columns |= {name: encoded[:, i] for i, name in enumerate(("red", "green", "blue"))}
    columns |= {
        f"linear_{name}": points.colors[:, i].astype(np.float32)
        for i, name in enumerate(("red", "green", "blue"))
    }
    write_ply_element(path, columns)


def read_point_ply(path: str | Path) -> Points:
    """Reads points; colours and normals may be absent. Rows with non-finite positions are dropped.

    Raises:
        UserError: The file is missing or damaged, or has no x, y, z.
    """
    columns = read_ply_element(path).properties
    if any(name not in columns for name in "xyz"):
        raise FormatError(f"{path} has no points: x, y and z are missing.", "Choose a PLY of points.")
    positions = _columns(columns, ("x", "y", "z"))
    normals = _columns(columns, ("nx", "ny", "nz"))
    colors = _colors_of(columns, len(positions))
    good = np.isfinite(positions).all(axis=1)
    normals = np.where(np.isfinite(normals), normals, 0) if normals.size else np.zeros_like(positions)
    return Points(positions[good], colors[good], normals[good].astype(np.float32))


def _columns(columns: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> NDArray[np.float32]:
    if any(name not in columns for name in names):
        return np.zeros((0, 3), np.float32)
    with np.errstate(over="ignore"):
        return np.stack([columns[name].astype(np.float32) for name in names], axis=1)


def _colors_of(columns: Mapping[str, NDArray[Any]], count: int) -> NDArray[np.float32]:
    exact = _columns(columns, ("linear_red", "linear_green", "linear_blue"))
    if len(exact):
        return np.where(np.isfinite(exact), exact, 0).astype(np.float32)
    names = ("red", "green", "blue")
    if any(name not in columns for name in names):
        return np.full((count, 3), linear_from_srgb(np.array(0.5)), np.float32)
    dtype = columns["red"].dtype
    scale = 1 / np.iinfo(dtype).max if dtype.kind in "iu" else 1.0
    encoded = np.nan_to_num(_columns(columns, names) * np.float32(scale), nan=0.0, posinf=0.0, neginf=0.0)
    return linear_from_srgb(encoded).astype(np.float32)
