"""Coloured points: exact light for us, 8-bit colours for every viewer, and what other programs write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from splat_engine.formats.conventions import linear_from_srgb
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.ply import read_ply_element, write_ply_element
from splat_engine.formats.point_ply import Points, read_point_ply, write_point_ply


def random_points(count: int, seed: int = 0) -> Points:
    """Returns points with colours up to 3 (brighter than white) and unit normals."""
    rng = np.random.default_rng(seed)
    normals = rng.normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    arrays = (rng.normal(size=(count, 3)), rng.uniform(0, 3, (count, 3)), normals)
    return Points(*(array.astype(np.float32) for array in arrays))


@given(st.integers(0, 9), st.integers(0, 99))
def test_what_is_written_is_read_back(tmp_path: Path, count: int, seed: int) -> None:
    """Positions, normals and scene-linear colours to the last bit, N = 0 included."""
    points = random_points(count, seed)
    write_point_ply(tmp_path / "x.ply", points)
    read = read_point_ply(tmp_path / "x.ply")
    assert len(read) == count
    for name in ("positions", "colors", "normals"):
        assert getattr(read, name).dtype == np.float32
        np.testing.assert_array_equal(getattr(read, name), getattr(points, name))


def test_viewers_find_encoded_bytes(tmp_path: Path) -> None:
    """red, green, blue are sRGB-encoded and clipped; not finite is black or white, not rubbish."""
    colors = np.array([[0, 0.2158605, 1], [4, -1, np.nan], [np.inf, -np.inf, 0.5]], np.float32)
    points = Points(np.zeros((3, 3), np.float32), colors, np.zeros((3, 3), np.float32))
    with np.errstate(all="raise"):
        write_point_ply(tmp_path / "x.ply", points)
    columns = read_ply_element(tmp_path / "x.ply").properties
    table = np.stack([columns[name] for name in ("red", "green", "blue")], axis=1)
    assert table.dtype == np.uint8
    assert table.tolist() == [[0, 128, 255], [255, 0, 0], [255, 0, 188]]
    assert np.isfinite(read_point_ply(tmp_path / "x.ply").colors).all()


@pytest.mark.parametrize(
    ("values", "kind"), [([0, 51, 255], "u1"), ([0, 13107, 65535], "u2"), ([0.0, 0.2, 1.0], "f4")]
)
def test_colours_of_other_programs_are_decoded(tmp_path: Path, values: list[float], kind: str) -> None:
    """Bytes, 16-bit numbers and floats all mean encoded 0 to 1."""
    columns: dict[str, NDArray[np.generic]] = {name: np.zeros(3, np.float64) for name in "xyz"}
    columns |= {name: np.array(values).astype(kind) for name in ("red", "green", "blue")}
    write_ply_element(tmp_path / "x.ply", columns)
    expected = linear_from_srgb(np.array([0, 0.2, 1]))
    np.testing.assert_allclose(read_point_ply(tmp_path / "x.ply").colors[:, 1], expected, atol=1e-6)


def test_bare_points_are_grey_and_without_normals(tmp_path: Path) -> None:
    """Only x, y and z are needed."""
    write_ply_element(tmp_path / "x.ply", {name: np.arange(2, dtype=np.float32) for name in "xyz"})
    points = read_point_ply(tmp_path / "x.ply")
    np.testing.assert_allclose(points.colors, 0.2140411, rtol=1e-6)
    assert points.normals.shape == (2, 3) and not points.normals.any()


def test_points_at_no_place_are_dropped_whole(tmp_path: Path) -> None:
    """NaN, infinity and doubles that float32 cannot hold; the others keep their own colour and normal."""
    columns: dict[str, NDArray[np.generic]] = {name: np.array([0.0, np.nan, 1, 1e300, 2]) for name in "xyz"}
    columns |= {f"linear_{name}": np.arange(5.0) for name in ("red", "green", "blue")}
    columns |= {name: np.array([0.0, 1, np.nan, 1, 1]) for name in ("nx", "ny", "nz")}
    write_ply_element(tmp_path / "x.ply", columns)
    with np.errstate(all="raise"):
        points = read_point_ply(tmp_path / "x.ply")
    assert points.positions[:, 0].tolist() == [0, 1, 2]
    assert points.colors[:, 0].tolist() == [0, 2, 4]
    assert points.normals[:, 0].tolist() == [0, 0, 1]


def test_files_without_places_are_refused(tmp_path: Path) -> None:
    """A PLY of something else, a cut one, none at all."""
    write_ply_element(tmp_path / "x.ply", {"x": np.zeros(2, np.float32), "y": np.zeros(2, np.float32)})
    with pytest.raises(FormatError, match="x, y and z are missing"):
        read_point_ply(tmp_path / "x.ply")
    write_point_ply(tmp_path / "whole.ply", random_points(2))
    whole = (tmp_path / "whole.ply").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "cut.ply").write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.ply"):
            read_point_ply(tmp_path / "cut.ply")
    with pytest.raises(UserError, match="There is no file"):
        read_point_ply(tmp_path / "none.ply")


def test_real_points_are_read(shared_data: Path) -> None:
    """The surface samples of the shared data set: 5000 points around the origin, in colour."""
    points = read_point_ply(shared_data / "dataset" / "suzanne256" / "points3d_5k.ply")
    assert len(points) == 5000 and np.abs(points.positions).max() < 20
    assert points.colors.min() >= 0 and points.colors.max() <= 1 and points.colors.std(axis=0).min() > 0.01
