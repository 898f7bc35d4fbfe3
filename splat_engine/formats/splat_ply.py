"""Splats in the PLY layout of 3D Gaussian Splatting.

Source: the files of graphdeco's reference implementation (Kerbl et al. 2023): x y z, nx ny nz (zero),
f_dc_0..2, f_rest_* channel-major, opacity (logit), scale_0..2 (log), rot_0..3 (w x y z).

Ours may also say which object of the captured scene each splat shows: a property ``int object_index``, and the
names behind it in one comment, ``splatfit object_names=["Cube", "Floor"]`` as JSON; index i is name i - 1, 0 unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import sh_count
from splat_engine.formats.errors import FormatError
from splat_engine.formats.ply import PlyElement, read_ply_element, row_blocks, write_ply_element
from splat_engine.formats.splats import Int32, Splats

_REQUIRED: tuple[str, ...] = ("x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity")
_REQUIRED += ("scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3")
_IGNORED = {"nx", "ny", "nz"}
_METADATA_PREFIX = "splatfit "
_OBJECT_INDEX, _OBJECT_NAMES = "object_index", "object_names"
_REST_COUNTS = {0: 0, 9: 1, 24: 2, 45: 3}


def read_splat_ply(path: str | Path) -> tuple[Splats, dict[str, NDArray[np.generic]], list[str]]:
    """Reads a 3DGS PLY: any property order, float or double, ascii or binary.

    Args:
        path: The file.

    Returns:
        The splats; the extra properties by name, [N] each, in the file's types; notes for the reader.

    Raises:
        UserError: The file is missing or damaged, or is a PLY of something else.
    """
    element = read_ply_element(path)
    columns = element.properties
    missing = [name for name in _REQUIRED if name not in columns]
    if missing:
        raise FormatError(
            f"{path} is a PLY, but not one of splats: it lacks {', '.join(missing)}.",
            "Choose a 3D Gaussian splatting PLY (uncompressed).",
        )
    rest = sorted((name for name in columns if _is_rest(name)), key=lambda name: int(name[7:]))
    if len(rest) not in _REST_COUNTS or [int(name[7:]) for name in rest] != list(range(len(rest))):
        raise FormatError(
            f"{path} has {len(rest)} f_rest properties; 0, 9, 24 or 45 without gaps are possible.",
            "Export the file again.",
        )
    metadata = _metadata_of(element)
    names = _names_of(metadata.pop(_OBJECT_NAMES, None), path)
    indices, strange = _indices_of(columns, names)
    splats = Splats(
        means=_stack(columns, "x", "y", "z"),
        log_scales=_stack(columns, "scale_0", "scale_1", "scale_2"),
        quats_wxyz=_stack(columns, "rot_0", "rot_1", "rot_2", "rot_3"),
        opacity_logits=_stack(columns, "opacity")[:, 0],
        sh=_sh_of(columns, rest, element.count),
        metadata=metadata,
        object_indices=indices,
        object_names=() if indices is None else names or (),
    )
    known = {*_REQUIRED, *_IGNORED, *(() if indices is None else (_OBJECT_INDEX,))}
    extra = {n: c for n, c in columns.items() if n not in known and not _is_rest(n)}
    notes = [f"{path}: kept aside the extra properties {', '.join(extra)}."] if extra else []
    if strange:
        notes.append(f"{path}: {strange} splats show an object that the header does not name; it is unknown.")
    bad = int((~splats.finite()).sum())
    if bad:
        notes.append(
            f"{path}: {bad} of {len(splats)} splats are not finite or have a zero rotation; they draw nothing."
        )
    return splats, extra, notes


def _is_rest(name: str) -> bool:
    return re.fullmatch("f_rest_[0-9]{1,9}", name) is not None


def _stack(columns: Mapping[str, NDArray[np.generic]], *names: str) -> NDArray[np.float32]:
    table = np.empty((len(columns[names[0]]), len(names)), np.float32)
    _fill(table, [columns[name] for name in names])
    return table


def _fill(table: NDArray[np.float32], columns: Sequence[NDArray[np.generic]]) -> None:
    """Writes columns side by side into [N, len(columns)], in float32."""
    with np.errstate(over="ignore"):
        for block in row_blocks(len(table)):
            for i, column in enumerate(columns):
                table[block, i] = column[block]


def _sh_of(columns: Mapping[str, NDArray[np.generic]], rest: list[str], count: int) -> NDArray[np.float32]:
    degree = _REST_COUNTS[len(rest)]
    sh = np.empty((count, sh_count(degree), 3), np.float32)
    per_channel = len(rest) // 3
    names = ["f_dc_0", "f_dc_1", "f_dc_2"]
    names += [rest[channel * per_channel + k] for k in range(per_channel) for channel in range(3)]
    _fill(sh.reshape(count, len(names)), [columns[name] for name in names])
    return sh


def _names_of(said: str | None, path: str | Path) -> tuple[str, ...] | None:
    """Returns the names of a header's comment; None where it has no such comment."""
    if said is None:
        return None
    try:
        names = json.loads(said)
    except ValueError as error:
        raise FormatError(
            f"{path}: the header's object_names are not JSON.", "Export the file again.", error
        ) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(
            f"{path}: the header's object_names are no list of names.", "Export the file again."
        )
    return tuple(names)


def _indices_of(
    columns: Mapping[str, NDArray[np.generic]], names: tuple[str, ...] | None
) -> tuple[Int32 | None, int]:
    """Returns the object indices, and how many of them have no name and became 0.

    Without names the property is somebody else's, and stays an extra one.
    """
    column = columns.get(_OBJECT_INDEX)
    if column is None or names is None:
        return None, 0
    said: NDArray[np.float64] = column.astype(np.float64)
    good = (said >= 0) & (said <= len(names))
    return np.where(good, said, 0).astype(np.int32), int((~good).sum())


def _metadata_of(element: PlyElement) -> dict[str, str]:
    pairs = (
        c[len(_METADATA_PREFIX) :].partition("=") for c in element.comments if c.startswith(_METADATA_PREFIX)
    )
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def write_splat_ply(
    path: str | Path,
    splats: Splats,
    *,
    extra: Mapping[str, NDArray[np.generic]] | None = None,
    encoding: str = "binary_little_endian",
) -> None:
    """Writes splats as a 3DGS PLY in float32; metadata goes into comments "splatfit key=value".

    Args:
        path: The file; replaced whole or not at all.
        splats: The cloud; N = 0 gives a legal file without rows.
        extra: Further properties, [N] each, of names that the layout does not use.
        encoding: ``"ascii"``, ``"binary_little_endian"`` or ``"binary_big_endian"``.

    Raises:
        UserError: The file cannot be written.
        ValueError: An extra property has a name of the layout's, or a metadata key is empty or contains "=".
    """
    metadata = dict(splats.metadata)
    broken = [key for key in splats.metadata if not key.strip() or "=" in key]
    if broken:
        raise ValueError(f"a metadata key is not empty and has no '=', got {broken[0]!r}")
    zero = np.zeros(len(splats), np.float32)
    columns: dict[str, NDArray[np.generic]] = {}
    columns |= {name: splats.means[:, i] for i, name in enumerate("xyz")}
    columns |= {name: zero for name in ("nx", "ny", "nz")}
    columns |= {f"f_dc_{i}": splats.sh[:, 0, i] for i in range(3)}
    rest = splats.sh[:, 1:].transpose(0, 2, 1).reshape(len(splats), 3 * (splats.sh.shape[1] - 1))
    columns |= {f"f_rest_{i}": rest[:, i] for i in range(rest.shape[1])}
    columns["opacity"] = splats.opacity_logits
    columns |= {f"scale_{i}": splats.log_scales[:, i] for i in range(3)}
    columns |= {f"rot_{i}": splats.quats_wxyz[:, i] for i in range(4)}
    if splats.object_indices is not None:
        columns[_OBJECT_INDEX] = splats.object_indices
        metadata[_OBJECT_NAMES] = json.dumps(splats.object_names)
    taken = sorted(columns.keys() & (extra or {}).keys())
    if taken:
        raise ValueError(f"extra properties must not replace the layout's own: {', '.join(taken)}")
    columns |= dict(extra or {})
    comments = [f"{_METADATA_PREFIX}{key}={value}" for key, value in metadata.items()]
    write_ply_element(path, columns, comments=comments, encoding=encoding)
