"""COLMAP's points: what a writer after its documentation wrote is read back, and every damage is said in words."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from splat_engine.formats.colmap import FOLDERS, is_colmap, read_colmap_points
from splat_engine.formats.conventions import linear_from_srgb
from splat_engine.formats.errors import FormatError, UserError

SEEDS = st.integers(0, 999)
# World of nerfstudio from that of COLMAP: its ns-process-data swaps two axes and turns one over.
TURNED = ((1.0, 0.0, 0.0, 0.5), (0.0, 0.0, 1.0, -1.0), (0.0, -1.0, 0.0, 2.0))


class Sparse:
    """Random points of a reconstruction, with tracks of 0 to 5 images, and the two ways to write them."""

    def __init__(self, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.positions: NDArray[np.float64] = rng.normal(size=(count, 3)) * 10
        self.colors = rng.integers(0, 256, (count, 3))
        self.errors = rng.uniform(0, 2, count)
        self.tracks = [rng.integers(0, 2**31 - 1, (rng.integers(0, 6), 2)) for _ in range(count)]

    def binary(self) -> bytes:
        out = struct.pack("<Q", len(self.positions))
        for number, (place, color, error, track) in enumerate(self.rows()):
            out += struct.pack("<Qddd3Bd", number + 1, *place, *color, error)
            out += struct.pack("<Q", len(track)) + b"".join(struct.pack("<ii", *pair) for pair in track)
        return out

    def text(self) -> bytes:
        lines = ["# 3D point list with one line of data per point:"]
        lines += ["#   POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)"]
        lines += [f"# Number of points: {len(self.positions)}, mean track length: 2.5"]
        for number, (place, color, error, track) in enumerate(self.rows()):
            words = [number + 1, *map(repr, place.tolist()), *color, error, *track.ravel()]
            lines.append(" ".join(map(str, words)))
        return ("\n".join(lines) + "\n").encode()

    def rows(self):  # type: ignore[no-untyped-def]
        return zip(self.positions, self.colors, self.errors, self.tracks, strict=True)


@given(st.integers(0, 9), SEEDS, st.sampled_from(["binary", "text"]))
def test_what_is_written_is_read_back(tmp_path: Path, count: int, seed: int, kind: str) -> None:
    """Positions to float32's last bit, colours decoded from their bytes, no normals; N = 0 included."""
    sparse = Sparse(count, seed)
    file = tmp_path / ("points3D.bin" if kind == "binary" else "points3D.txt")
    file.write_bytes(getattr(sparse, kind)())
    points = read_colmap_points(file)
    np.testing.assert_array_equal(points.positions, sparse.positions.astype(np.float32))
    np.testing.assert_allclose(points.colors, linear_from_srgb(sparse.colors / 255), rtol=1e-6)
    assert points.normals.shape == (count, 3) and not points.normals.any()
    assert points.positions.dtype == points.colors.dtype == points.normals.dtype == np.float32


def test_more_points_than_a_block(tmp_path: Path) -> None:
    """Records are gathered in blocks: 5000 points with tracks of different lengths keep their order."""
    sparse = Sparse(5000)
    (tmp_path / "points3D.bin").write_bytes(sparse.binary())
    points = read_colmap_points(tmp_path / "points3D.bin")
    np.testing.assert_array_equal(points.positions, sparse.positions.astype(np.float32))


def test_points_are_brought_into_the_world_of_the_cameras(tmp_path: Path) -> None:
    """The transform that the data set states moves each point, in double."""
    sparse = Sparse(20)
    (tmp_path / "points3D.bin").write_bytes(sparse.binary())
    x, y, z = sparse.positions.T
    expected = np.stack((x + 0.5, z - 1, 2 - y), axis=1)
    points = read_colmap_points(tmp_path / "points3D.bin", TURNED)
    np.testing.assert_allclose(points.positions, expected, rtol=1e-6)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_stands_for_its_points(tmp_path: Path, folder: str) -> None:
    """Both files are found where COLMAP and nerfstudio put them, and the binary one goes first."""
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / "points3D.txt").write_bytes(Sparse(2).text())
    assert is_colmap(tmp_path) and len(read_colmap_points(tmp_path)) == 2
    (tmp_path / folder / "points3D.bin").write_bytes(Sparse(3).binary())
    assert len(read_colmap_points(tmp_path)) == 3


def test_paths_tell_what_they_are(tmp_path: Path) -> None:
    """PLY files are none of COLMAP's; upper case is the same ending."""
    assert not is_colmap(tmp_path / "x.ply") and not is_colmap(tmp_path / "x")
    assert is_colmap(tmp_path / "points3D.BIN") and is_colmap(tmp_path / "points3D.txt")


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_points_at_no_place_are_dropped(tmp_path: Path, kind: str) -> None:
    """NaN, infinity and what float32 cannot hold; the others keep their colour."""
    sparse = Sparse(5)
    sparse.positions[1, 0], sparse.positions[2, 1], sparse.positions[3, 2] = np.nan, np.inf, 1e300
    file = tmp_path / ("points3D.bin" if kind == "binary" else "points3D.txt")
    file.write_bytes(getattr(sparse, kind)())
    points = read_colmap_points(file, TURNED)
    assert len(points) == 2
    np.testing.assert_allclose(points.colors, linear_from_srgb(sparse.colors[[0, 4]] / 255), rtol=1e-6)


def test_every_cut_of_a_binary_file_is_noticed(tmp_path: Path) -> None:
    """A file that ends anywhere too early, or goes on after its last point."""
    whole, file = Sparse(3, 1).binary(), tmp_path / "points3D.bin"
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"points3D\.bin"):
            read_colmap_points(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(FormatError, match="goes on for 1 bytes after its 3 points"):
        read_colmap_points(file)
    file.write_bytes(whole)
    assert len(read_colmap_points(file)) == 3


def test_every_lost_line_of_a_text_file_is_noticed(tmp_path: Path) -> None:
    """The comment says how many there are; a file by hand without it is read as it is."""
    file, lines = tmp_path / "points3D.txt", Sparse(4).text().splitlines(keepends=True)
    for last in range(3, len(lines)):
        file.write_bytes(b"".join(lines[:last]))
        with pytest.raises(FormatError, match=f"announces 4 points and holds {last - 3}"):
            read_colmap_points(file)
    file.write_bytes(b"\r\n".join(line.rstrip() for line in lines[3:]))
    assert len(read_colmap_points(file)) == 4


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 0 0 0 10 20 30", "line 2, is no COLMAP point"),
        ("1 0 0 0 10 20 30 0.5 7", "line 2, is no COLMAP point"),
        ("1 0 zero 0 10 20 30 0.5", "line 2, holds a word in place of a number"),
        ("1 0 0 0 10 20 256 0.5", "line 2, has a colour"),
        ("1 0 0 0 10 -1 30 0.5", "line 2, has a colour"),
        ("1 0 0 0 10 nan 30 0.5", "line 2, has a colour"),
        ("\x00\xff\xfe", "line 2, is no COLMAP point"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    """With the file, the line's number and what was expected."""
    (tmp_path / "points3D.txt").write_bytes(b"1 0 0 0 10 20 30 0.5 1 2\n" + line.encode("latin1") + b"\n")
    with pytest.raises(FormatError, match=words) as caught:
        read_colmap_points(tmp_path / "points3D.txt")
    assert "points3D.txt" in caught.value.headline and "points3D.bin" in caught.value.hint


@given(st.binary(max_size=300), st.sampled_from(["points3D.bin", "points3D.txt"]))
def test_rubbish_gives_points_or_words(tmp_path: Path, content: bytes, name: str) -> None:
    """No content gives anything but points or a UserError."""
    (tmp_path / name).write_bytes(content)
    try:
        points = read_colmap_points(tmp_path / name)
    except UserError as error:
        assert name in error.headline and error.hint
    else:
        assert len(points.positions) == len(points.colors) == len(points.normals)


@given(SEEDS, st.data())
def test_damaged_copies_give_points_or_words(tmp_path: Path, seed: int, data: st.DataObject) -> None:
    """A byte of a good file turned into another one."""
    kind = data.draw(st.sampled_from(["binary", "text"]))
    content = bytearray(getattr(Sparse(3, seed), kind)())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file = tmp_path / ("points3D.bin" if kind == "binary" else "points3D.txt")
    file.write_bytes(bytes(content))
    try:
        assert len(read_colmap_points(file)) <= 4
    except UserError as error:
        assert file.name in error.headline and error.hint


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file, a folder without points, a folder in the place of a file."""
    with pytest.raises(UserError, match=r"no file .*points3D\.bin"):
        read_colmap_points(tmp_path / "points3D.bin")
    with pytest.raises(UserError, match="holds no COLMAP points") as caught:
        read_colmap_points(tmp_path)
    assert str(tmp_path) in caught.value.headline and "reconstruction" in caught.value.hint
