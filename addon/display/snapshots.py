"""Snapshots of a running fit, read and turned into attributes aside from Blender's main thread. Knows no bpy.

numpy lets go of the interpreter while it copies, so Blender goes on drawing meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_engine.formats.conventions import sh_count
from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats

from ..scene import encoding
from ..scene.encoding import Float32

NUMBERS_MAX = 24_000_000
"""Blender's main thread takes so many in 100 ms at worst (bpy 5.3.0, two cores shared by five). More splats are shown
with less of their directional colour: all of it up to 400 000, its first degree for a million."""


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
    degree = affordable_degree(len(shown))
    if degree < shown.sh_degree:
        shown = shown.with_sh_degree(degree)
    return Snapshot(encoding.attributes_of(shown), splats.metadata, len(splats))


def affordable_degree(count: int) -> int:
    """Returns the highest SH degree in which so many splats stay below ``NUMBERS_MAX``; 0 if none does."""
    return max((k for k in range(1, 4) if count * (11 + 3 * sh_count(k)) <= NUMBERS_MAX), default=0)


def most_visible(splats: Splats, most: int) -> Splats:
    """Returns the splats that cover most, by opacity times the area of the two longest axes; in their order."""
    if len(splats) <= most:
        return splats
    two_longest = splats.log_scales.sum(axis=1) - splats.log_scales.min(axis=1)
    log_cover = two_longest + np.log(np.maximum(splats.opacities(), np.finfo(np.float32).tiny))
    chosen = np.argpartition(log_cover, len(splats) - most)[len(splats) - most :]
    return splats.select(np.sort(chosen))


class Reading:
    """Something that is being read in a thread.

    Args:
        read: Reads it.

    Attributes:
        snapshot: What was read, once it is over.
        error: Why it could not be read.
    """

    def __init__(self, read: Callable[[], Snapshot]) -> None:
        self.snapshot: Snapshot | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(read,), name="splatfit-snapshot", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Tells whether there is a snapshot or an error."""
        return not self._thread.is_alive()

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits for the end, at most so long."""
        self._thread.join(timeout_s)

    def _run(self, read: Callable[[], Snapshot]) -> None:
        try:
            self.snapshot = read()
        except Exception as error:  # raised again where it is looked at
            self.error = error
