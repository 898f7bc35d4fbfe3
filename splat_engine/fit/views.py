"""Training views as tensors: the camera, the picture to reach, and what else is known of each pixel.

Needs torch alone: splat_engine.fit.data reads views from files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from splat_engine.formats.cameras import Camera


@dataclass(frozen=True)
class ViewTensors:
    """A view as the fit compares it; float32, on one device.

    Attributes:
        viewmat: [4, 4] camera_from_world, OpenCV axes.
        intrinsics: [4] fx, fy, cx, cy.
        camera: The same in words.
        color: [H, W, 3] premultiplied, in the blending space.
        alpha: [H, W].
        is_empty: Whether the view shows nothing at all.
        depth: [H, W] planar depth in scene units, 0 where there is none; or None.
        normals: [H, W, 3] unit or zero, world frame; or None.
        valid: [H, W] bool, False where the file held values that are not finite or a mask is black; None where all count.
    """

    viewmat: Tensor
    intrinsics: Tensor
    camera: Camera
    color: Tensor
    alpha: Tensor
    is_empty: bool
    depth: Tensor | None = None
    normals: Tensor | None = None
    valid: Tensor | None = None


def view_tensors(
    camera: Camera,
    color: Tensor,
    alpha: Tensor,
    *,
    depth: Tensor | None = None,
    normals: Tensor | None = None,
    valid: Tensor | None = None,
) -> ViewTensors:
    """Returns a view of its premultiplied colour [H, W, 3] in the blending space and alpha [H, W]; see ViewTensors."""
    viewmat, intrinsics = camera_tensors(camera)
    return ViewTensors(
        viewmat=viewmat,
        intrinsics=intrinsics,
        camera=camera,
        color=color,
        alpha=alpha,
        is_empty=not (bool(alpha.any()) or bool(color.any())),
        depth=depth,
        normals=normals,
        valid=valid,
    )


def camera_tensors(camera: Camera) -> tuple[Tensor, Tensor]:
    """Returns (viewmat [4, 4], intrinsics [4]) of a camera as float32 tensors."""
    return (
        torch.from_numpy(camera.viewmat.astype(np.float32)),
        torch.from_numpy(camera.intrinsics.astype(np.float32)),
    )


class Views(Protocol):
    """Views that a fit learns from or is judged by, on one device; numbered from 0."""

    @property
    def cameras(self) -> Sequence[Camera]:
        """Of all views, without asking for pixels."""

    def __len__(self) -> int:
        """Returns their number."""

    def __getitem__(self, number: int) -> ViewTensors:
        """Returns a view with its pixels."""


@dataclass(frozen=True)
class ViewList:
    """Views in memory.

    Attributes:
        views: All of them, on one device.
    """

    views: Sequence[ViewTensors]

    @property
    def cameras(self) -> Sequence[Camera]:
        """Of all views."""
        return [view.camera for view in self.views]

    def __len__(self) -> int:
        """Returns the number of views."""
        return len(self.views)

    def __getitem__(self, number: int) -> ViewTensors:
        """Returns a view."""
        return self.views[number]


@dataclass(frozen=True)
class SomeViews:
    """Some of other views.

    Attributes:
        images: The others.
        numbers: Which of them, in this order.
    """

    images: Views
    numbers: Sequence[int]

    @property
    def cameras(self) -> Sequence[Camera]:
        """Of those views."""
        cameras = self.images.cameras
        return [cameras[number] for number in self.numbers]

    def __len__(self) -> int:
        """Returns their number."""
        return len(self.numbers)

    def __getitem__(self, number: int) -> ViewTensors:
        """Returns a view with its pixels."""
        return self.images[self.numbers[number]]


def mapped(view: ViewTensors, change: Callable[[Tensor], Tensor]) -> ViewTensors:
    """Returns a view with every tensor changed, those of the camera too."""
    changed: dict[str, Any] = {
        name: change(value) for name, value in vars(view).items() if isinstance(value, Tensor)
    }
    return replace(view, **changed)
