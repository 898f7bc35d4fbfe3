"""Reading OpenEXR images with numpy alone, for Blender's Python has no EXR module that can be relied on.

Scanline files, one part or many, uncompressed, ZIP, ZIPS or RLE, in half, float or uint: all that
Blender writes without loss but PIZ. The engine's own reader is the package OpenEXR; a test holds
the two together.

Source: OpenEXR file layout, openexr.com/en/latest/OpenEXRFileLayout.html.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.errors import FormatError, UserError

_MAGIC = b"\x76\x2f\x31\x01"
_TILED, _DEEP, _MULTIPART = 0x200, 0x800, 0x1000
_COMPRESSIONS = (
    "NONE",
    "RLE",
    "ZIPS",
    "ZIP",
    "PIZ",
    "PXR24",
    "B44",
    "B44A",
    "DWAA",
    "DWAB",
    "HTJ2K",
    "HTJ2K32",
)
_LINES_PER_BLOCK = {"NONE": 1, "RLE": 1, "ZIPS": 1, "ZIP": 16}
_DTYPES = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))

PASS_CHANNELS: dict[str, tuple[tuple[str, str], ...]] = {
    "color": (("Combined", "RGBA"),),
    "depth": (("Depth", "Z"), ("Depth", "V")),
    "normal": (("Normal", "XYZ"),),
    "position": (("Position", "XYZ"),),
    "object_index": (("Object Index", "X"), ("IndexOB", "X"), ("Object Index", "V")),
}
"""Pass of a capture to the pairs of (Blender's pass, its channels), newest Blender first."""


@dataclass(frozen=True)
class _Part:
    name: str
    channels: tuple[tuple[str, np.dtype[Any]], ...]
    compression: str
    x_min: int
    y_min: int
    width: int
    height: int
    blocks: int

    @property
    def line_bytes(self) -> int:
        return self.width * sum(dtype.itemsize for _, dtype in self.channels)

    @property
    def block_lines(self) -> int:
        return _LINES_PER_BLOCK[self.compression]


class _Reader:
    """A cursor over a file's bytes that complains in words when they end too soon."""

    def __init__(self, content: bytes, path: Path) -> None:
        self.content, self.path, self.at = content, path, 0

    def take(self, count: int) -> bytes:
        piece = self.content[self.at : self.at + count]
        if count < 0 or len(piece) != count:
            raise FormatError(f"{self.path} ends too soon.", "It was cut off while written: render it again.")
        self.at += count
        return piece

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def string(self) -> str:
        end = self.content.find(b"\0", self.at)
        text = self.take((end if end >= 0 else len(self.content) + 1) - self.at)
        self.at += 1
        return text.decode("utf-8", "replace")


def read_exr(
    path: str | Path, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, NDArray[np.generic]]:
    """Reads the channels of an EXR file.

    Args:
        path: The file.
        wanted: Tells by a channel's full name (``"ViewLayer.Depth.Z"``) whether it is decoded.

    Returns:
        Full channel name to [H, W], float16, float32 or uint32, the first row on top. Channels of a part
        whose name they do not begin with have it put in front.

    Raises:
        UserError: The file is missing, damaged, or of a kind that is not read.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.", "Check the path.", error) from error
    reader = _Reader(content, path)
    try:
        parts, multipart = _read_headers(reader)
        return _read_blocks(reader, parts, multipart, wanted)
    except (struct.error, zlib.error, ValueError, KeyError, IndexError) as error:
        raise FormatError(f"{path} is a damaged EXR file: {error}.", "Render it again.", error) from error


def read_passes(path: str | Path, passes: tuple[str, ...] = tuple(PASS_CHANNELS)) -> dict[str, NDArray[Any]]:
    """Reads the passes of a view as any Blender since 4.5 writes them.

    Args:
        path: A multilayer EXR with one view layer.
        passes: Names out of ``PASS_CHANNELS``.

    Returns:
        Pass to float32 array: color [H, W, 4] premultiplied scene-linear, normal and position [H, W, 3],
        depth and object_index [H, W]. A pass that the file lacks is absent.

    Raises:
        UserError: The file is missing or damaged.
    """
    names = {pass_name for item in passes for pass_name, _ in PASS_CHANNELS[item]}
    channels = read_exr(path, lambda full: len(full.split(".")) > 1 and full.split(".")[-2] in names)
    by_pass = {".".join(full.split(".")[-2:]): array for full, array in channels.items()}
    found: dict[str, NDArray[Any]] = {}
    for item in passes:
        for pass_name, letters in PASS_CHANNELS[item]:
            keys = [f"{pass_name}.{letter}" for letter in letters]
            if all(key in by_pass for key in keys):
                planes = [by_pass[key].astype(np.float32) for key in keys]
                found[item] = planes[0] if len(planes) == 1 else np.stack(planes, axis=-1)
                break
    return found


def check_exr(path: str | Path) -> None:
    """Makes sure that a file is a complete EXR without decoding it.

    Raises:
        UserError: It is missing, damaged or cut off.
    """
    read_exr(path, lambda name: False)


def _read_headers(reader: _Reader) -> tuple[list[_Part], bool]:
    if reader.take(4) != _MAGIC:
        raise FormatError(f"{reader.path} is not an EXR file.", "Choose a file written as OpenEXR.")
    (version,) = reader.unpack("I")
    if version & (_TILED | _DEEP):
        raise FormatError(f"{reader.path} is a tiled or deep EXR file.", "Write it with scanlines.")
    multipart = bool(version & _MULTIPART)
    parts = []
    while not multipart or reader.content[reader.at : reader.at + 1] != b"\0":
        parts.append(_part_of(_read_attributes(reader), reader.path))
        if not multipart:
            return parts, False
    reader.at += 1
    return parts, True


def _read_attributes(reader: _Reader) -> dict[str, bytes]:
    attributes = {}
    while name := reader.string():
        reader.string()
        (size,) = reader.unpack("i")
        attributes[name] = reader.take(size)
    return attributes


def _part_of(attributes: dict[str, bytes], path: Path) -> _Part:
    if attributes.get("type", b"scanlineimage") != b"scanlineimage":
        raise FormatError(
            f"{path} has a part of type {attributes['type'].decode()}.", "Write it with scanlines."
        )
    code = attributes["compression"][0]
    compression = _COMPRESSIONS[code] if code < len(_COMPRESSIONS) else str(code)
    if compression not in _LINES_PER_BLOCK:
        raise FormatError(f"{path} is compressed with {compression}.", "Write it with ZIP, or uncompressed.")
    x_min, y_min, x_max, y_max = struct.unpack("<4i", attributes["dataWindow"])
    width, height = x_max - x_min + 1, y_max - y_min + 1
    if width < 1 or height < 1 or width * height > 2**31:
        raise FormatError(f"{path} has the size {width} x {height}.", "Render it again.")
    blocks = -(-height // _LINES_PER_BLOCK[compression])
    name = attributes.get("name", b"").decode("utf-8", "replace")
    channels = _channels_of(attributes["channels"], path)
    return _Part(name, channels, compression, x_min, y_min, width, height, blocks)


def _channels_of(table: bytes, path: Path) -> tuple[tuple[str, np.dtype[Any]], ...]:
    reader, channels = _Reader(table, path), []
    while name := reader.string():
        kind, _linear, x_step, y_step = reader.unpack("iIii")
        if (x_step, y_step) != (1, 1):
            raise FormatError(f"{path} has the subsampled channel {name}.", "Write it at full resolution.")
        channels.append((name, _DTYPES[kind]))
    return tuple(channels)


def _read_blocks(
    reader: _Reader, parts: list[_Part], multipart: bool, wanted: Callable[[str], bool]
) -> dict[str, NDArray[np.generic]]:
    offsets = [reader.unpack(f"{part.blocks}Q") for part in parts]
    data_start = reader.at
    images: dict[str, NDArray[np.generic]] = {}
    for number, (part, table) in enumerate(zip(parts, offsets, strict=True)):
        chosen = {name: full for name, full in _full_names(part).items() if wanted(full)}
        planes = {
            name: np.empty((part.height, part.width), kind) for name, kind in part.channels if name in chosen
        }
        for index, offset in enumerate(table):
            if offset < data_start:
                raise ValueError("a block was never written")
            reader.at = offset
            if multipart and reader.unpack("i") != (number,):
                raise ValueError("a block of another part")
            y, size = reader.unpack("ii")
            if y - part.y_min != index * part.block_lines:
                raise ValueError(f"a block at row {y}")
            block = reader.take(size)
            if planes:
                _decode_block(part, y - part.y_min, block, planes)
        images |= {chosen[name]: plane for name, plane in planes.items()}
    return images


def _full_names(part: _Part) -> dict[str, str]:
    prefix = f"{part.name}."
    lone = not part.name or any(name.startswith(prefix) for name, _ in part.channels)
    return {name: name if lone else prefix + name for name, _ in part.channels}


def _decode_block(part: _Part, row: int, block: bytes, planes: dict[str, NDArray[np.generic]]) -> None:
    lines = min(part.block_lines, part.height - row)
    raw = np.frombuffer(_decompress(part, block, lines * part.line_bytes), np.uint8)
    table = raw.reshape(lines, part.line_bytes)
    at = 0
    for name, dtype in part.channels:
        end = at + part.width * dtype.itemsize
        if name in planes:
            planes[name][row : row + lines] = np.ascontiguousarray(table[:, at:end]).view(dtype)
        at = end


def _decompress(part: _Part, block: bytes, size: int) -> bytes:
    """Undoes compression, prediction and byte interleaving; a block that would not shrink is stored as it is."""
    if len(block) == size or part.compression == "NONE":
        packed = block
    else:
        packed = _unpack_rle(block) if part.compression == "RLE" else zlib.decompress(block)
    if len(packed) != size:
        raise ValueError(f"a block of {len(packed)} bytes in place of {size}")
    if packed is block:
        return packed
    deltas = np.frombuffer(packed, np.uint8).copy()
    deltas[1:] += np.uint8(128)
    halves = np.cumsum(deltas, dtype=np.uint8)
    merged = np.empty_like(halves)
    half = (size + 1) // 2
    merged[0::2], merged[1::2] = halves[:half], halves[half:]
    return merged.tobytes()


def _unpack_rle(block: bytes) -> bytes:
    out, at = bytearray(), 0
    while at < len(block):
        count = block[at] - 256 if block[at] > 127 else block[at]
        if count < 0:
            out += block[at + 1 : at + 1 - count]
            at += 1 - count
        else:
            out += block[at + 1 : at + 2] * (count + 1)
            at += 2
    return bytes(out)
