"""One view that was rendered as a test: how it looks, and how long all of them will take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from splat_engine.formats.settings import PLACED_RIGS

from .. import blender
from .layouts import duration
from .picture_icon import PictureIcon, Pixels

LONG_S = 8.0
"""A first view that took longer tells enough; else a second one is timed, without the scene's loading."""
SIDE_PX = 256
_BACKGROUND = 0.18
_DECISIVE = ("engine", "samples", "resolution", "denoise", "transparent", "rig")
"""Settings under another value of which the time is another."""


@dataclass(frozen=True)
class Tested:
    """What is known from a test.

    Attributes:
        seconds: A view's.
        views: How many there were to be.
        settings: Values of ``_DECISIVE`` then.
    """

    seconds: float
    views: int
    settings: tuple[Any, ...]


_tested: dict[str, Tested] = {}
_icon = PictureIcon()


def keep(scene: Any, picture: Path, seconds: float, views: int) -> None:
    """Remembers a test of a scene.

    Args:
        scene: The scene.
        picture: The view with the scene's look, as a PNG.
        seconds: How long one view took.
        views: How many views the capture has.
    """
    _tested[scene.name] = Tested(seconds, views, _decisive(scene))
    _icon.show(read_small(picture, SIDE_PX))


def of(scene: Any) -> Tested | None:
    """Returns the last test of a scene, or None: there was none, or the settings are others by now."""
    found = _tested.get(scene.name)
    return found if found is not None and found.settings == _decisive(scene) else None


def icon_id() -> int:
    """Returns the icon of the last tested view."""
    return _icon.icon_id


def in_words(scene: Any) -> str:
    """Returns how long the capture will take, by the last test; "" without one."""
    found = of(scene)
    if found is None:
        return ""
    chosen = scene.splatfit.capture
    views = chosen.views if chosen.rig in PLACED_RIGS and chosen.rig != "faces" else found.views
    return f"About {duration(found.seconds * views)} for {views:,} views"


def _decisive(scene: Any) -> tuple[Any, ...]:
    return tuple(getattr(scene.splatfit.capture, name) for name in _DECISIVE)


def read_small(path: Path, side_px: int) -> Pixels:
    """Returns a picture, thinned to at most ``side_px``, over a grey ground."""
    image: Any = bpy.data.images.load(str(path))
    try:
        return small(pixels_of(image), side_px)
    finally:
        bpy.data.images.remove(image)


def pixels_of(image: Any) -> Pixels:
    """Returns the picture of an image of Blender's."""
    width, height = image.size
    pixels = np.empty(width * height * 4, np.float32)
    image.pixels.foreach_get(pixels)
    return pixels.reshape(height, width, 4)


def small(pixels: Pixels, side_px: int) -> Pixels:
    """Returns a picture, thinned to at most ``side_px``, over a grey ground."""
    stride = max(1, -(-max(pixels.shape[:2]) // side_px))
    thinned = pixels[::stride, ::stride].copy()
    alpha = thinned[..., 3:]
    thinned[..., :3] = thinned[..., :3] * alpha + _BACKGROUND * (1 - alpha)
    thinned[..., 3] = 1
    return thinned


def _file_loads(*_: Any) -> None:
    _tested.clear()


def register() -> None:
    """Has tests forgotten when another file is loaded."""
    blender.call_at("load_pre", _file_loads)


def unregister() -> None:
    """Forgets everything; does nothing where there is nothing."""
    _tested.clear()
    _icon.free()
    blender.call_no_more("load_pre", _file_loads)
