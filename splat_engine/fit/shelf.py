"""Layers of EXR files that were read for one purpose and will be wanted for another: no file is decoded twice for it.

The dense start reads depth and colour of every training view, the fit colour, and at its end each splat's object is told by
depth and object index.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from splat_engine.fit.decoding import reads_linear
from splat_engine.fit.objects import OBJECT_LAYERS, has_object_indices
from splat_engine.formats.capture import Capture
from splat_engine.formats.settings import RunSettings

Layers = dict[str, NDArray[Any]]

ROOM_BYTES = 256 << 20
"""Of all that is kept: views beyond are read again."""


class LayerShelf:
    """Keeps layers until they are taken, as long as there is room.

    Args:
        names: The layers to keep.
        room_bytes: Most memory.
    """

    def __init__(self, names: Iterable[str] = (), room_bytes: int = ROOM_BYTES) -> None:
        self.names = tuple(names)
        self._room_bytes = room_bytes
        self._kept: dict[Path, Layers] = {}

    def keep(self, path: Path, layers: Layers) -> None:
        """Keeps of a file's layers those that will be wanted, all or, without the room, none of them."""
        wanted = {name: layers[name] for name in self.names if name in layers}
        size = sum(layer.nbytes for layer in wanted.values())
        if wanted and path not in self._kept and size <= self._room_bytes:
            self._kept[path] = wanted
            self._room_bytes -= size

    def look(self, path: Path, names: Iterable[str]) -> Layers | None:
        """Returns layers of a file, or None if one of them is not here."""
        kept = self._kept.get(path, {})
        return {name: kept[name] for name in names} if kept.keys() >= set(names) else None

    def take(self, path: Path, names: Iterable[str]) -> Layers | None:
        """Does as ``look`` does, once: afterwards only what tells objects is still here."""
        found = self.look(path, names)
        for name in self._kept.get(path, {}).keys() - set(OBJECT_LAYERS):
            self._room_bytes += self._kept[path].pop(name).nbytes
        return found


def shelf_for(capture: Capture, settings: RunSettings) -> LayerShelf:
    """Returns an empty shelf for what a fit of these settings will want of its training views again."""
    colour, normal = reads_linear(capture, settings.fit.target), settings.loss.normal_weight > 0
    names = [*(("Combined",) if colour else ()), *(("Normal",) if colour and normal else ()), "Depth"]
    return LayerShelf([*names, *(("Object Index",) if has_object_indices(capture) else ())])
