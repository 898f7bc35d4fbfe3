"""The pixels of a capture's views, read when they are first asked for and kept in memory within a budget.

Each view becomes a picture in the blending space of the image formation, premultiplied, with alpha, and depth and
normals where a loss asks for them. splat_engine.fit.exr and splat_engine.fit.decoding read the files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from splat_engine.fit.decoding import DEPTH_NONE, check_picture, decoded_picture, truth_of, unit_range
from splat_engine.fit.exr import check_layers, read_layers
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.place import CPU, send
from splat_engine.fit.views import ViewTensors, mapped, view_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, Split, View
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import Target

logger = logging.getLogger(__name__)

HOST = CPU.device
HALF_MAX = 65504.0
"""The largest value of float16, in which large captures are kept."""


class CaptureImages:
    """The views of one split of a capture, as a sequence.

    Every file's header is checked when the object is made; pixels are read on demand and kept while the budget
    lasts (as float32 if all fits, else as float16). A view that does not fit is read anew each time.

    Where they are for a card, a view is sent once and kept there while the card's budget lasts. The others are kept in
    pinned memory, out of which they are sent anew each time without waiting for the card.

    Args:
        capture: The capture.
        split: Which of its views.
        formation: Decides the space the pictures are brought into.
        target: "linear" takes the EXR files, "display" the pictures, "auto" what the capture calls the truth.
        with_depth, with_normals: Also read these passes; only EXR files have them.
        budget_bytes: Most memory for kept views on the processor's side.
        device: Where the views are wanted.
        device_bytes: Most memory of a card for kept views.
        warn: Told in a sentence what is not as it should be.
        decoded: File to its pixels as ``decoded_picture`` returns them, of pictures that were read before.

    Raises:
        UserError: A file is missing, unreadable, of another size than its camera says, or lacks a pass.
    """

    def __init__(
        self,
        capture: Capture,
        split: Split,
        formation: ImageFormation,
        *,
        target: Target = "auto",
        with_depth: bool = False,
        with_normals: bool = False,
        budget_bytes: int = 4 << 30,
        device: torch.device = HOST,
        device_bytes: int = 0,
        warn: Callable[[str], None] = logger.warning,
        decoded: Mapping[Path, NDArray[Any]] | None = None,
    ) -> None:
        self.formation = formation
        self.root = capture.root
        self.views = tuple(truth_of(view, capture, target) for view in capture.of_split(split))
        self.layers = (
            "Combined",
            *(("Depth",) if with_depth else ()),
            *(("Normal",) if with_normals else ()),
        )
        self._warn = warn
        self._decoded = dict(decoded or {})
        self._device = device
        self._shelves = [_Shelf(HOST, budget_bytes)]
        if device != HOST:
            self._shelves.insert(0, _Shelf(device, device_bytes))
        channels = 4 + with_depth + 3 * with_normals
        pixels = sum(view.camera.width * view.camera.height for view in self.views)
        fits = 4 * channels * pixels <= self._shelves[0].room_bytes
        self._dtype = torch.float32 if fits else torch.float16
        for view in self.views:
            self._check(view)

    @property
    def cameras(self) -> Sequence[Camera]:
        """Of all views."""
        return [view.camera for view in self.views]

    def __len__(self) -> int:
        """Returns the number of views."""
        return len(self.views)

    def __getitem__(self, number: int) -> ViewTensors:
        """Returns a view's pixels as float32, on the device.

        Raises:
            UserError: The file is damaged behind its header.
        """
        kept = next((shelf.kept[number] for shelf in self._shelves if number in shelf.kept), None)
        if kept is None:
            kept = _cast(self._read(self.views[number]), self._dtype)
            shelf = next((shelf for shelf in self._shelves if shelf.has_room(kept)), None)
            if shelf is not None:
                kept = shelf.keep(number, kept, is_pinned=self._device != HOST)
        if self._device != HOST:
            kept = mapped(kept, lambda value: send(value, self._device))
        return _cast(kept, torch.float32)

    def _check(self, view: View) -> None:
        size = (view.camera.width, view.camera.height)
        if view.mask is not None:
            check_picture(self.root / view.mask, size)
        if view.exr is not None:
            check_layers(self.root / view.exr, self.layers, size)
            return
        assert view.image is not None
        path = self.root / view.image
        if self.layers != ("Combined",):
            raise UserError(
                f"{path} has no pass {' and '.join(self.layers[1:])}: it is a plain picture.",
                "Set the weight of that loss to 0, or capture the scene as EXR.",
            )
        check_picture(path, size)

    def _read(self, view: View) -> ViewTensors:
        made = self._pixels_of(view)
        if view.mask is None:
            return made
        counts = torch.from_numpy(decoded_picture(self.root / view.mask)[..., :3].any(axis=-1))
        return replace(
            made,
            valid=counts if made.valid is None else made.valid & counts,
            depth=None if made.depth is None else made.depth * counts,
            normals=None if made.normals is None else made.normals * counts[..., None],
        )

    def _pixels_of(self, view: View) -> ViewTensors:
        if view.exr is None:
            assert view.image is not None
            path = self.root / view.image
            pixels = self._decoded.pop(
                path, None
            )  # of use once: the view is kept, or there is no room to keep it
            pixels = decoded_picture(path) if pixels is None else pixels
            alpha = torch.from_numpy(unit_range(pixels[..., 3]))
            return view_tensors(view.camera, self.formation.from_display(pixels[..., :3], alpha), alpha)
        path = self.root / view.exr
        layers = read_layers(path, self.layers, (view.camera.width, view.camera.height))
        valid = np.logical_and.reduce([np.isfinite(layer).all(axis=-1) for layer in layers.values()])
        if not valid.all():
            self._warn(f"{path} has {int((~valid).sum())} pixels that are not finite; they are left out.")
        clean = {
            name: torch.from_numpy(np.where(valid[..., None], layer, 0).astype(np.float32))
            for name, layer in layers.items()
        }
        alpha_tensor = clean["Combined"][..., 3].clamp(0.0, 1.0)
        linear = clean["Combined"][..., :3].clamp_min(0.0)
        covered = alpha_tensor > 0
        depth, normals = clean.get("Depth"), clean.get("Normal")
        return view_tensors(
            view.camera,
            self.formation.from_linear(linear, alpha_tensor),
            alpha_tensor,
            depth=None if depth is None else _depth_of(depth[..., 0], covered),
            normals=None if normals is None else normals * covered[..., None],
            valid=None if valid.all() else torch.from_numpy(valid),
        )


class _Shelf:
    """Views that are kept in the memory of one device.

    Attributes:
        kept: Number of a view to the view.
        room_bytes: What is left of the budget.
    """

    def __init__(self, device: torch.device, room_bytes: int) -> None:
        self.kept: dict[int, ViewTensors] = {}
        self.room_bytes = room_bytes
        self._device = device

    def has_room(self, view: ViewTensors) -> bool:
        return _size_bytes(view) <= self.room_bytes

    def keep(self, number: int, view: ViewTensors, *, is_pinned: bool) -> ViewTensors:
        """Keeps a view; returns it as it is kept. On the host it is pinned if a card is to fetch it again and again."""
        self.room_bytes -= _size_bytes(view)
        if self._device != HOST:
            view = mapped(view, lambda value: send(value, self._device))
        elif is_pinned:
            view = mapped(view, Tensor.pin_memory)
        self.kept[number] = view
        return view


def _size_bytes(view: ViewTensors) -> int:
    return sum(value.nbytes for value in _pixels(view).values())


def _pixels(view: ViewTensors) -> dict[str, Tensor]:
    names = ("color", "alpha", "depth", "normals")
    return {name: value for name in names if (value := getattr(view, name)) is not None}


def _cast(view: ViewTensors, dtype: torch.dtype) -> ViewTensors:
    """Casts the pixels; the camera keeps float32."""
    pixels: dict[str, Any] = {
        name: value.clamp(-HALF_MAX, HALF_MAX).to(dtype) if dtype == torch.float16 else value.to(dtype)
        for name, value in _pixels(view).items()
        if value.dtype != dtype
    }
    return replace(view, **pixels) if pixels else view


def _depth_of(depth: Tensor, covered: Tensor) -> Tensor:
    """Blender's depth with 0 for nothing; its sample at the pixel's centre is not antialiased."""
    return torch.where(covered & (depth < DEPTH_NONE) & (depth > 0), depth, torch.zeros_like(depth))
