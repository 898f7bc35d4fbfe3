"""Snapshots of a running fit, read and turned into attributes aside from Blender's main thread. Knows no bpy.

numpy lets go of the interpreter while it copies, so Blender goes on drawing meanwhile.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats

from . import encoding
from .encoding import Float32


@dataclass(frozen=True)
class Snapshot:
    """Splats ready to be handed to Blender.

    Attributes:
        attributes: By name, as ``encoding.attributes_of`` gives them.
        metadata: What the file's header says.
        count: How many splats there are; more than the attributes hold where only some shall be shown.
    """

    attributes: dict[str, Float32]
    metadata: dict[str, str]
    count: int


def read_snapshot(path: Path, most: int | None = None) -> Snapshot:
    """Reads a snapshot.

    Args:
        path: The file; the engine replaces it as a whole.
        most: Show at most so many, those that cover most; None for all.

    Raises:
        UserError: The file is missing or damaged, or holds nothing to draw.
    """
    splats, _, _ = read_splat_ply(path)
    drawable, _ = encoding.drop_undrawable(splats)
    if not len(drawable):
        raise UserError(f"{path} holds nothing to draw.", "The fit may have diverged.")
    shown = drawable if most is None else most_visible(drawable, most)
    return Snapshot(encoding.attributes_of(shown), splats.metadata, len(splats))


def most_visible(splats: Splats, most: int) -> Splats:
    """Returns the splats that cover most, by opacity times the area of the two longest axes; in their order."""
    if len(splats) <= most:
        return splats
    two_longest = splats.log_scales.sum(axis=1) - splats.log_scales.min(axis=1)
    log_cover = two_longest + np.log(np.maximum(splats.opacities(), np.finfo(np.float32).tiny))
    chosen = np.argpartition(log_cover, len(splats) - most)[len(splats) - most :]
    return splats.select(np.sort(chosen))


class Reading:
    """A snapshot that is being read in a thread.

    Attributes:
        snapshot: What was read, once it is over.
        error: Why it could not be read.
    """

    def __init__(self, path: Path, most: int | None = None) -> None:
        self.snapshot: Snapshot | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._read, args=(path, most), name="splatfit-snapshot", daemon=True
        )
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Tells whether there is a snapshot or an error."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits for the end, at most so long."""
        self._thread.join(timeout_s)

    def _read(self, path: Path, most: int | None) -> None:
        try:
            self.snapshot = read_snapshot(path, most)
        except Exception as error:  # raised again where it is looked at
            self.error = error
