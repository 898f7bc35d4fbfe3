"""The PLY container: any element with scalar properties, ascii and both binary orders.

Source: Greg Turk, "The PLY Polygon File Format" (1994); both spellings of its types.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import write_aside

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4",
    "float64": "f8",
}  # fmt: skip
_TYPE_NAMES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "f4": "float", "f8": "double"}  # fmt: skip
_ORDERS = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}
_HEADER_BYTES_MAX = 8 << 20
"""A comment of ours may name 32 767 objects, of 63 bytes each, which JSON makes 190 of at most."""
_BLOCK_ROWS = 2048
_HINT = "The file is damaged or not a PLY; export it again."


@dataclass
class _Element:
    name: str
    count: int
    properties: list[tuple[str, str]] = field(default_factory=list)
    has_list: bool = False


@dataclass(frozen=True)
class PlyElement:
    """One element of a PLY file.

    Attributes:
        properties: Property name to [count] array in the file's own type, native byte order.
        comments: The header's comments, without the word "comment".
        count: Number of entries.
    """

    properties: Mapping[str, NDArray[np.generic]]
    comments: tuple[str, ...]
    count: int


def read_ply_element(path: str | Path, element: str = "vertex") -> PlyElement:
    """Reads one element of a PLY file.

    Args:
        path: The file.
        element: The element's name; elements behind it are not looked at.

    Returns:
        The element's columns and the header's comments.

    Raises:
        UserError: The file is missing, malformed, or shorter than its header says.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            order, elements, comments = _read_header(stream, path)
            for item in elements:
                if item.has_list and item.name != element and item.count == 0:
                    continue
                if item.has_list:
                    raise FormatError(
                        f"{path}: element {item.name!r} has a list property, in front of or in {element!r}.",
                        "Export the points alone, without faces in front of them.",
                    )
                rows = _read_rows(stream, item, order, path)
                if item.name == element:
                    return PlyElement(_columns_of(rows, item), tuple(comments), item.count)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.", "Check the path.", error) from error
    except OSError as error:
        raise UserError(
            f"Cannot read {path}: {error.strerror}.", "Check that it is a file you may read.", error
        ) from error
    raise FormatError(f"{path} has no element {element!r}.", "It holds no points; choose another file.")


def row_blocks(count: int) -> Iterator[slice]:
    """Yields slices over ``count`` rows, each small enough that turning rows into columns stays in the cache."""
    for start in range(0, count, _BLOCK_ROWS):
        yield slice(start, min(start + _BLOCK_ROWS, count))


def _columns_of(rows: NDArray[np.void], element: _Element) -> dict[str, NDArray[np.generic]]:
    columns = {name: np.empty(len(rows), kind) for name, kind in element.properties}
    for block in row_blocks(len(rows)):
        for name, column in columns.items():
            column[block] = rows[name][block]
    return columns


def _read_header(stream: BinaryIO, path: Path) -> tuple[str, list[_Element], list[str]]:
    if stream.readline(16).rstrip(b"\r\n") != b"ply":
        raise FormatError(f"{path} is not a PLY file: it does not begin with 'ply'.", "Choose a .ply file.")
    order = ""
    elements: list[_Element] = []
    comments: list[str] = []
    while True:
        raw = stream.readline(_HEADER_BYTES_MAX)
        if not raw.endswith(b"\n") or stream.tell() > _HEADER_BYTES_MAX:
            raise FormatError(f"{path}: the PLY header has no end_header.", _HINT)
        line = raw.decode("utf-8", "replace").strip()
        words = line.split()
        if not words or words[0] == "obj_info":
            continue
        if words[0] == "end_header":
            break
        if words[0] == "comment":
            comments.append(line[len("comment") :].strip())
        elif words[0] == "format" and len(words) == 3 and words[1] in _ORDERS:
            order = words[1]
        elif words[0] == "element" and len(words) == 3 and re.fullmatch("[0-9]{1,18}", words[2]):
            elements.append(_Element(words[1], int(words[2])))
        elif words[0] == "property" and elements:
            _add_property(elements[-1], words, path)
        else:
            raise FormatError(f"{path}: cannot understand the PLY header line {line[:100]!r}.", _HINT)
    if not order:
        raise FormatError(f"{path}: the PLY header states no format.", _HINT)
    return order, elements, comments


def _add_property(element: _Element, words: list[str], path: Path) -> None:
    if words[1:2] == ["list"]:
        element.has_list = True
        return
    if len(words) != 3 or words[1] not in _TYPES:
        raise FormatError(f"{path}: unknown PLY property {' '.join(words)!r}.", _HINT)
    if words[2] in (name for name, _ in element.properties):
        raise FormatError(f"{path}: the PLY property {words[2]!r} stands twice.", _HINT)
    element.properties.append((words[2], _TYPES[words[1]]))


def _read_rows(stream: BinaryIO, element: _Element, order: str, path: Path) -> NDArray[np.void]:
    dtype = np.dtype([(name, _ORDERS[order] + kind) for name, kind in element.properties])
    if not element.properties or element.count == 0:
        return np.zeros(0, dtype)
    if order == "ascii":
        return _read_ascii(stream, element, dtype, path)
    size = dtype.itemsize * element.count
    left = os.fstat(stream.fileno()).st_size - stream.tell()
    if left < size:
        raise FormatError(
            f"{path} is cut off: {element.count} entries of {element.name!r} need {size} bytes, {left} are there.",
            _HINT,
        )
    return np.frombuffer(stream.read(size), dtype=dtype, count=element.count)


def _read_ascii(
    stream: BinaryIO, element: _Element, dtype: np.dtype[np.void], path: Path
) -> NDArray[np.void]:
    lines = [line for _, line in zip(range(element.count), stream, strict=False)]
    if len(lines) < element.count:
        raise FormatError(
            f"{path} is cut off: {element.count} entries of {element.name!r} announced, {len(lines)} are there.",
            _HINT,
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = np.loadtxt(
                io.BytesIO(b"".join(lines)), np.float64, ndmin=2, comments=None, encoding="latin1"
            )
    except (ValueError, UserWarning) as error:
        raise FormatError(
            f"{path} has an entry that is not a row of numbers: {error}.", _HINT, error
        ) from error
    if table.shape != (element.count, len(element.properties)):
        raise FormatError(
            f"{path}: expected {element.count} rows of {len(element.properties)} numbers, got {table.shape[0]} x {table.shape[1]}.",
            _HINT,
        )
    rows = np.empty(element.count, dtype)
    for column, (name, _) in enumerate(element.properties):
        rows[name] = _cast(table[:, column], dtype[name], f"{path}: property {name!r}")
    return rows


def _cast(values: NDArray[np.float64], dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """Casts numbers to a property's type; what an integer type cannot hold is an error, not another number."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    limits = np.iinfo(dtype)
    good = (values >= limits.min) & (values <= limits.max) & (values == np.trunc(values))
    if not good.all():
        raise FormatError(
            f"{what} has the value {values[~good][0]:g}, which its type {dtype} cannot hold.", _HINT
        )
    return values.astype(dtype)


def write_ply_element(
    path: str | Path,
    properties: Mapping[str, NDArray[np.generic]],
    *,
    element: str = "vertex",
    comments: Sequence[str] = (),
    encoding: str = "binary_little_endian",
) -> None:
    """Writes a PLY file of one element, whole or not at all.

    Args:
        path: The file.
        properties: Property name to [count] array; its type becomes the file's.
        element: The element's name.
        comments: Header comments, a line each; a line break in one becomes a space.
        encoding: ``"ascii"``, ``"binary_little_endian"`` or ``"binary_big_endian"``.

    Raises:
        UserError: The file cannot be written.
        ValueError: The arrays are not of one length, a type does not exist in PLY, or a name is not one word.
    """
    if encoding not in _ORDERS:
        raise ValueError(f"encoding must be one of {', '.join(_ORDERS)}, got {encoding!r}")
    broken = [name for name in (element, *properties) if not re.fullmatch(r"[^\s]+", name)]
    if broken:
        raise ValueError(f"names in a PLY are single words, got {broken[0]!r}")
    counts = {len(column) for column in properties.values()}
    if len(counts) > 1:
        raise ValueError(f"properties must be of one length, got lengths {sorted(counts)}")
    kinds = {name: column.dtype.str[1:] for name, column in properties.items()}
    unknown = {name: kind for name, kind in kinds.items() if kind not in _TYPE_NAMES}
    if unknown:
        raise ValueError(f"PLY has no type for {unknown}")
    count = counts.pop() if counts else 0
    rows = np.empty(count, np.dtype([(name, _ORDERS[encoding] + kind) for name, kind in kinds.items()]))
    for block in row_blocks(count):
        for name, column in properties.items():
            rows[name][block] = column[block]
    head = ["ply", f"format {encoding} 1.0"]
    head += ["comment " + re.sub(r"[\r\n]+", " ", comment) for comment in comments]
    head += [f"element {element} {count}"] + [
        f"property {_TYPE_NAMES[kind]} {name}" for name, kind in kinds.items()
    ]
    with write_aside(path) as stream:
        stream.write(("\n".join([*head, "end_header"]) + "\n").encode("utf-8", "replace"))
        if encoding == "ascii":
            stream.write("".join(" ".join(map(repr, row)) + "\n" for row in rows.tolist()).encode())
        else:
            stream.write(rows.tobytes())
