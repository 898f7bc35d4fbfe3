"""COLMAP's sparse points: the start of a fit, from points3D.bin, points3D.txt or the folder of a reconstruction.

Source: COLMAP's documentation, "Output Format", and its ``ReconstructionReader``: little-endian, a 64-bit count, then a
record a point: id (uint64), x y z (double), r g b (uint8), error (double), the track's length (uint64) and as many pairs
of image and feature (int32). As text a line a point: the same fields, and the track's pairs to the end of the line.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import linear_from_srgb
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.ply import row_blocks
from splat_engine.formats.point_ply import Points

NAMES = ("points3D.bin", "points3D.txt")
FOLDERS = ("", "0", "sparse/0", "sparse", "colmap/sparse/0")
"""Where a folder's points are looked for: COLMAP's own places, and nerfstudio's."""
Transform = Sequence[Sequence[float]]

_RECORD = np.dtype(
    [("id", "<u8"), ("position", "<f8", 3), ("color", "u1", 3), ("error", "<f8"), ("track", "<u8")]
)
_PAIR_BYTES = 8
_NUMBER = struct.Struct("<Q")
_FIELDS = 8
_HINT = "Choose points3D.bin or points3D.txt of a COLMAP reconstruction; if it is one, export it again."


def is_colmap(path: Path) -> bool:
    """Whether a start's path means COLMAP's points: a folder, or a file that ends in .bin or .txt."""
    return path.is_dir() or path.suffix.lower() in (".bin", ".txt")


def read_colmap_points(path: Path, world_from_colmap: Transform | None = None) -> Points:
    """Reads points with their colours; COLMAP knows no normals. Rows with non-finite positions are dropped.

    Args:
        path: The file, or a folder that holds it at one of ``FOLDERS``; the binary file goes first.
        world_from_colmap: [3, 4] or [4, 4] what brings the points into the cameras' world; None: they are there already.

    Raises:
        UserError: Nothing is there, the file cannot be read, is cut off or holds something else.
    """
    file = _file_at(path)
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise UserError(f"There is no file {file}.", "Check the path.", error) from error
    except OSError as error:
        raise UserError(
            f"Cannot read {file}: {error.strerror}.", "Check that it is a file you may read.", error
        ) from error
    positions, colors = (_from_text if file.suffix.lower() == ".txt" else _from_binary)(content, file)
    with np.errstate(over="ignore", invalid="ignore"):
        if world_from_colmap is not None:
            matrix = np.asarray(world_from_colmap, np.float64)
            positions = positions @ matrix[:3, :3].T + matrix[:3, 3]
        placed = positions.astype(np.float32)
    good = np.isfinite(placed).all(axis=1)
    linear = linear_from_srgb(colors[good] / 255).astype(np.float32)
    return Points(placed[good], linear, np.zeros_like(placed[good]))


def _file_at(path: Path) -> Path:
    if not path.is_dir():
        return path
    for folder in FOLDERS:
        for name in NAMES:
            if (path / folder / name).is_file():
                return path / folder / name
    raise UserError(
        f"The folder {path} holds no COLMAP points: no {' or '.join(NAMES)}, nor in sparse/0.",
        "Name the reconstruction's folder, or the file itself.",
    )


def _from_binary(content: bytes, file: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns positions [N, 3] and encoded colours [N, 3] of 0 to 255."""
    count = _NUMBER.unpack_from(content)[0] if len(content) >= _NUMBER.size else None
    if count is None or count > (len(content) - _NUMBER.size) // _RECORD.itemsize:
        raise FormatError(f"{file} is no file of COLMAP points, or cut off: {len(content)} bytes.", _HINT)
    starts, at = np.empty(count, np.int64), _NUMBER.size
    for number in range(count):
        starts[number] = at
        at += _RECORD.itemsize
        if at <= len(content):
            at += _PAIR_BYTES * _NUMBER.unpack_from(content, at - _NUMBER.size)[0]
        if at > len(content):
            raise FormatError(f"{file} is cut off in point {number + 1} of {count}.", _HINT)
    if at != len(content):
        raise FormatError(f"{file} goes on for {len(content) - at} bytes after its {count} points.", _HINT)
    octets, records = np.frombuffer(content, np.uint8), np.empty(count, _RECORD)
    for block in row_blocks(count):
        places = starts[block, None] + np.arange(_RECORD.itemsize)
        records[block] = octets[places].view(_RECORD)[:, 0]
    return records["position"].astype(np.float64), records["color"].astype(np.float64)


def _from_text(content: bytes, file: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns positions [N, 3] and encoded colours [N, 3] of 0 to 255."""
    rows: list[list[float]] = []
    stated = None
    for number, line in enumerate(content.split(b"\n"), start=1):
        text = line.strip()
        if text.startswith(b"#"):
            stated = _stated_count(text) if stated is None else stated
        elif text:
            rows.append(_row_of(text.split(), f"{file}, line {number},"))
    if stated is not None and stated != len(rows):
        raise FormatError(f"{file} is cut off: it announces {stated} points and holds {len(rows)}.", _HINT)
    table: NDArray[Any] = np.array(rows, np.float64).reshape(-1, 6)
    return table[:, :3], table[:, 3:]


def _stated_count(comment: bytes) -> int | None:
    """The number in COLMAP's own comment "# Number of points: N, mean track length: L"."""
    words = comment.lstrip(b"# ").replace(b",", b" ").split()
    known = words[:3] == [b"Number", b"of", b"points:"] and len(words) > 3 and words[3].isdigit()
    return int(words[3]) if known else None


def _row_of(words: list[bytes], where: str) -> list[float]:
    """Returns x y z r g b of a line."""
    if len(words) < _FIELDS or len(words) % 2:
        raise FormatError(
            f"{where} is no COLMAP point: id, x y z, r g b, error and pairs of a track are expected.", _HINT
        )
    try:
        values = [float(word) for word in words[1:7]]
    except ValueError as error:
        raise FormatError(f"{where} holds a word in place of a number: {error}.", _HINT, error) from error
    if not all(0 <= value <= 255 for value in values[3:]):
        raise FormatError(f"{where} has a colour that is not within 0 to 255.", _HINT)
    return values
