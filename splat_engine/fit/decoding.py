"""Which file of a view is its truth, and that file's picture as numbers. Needs no torch.

Multilayer EXR is read by splat_engine.fit.exr, other pictures here, through Pillow: 8 bits a channel (Pillow reduces
16-bit colour PNGs to 8; 16-bit grey is read in full).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from splat_engine.formats.capture import Capture, View
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.settings import Target

DEPTH_NONE = 1e9
"""Blender writes 1e10 where a ray hits nothing; from here on it is no depth."""


def truth_of(view: View, capture: Capture, target: Target) -> View:
    """Returns the view with the one file alone that is its truth: the EXR file, or the picture.

    Raises:
        UserError: The wanted colours' file is not there.
    """
    linear = _is_linear(view, capture, target)
    wanted = view.exr if linear else view.image
    if wanted is None:
        what, other = ("EXR file", "display") if linear else ("display picture", "linear")
        raise UserError(
            f"The view {view.camera.name!r} of {capture.root} has no {what}.",
            f"Fit the other colours (--target {other}), or capture again with it.",
        )
    return replace(view, image=None) if linear else replace(view, exr=None)


def _is_linear(view: View, capture: Capture, target: Target) -> bool:
    """Whether a view's EXR file is its truth, and not its picture."""
    if target == "auto" and (view.exr is None or view.image is None):
        return view.exr is not None
    return capture.info.color_space == "linear" if target == "auto" else target == "linear"


def reads_linear(capture: Capture, target: Target) -> bool:
    """Returns whether all training views are read from EXR files, which alone have passes."""
    return all(_is_linear(view, capture, target) for view in capture.of_split("train"))


def check_picture(path: Path, size: tuple[int, int]) -> None:
    """Checks by a picture's header that it has the (width, height) that its camera states.

    Raises:
        UserError: The file is missing, not a picture, or of another size.
    """
    with _open_picture(path) as picture:
        if picture.size != size:
            raise FormatError(
                f"{path} is {picture.size[0]} x {picture.size[1]} pixels, but its camera says {size[0]} x {size[1]}.",
                "Give the camera the picture's size, or render the view again.",
            )


def _open_picture(path: Path) -> Image.Image:
    try:
        return Image.open(path)
    except FileNotFoundError as error:
        raise UserError(f"There is no picture {path}.", "Finish or repeat the capture.", error) from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise FormatError(
            f"{path} is not a readable picture.", "It is damaged: replace it with an intact one.", error
        ) from error


def read_picture(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Reads an encoded picture with straight alpha.

    Args:
        path: PNG, JPEG or whatever else Pillow reads.

    Returns:
        colours [H, W, 3] and alpha [H, W] in 0 to 1; alpha is 1 where the file has none.

    Raises:
        UserError: The file is missing or damaged.
    """
    pixels = unit_range(decoded_picture(path))
    return np.ascontiguousarray(pixels[..., :3]), np.ascontiguousarray(pixels[..., 3])


def decoded_picture(path: Path) -> NDArray[Any]:
    """[H, W, 4] encoded colours with straight alpha: uint8, or float32 of 0 to 1 where the file has 16 bits."""
    with _open_picture(path) as picture:
        try:
            if picture.mode.startswith("I;16"):
                grey = np.asarray(picture, dtype=np.float32) / 65535
                return np.stack([grey, grey, grey, np.ones_like(grey)], axis=-1)
            return np.asarray(picture.convert("RGBA"))
        except (OSError, ValueError, SyntaxError) as error:
            raise FormatError(
                f"{path} is a damaged picture.", "Replace it with an intact one.", error
            ) from error


def unit_range(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of 0 to 1 from what ``decoded_picture`` returned."""
    unit: NDArray[np.float32] = pixels.astype(np.float32)
    return unit / np.float32(255) if pixels.dtype == np.uint8 else unit
