"""Multilayer EXR files: the passes of a rendered view in, a drawn view out.

Blender writes one part (4.x) or a part for each pass (5.x), with channels such as ``ViewLayer.Combined.R``. A
layer is found by its last name, whatever the view layer is called. Plain R, G, B, A channels count as Combined.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import OpenEXR
from numpy.typing import NDArray

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import write_bytes

Array = NDArray[Any]

_LAYER_CHANNELS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Combined": (("R", "G", "B", "A"),),
    "Depth": (("Z",), ("V",), ("X",)),
    "Normal": (("X", "Y", "Z"),),
    "Position": (("X", "Y", "Z"),),
    "Object Index": (("X",), ("V",)),
}
"""Layer to the spellings of its channels, the usual one first."""


def check_layers(path: Path, names: tuple[str, ...], size: tuple[int, int]) -> None:
    """Checks by the file's header that ``read_layers`` will find what it wants; reads no pixels.

    Args:
        path: The file.
        names: Layers that must be there.
        size: (width, height) that the camera states.

    Raises:
        UserError: The file is missing, unreadable, of another size, or lacks a layer.
    """
    extents = _extents(path)
    for name in names:
        found = _find_layer(extents, name, path)
        _check_size(extents[found[0]], size, path)


def _extents(path: Path) -> dict[str, tuple[int, int]]:
    """Full channel name to (width, height), from the header alone."""
    extents: dict[str, tuple[int, int]] = {}
    for part in _open(path, header_only=True).parts:
        low, high = part.header["dataWindow"]
        extent = (int(high[0] - low[0]) + 1, int(high[1] - low[1]) + 1)
        for channel in part.header["channels"]:
            extents[_full_name(part.name(), channel.name)] = extent
    return extents


def read_layers(
    path: Path, names: tuple[str, ...], size: tuple[int, int], also: tuple[str, ...] = ()
) -> dict[str, Array]:
    """Reads layers of a multilayer EXR.

    Args:
        path: The file.
        names: Layers to read: Combined, Depth, Normal, Position or Object Index.
        size: (width, height) that the camera states.
        also: Layers that may be missing, and are then left out.

    Returns:
        Layer name to [H, W, C] pixels in the file's own type.

    Raises:
        UserError: The file is missing, unreadable, of another size, or lacks a layer.
    """
    channels: dict[str, Array] = {}
    for part in _open(path, header_only=False).parts:
        for name, channel in part.channels.items():
            channels[_full_name(part.name(), name)] = channel.pixels
    if _extents(path).keys() - channels.keys():
        # The package swallows what goes wrong behind the header, and returns the part without its channels.
        raise _damaged(path, "its pixels cannot be decoded")
    layers = {}
    for name in (*names, *(name for name in also if name not in names and _has_layer(channels, name, path))):
        planes = [channels[found] for found in _find_layer(channels, name, path)]
        for plane in planes:
            _check_size((plane.shape[1], plane.shape[0]), size, path)
        layers[name] = np.stack(planes, axis=-1)
    return layers


def _open(path: Path, header_only: bool) -> Any:
    if not path.is_file():
        raise UserError(f"There is no file {path}.", "Finish or repeat the capture.")
    try:
        # Through a stream of Python's, so that a path may hold any character on every system.
        with path.open("rb") as stream:
            return OpenEXR.File(stream, separate_channels=True, header_only=header_only)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, cause: Exception | str) -> FormatError:
    return FormatError(
        f"{path} is not a readable EXR file.", "It is damaged: delete it and capture again.", cause
    )


def _full_name(part: str | None, channel: str) -> str:
    """Some writers put the layer into the part's name alone."""
    return channel if "." in channel or not part else f"{part}.{channel}"


def _find_layer(channels: Iterable[str], layer: str, path: Path) -> list[str]:
    """Returns the full names of a layer's channels, in the order of its letters."""
    present = set(channels)
    for spelling in _LAYER_CHANNELS[layer]:
        for prefix in _prefixes(present, layer, spelling[0]):
            names = [f"{prefix}{letter}" for letter in spelling]
            if present.issuperset(names):
                return names
    layers = sorted({name.rpartition(".")[0] or name for name in present})
    raise FormatError(
        f"{path} lacks the pass {layer}; it has {', '.join(layers) or 'no channels'}.",
        f"Capture again with the pass {layer}, or set the weight of its loss to 0.",
    )


def _has_layer(channels: Iterable[str], layer: str, path: Path) -> bool:
    try:
        return bool(_find_layer(channels, layer, path))
    except FormatError:
        return False


def _prefixes(channels: set[str], layer: str, letter: str) -> list[str]:
    """What stands in front of the channel letters of a layer, such as ``ViewLayer.Depth.``; sorted."""
    prefixes = {name[: -len(letter)] for name in channels if name.endswith(f".{letter}")}
    prefixes = {prefix for prefix in prefixes if f".{prefix}".endswith(f".{layer}.")}
    if layer == "Combined" and letter in channels:
        prefixes.add("")
    return sorted(prefixes)


def _check_size(found: tuple[int, int], expected: tuple[int, int], path: Path) -> None:
    if found != expected:
        raise FormatError(
            f"{path} is {found[0]} x {found[1]} pixels, but its camera says {expected[0]} x {expected[1]}.",
            "Capture this view again; its picture and transforms.json do not belong together.",
        )


def write_layers(path: Path, layers: Mapping[str, Array]) -> None:
    """Writes layers as Blender names them, into one part of 32-bit floats.

    Args:
        path: The file; replaced whole or not at all.
        layers: Layer name (Combined, Depth, Normal, Position, Object Index) to [H, W, C].

    Raises:
        UserError: The file cannot be written.
    """
    channels = {
        f"ViewLayer.{layer}.{letter}": np.ascontiguousarray(pixels[..., i], dtype=np.float32)
        for layer, pixels in layers.items()
        for i, letter in enumerate(_LAYER_CHANNELS[layer][0])
    }
    stream = io.BytesIO()
    header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
    with OpenEXR.File(header, channels) as file:
        file.write(stream)
    write_bytes(path, stream.getvalue())
