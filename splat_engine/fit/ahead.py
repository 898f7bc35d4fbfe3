"""What a fit needs and can know before torch is there: its first splats, and the pictures as numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.fit.decoding import decoded_picture, truth_of
from splat_engine.fit.shelf import LayerShelf, shelf_for
from splat_engine.fit.start import Start, start_splats
from splat_engine.formats.capture import Capture, read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import RunSettings, Target

PIXELS_MOST_BYTES = 128 << 20
"""Of all pictures that are decoded ahead: bounds the memory, and the time to hand them over."""


@dataclass(frozen=True)
class Ahead:
    """What was made ahead; what is missing is made when it is needed.

    Attributes:
        shelf: Layers of the training views' files that were read on the way.
        start: The first splats.
        warnings: What was said of them, each a sentence.
        seconds: How long placing them took: it is part of the fit's time, wherever it was done.
        pictures: File to what ``decoded_picture`` returns of it.
    """

    shelf: LayerShelf
    start: Start | None = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    pictures: Mapping[Path, NDArray[Any]] = field(default_factory=dict)


def look_ahead(
    path: Path, settings: RunSettings, is_asked: Callable[[], bool], *, with_start: bool = True
) -> Ahead:
    """Places the first splats, and then decodes pictures until it is asked for what there is.

    Args:
        path: The capture's folder or transforms.json.
        settings: The fit's.
        is_asked: Tells whether somebody waits.
        with_start: Whether the fit wants first splats.

    Raises:
        UserError: The capture or the start is damaged. A damaged picture is left to who needs it.
    """
    began_s = time.monotonic()
    capture, warnings = read_capture(path), list[str]()
    shelf, rng = shelf_for(capture, settings), np.random.default_rng(settings.fit.seed)
    start = start_splats(capture, settings, rng, warnings.append, shelf) if with_start else None
    seconds = time.monotonic() - began_s
    return Ahead(shelf, start, tuple(warnings), seconds, _pictures(capture, settings.fit.target, is_asked))


def _pictures(capture: Capture, target: Target, is_asked: Callable[[], bool]) -> dict[Path, NDArray[Any]]:
    pictures: dict[Path, NDArray[Any]] = {}
    room_bytes = PIXELS_MOST_BYTES
    for view in capture.views:
        if is_asked() or room_bytes <= 0:
            break
        try:
            name = truth_of(view, capture, target).image
            if name is not None:
                pictures[capture.root / name] = decoded_picture(capture.root / name)
                room_bytes -= pictures[capture.root / name].nbytes
        except UserError:
            continue
    return pictures
