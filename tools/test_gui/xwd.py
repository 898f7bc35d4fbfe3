"""Pictures of an X screen as xwd writes them, turned into PNG."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import Image

_FIELDS = 25
"""Of 32 bits each, big-endian. Source: X11/XWDFile.h, version 7."""
_HEADER_SIZE, _VERSION, _WIDTH, _HEIGHT, _BYTE_ORDER, _BITS, _LINE_BYTES = 0, 1, 4, 5, 7, 11, 12
_MASKS, _COLORS = slice(14, 17), 19
_COLOR_BYTES = 12
_RGB = (0xFF0000, 0xFF00, 0xFF)
"""Masks of red, green and blue: a pixel's bytes are blue, green, red where the least comes first."""


def read_xwd(content: bytes) -> np.ndarray:
    """Returns the picture of a TrueColor screen as uint8 [H, W, 3].

    A pixel has 32 bits; where the screen has windows of several visuals, xwd packs it into 24 (and leaves the length of a
    line as it was).

    Raises:
        ValueError: It is another kind of dump.
    """
    header = struct.unpack(f">{_FIELDS}I", content[: 4 * _FIELDS])
    little = header[_BYTE_ORDER] == 0
    if header[_VERSION] != 7 or header[_BITS] not in (24, 32) or not little or header[_MASKS] != _RGB:
        raise ValueError(f"not a little-endian dump of version 7 with 24 or 32 bits of RGB: {header}")
    width, height, line, pixel = header[_WIDTH], header[_HEIGHT], header[_LINE_BYTES], header[_BITS] // 8
    first = header[_HEADER_SIZE] + _COLOR_BYTES * header[_COLORS]
    rows = np.frombuffer(content, np.uint8, count=line * height, offset=first).reshape(height, line)
    return np.ascontiguousarray(rows[:, : pixel * width].reshape(height, width, pixel)[..., 2::-1])


def write_png(dump: Path, path: Path) -> Path:
    """Writes a dump as PNG; returns its path."""
    Image.fromarray(read_xwd(dump.read_bytes())).save(path)
    return path
