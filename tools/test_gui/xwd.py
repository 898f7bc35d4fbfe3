"""Pictures of an X screen as xwd writes them, turned into PNG."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import Image

_FIELDS = 25
"""Of 32 bits each, big-endian. Source: X11/XWDFile.h, version 7."""
_HEADER_SIZE, _VERSION, _WIDTH, _HEIGHT, _BYTE_ORDER, _BITS, _LINE_BYTES, _COLORS = 0, 1, 4, 5, 7, 11, 12, 19
_COLOR_BYTES = 12


def read_xwd(content: bytes) -> np.ndarray:
    """Returns the picture of a 32-bit TrueColor screen as uint8 [H, W, 3].

    Raises:
        ValueError: It is another kind of dump.
    """
    header = struct.unpack(f">{_FIELDS}I", content[: 4 * _FIELDS])
    if header[_VERSION] != 7 or header[_BITS] != 32 or header[_BYTE_ORDER] != 0:
        raise ValueError(f"not a little-endian 32-bit dump of version 7: {header}")
    width, height, line = header[_WIDTH], header[_HEIGHT], header[_LINE_BYTES]
    first = header[_HEADER_SIZE] + _COLOR_BYTES * header[_COLORS]
    rows = np.frombuffer(content, np.uint8, count=line * height, offset=first).reshape(height, line)
    return np.ascontiguousarray(rows[:, : 4 * width].reshape(height, width, 4)[..., 2::-1])


def write_png(dump: Path, path: Path) -> Path:
    """Writes a dump as PNG; returns its path."""
    Image.fromarray(read_xwd(dump.read_bytes())).save(path)
    return path
