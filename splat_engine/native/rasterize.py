"""The rasterizer for numpy arrays, without torch: what the add-on uses for previews. Also the handle of a saved forward."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from splat_engine.native.library import call, load_library

MAX_CHANNELS = 8
"""Features of one native call (MAX_CHANNELS in csrc/cpu/rasterize.h)."""

Array = NDArray[np.floating]


class RasterContext:
    """Owns what one native forward keeps for its backward; gives it back when it is collected.

    Read-only after the forward, so one context may serve several backward calls, from any thread.
    """

    def __init__(self) -> None:
        self._slot = ctypes.c_void_p(None)

    @property
    def slot_address(self) -> int:
        """Where the forward shall write the handle."""
        return ctypes.addressof(self._slot)

    @property
    def handle(self) -> int | None:
        """The handle, for the backward; None before the forward has run."""
        return self._slot.value

    def own(self) -> None:
        """Take charge of the handle that a forward has written."""
        free: Callable[[int | None], None] = load_library().handle.splat_context_free
        finalizer = weakref.finalize(self, free, self._slot.value)
        finalizer.atexit = False  # the process gives the memory back; the library may be gone by then


class RasterGradients(NamedTuple):
    """Gradients of the inputs of ``rasterize``."""

    means2d: Array
    conics: Array
    opacities: Array
    features: Array
    background: Array


def _scalar(array: Array) -> str:
    names = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
    if array.dtype not in names:
        raise ValueError(f"expected float32 or float64 arrays, got {array.dtype}")
    return names[array.dtype]


def _prepare(name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    array = np.ascontiguousarray(array, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {list(shape)}, got {list(array.shape)}")
    return array


class Rasterization:
    """One rendered image, and what its backward needs.

    Args:
        means2d: [N, 2] centres, px, pixel centres at +0.5.
        conics: [N, 3] a, b, c of the inverse 2D covariance, px^-2.
        opacities: [N].
        features: [N, C], C from 1 to 8.
        depths: [N]; smaller is nearer, ties by index.
        width: px.
        height: px.
        background: [C] or None for zero.
        depth_slopes: [N, 2] per px, or None; with them each pixel blends in its own order, by depths + depth_slopes .
            (pixel's centre - means2d).

    All arrays are used in the type of means2d, float32 or float64. N = 0 gives the background. Splats with any
    number that is not finite, or with a conic that is not positive definite, are not drawn.

    Attributes:
        image: [height, width, C].
        alpha: [height, width].

    Raises:
        ValueError: an array has another shape or type.
        UserError: sizes out of range, or no memory.
    """

    def __init__(
        self,
        means2d: Array,
        conics: Array,
        opacities: Array,
        features: Array,
        depths: Array,
        width: int,
        height: int,
        background: Array | None = None,
        depth_slopes: Array | None = None,
    ) -> None:
        means2d = np.asarray(means2d)
        self._scalar = _scalar(means2d)
        dtype = means2d.dtype
        features = np.asarray(features)
        count, channels = len(means2d), features.shape[-1] if features.ndim == 2 else 1
        self._means2d = _prepare("means2d", means2d, (count, 2), dtype)
        self._conics = _prepare("conics", conics, (count, 3), dtype)
        self._opacities = _prepare("opacities", opacities, (count,), dtype)
        self._features = _prepare("features", features, (count, channels), dtype)
        depths = _prepare("depths", depths, (count,), dtype)
        if depth_slopes is not None:
            depth_slopes = _prepare("depth_slopes", depth_slopes, (count, 2), dtype)
        self._background = (
            None if background is None else _prepare("background", background, (channels,), dtype)
        )
        self.image: Array = np.empty((height, width, channels), dtype)
        self.alpha: Array = np.empty((height, width), dtype)
        self._context = RasterContext()
        call(
            "rasterize_fwd",
            self._scalar,
            depths=depths.ctypes.data,
            depth_slopes=None if depth_slopes is None else depth_slopes.ctypes.data,
            context=self._context.slot_address,
            **self._shared(),
        )
        self._context.own()

    @property
    def context_handle(self) -> int | None:
        """The handle of what the forward left, for ``measure.raster_counts``; valid while this object lives."""
        return self._context.handle

    def _shared(self) -> dict[str, int | None]:
        """The fields that forward and backward have in common."""
        height, width, channels = self.image.shape
        return {
            "count": len(self._means2d),
            "width": width,
            "height": height,
            "channels": channels,
            "means2d": self._means2d.ctypes.data,
            "conics": self._conics.ctypes.data,
            "opacities": self._opacities.ctypes.data,
            "features": self._features.ctypes.data,
            "background": None if self._background is None else self._background.ctypes.data,
            "image": self.image.ctypes.data,
            "alpha": self.alpha.ctypes.data,
        }

    def backward(self, v_image: Array, v_alpha: Array | None = None) -> RasterGradients:
        """Gradients of a loss from its gradients to the image and to alpha.

        Args:
            v_image: [height, width, C].
            v_alpha: [height, width], or None for zero.

        Raises:
            ValueError: an array has another shape.
        """
        dtype = self.image.dtype
        v_image = _prepare("v_image", v_image, self.image.shape, dtype)
        v_alpha = None if v_alpha is None else _prepare("v_alpha", v_alpha, self.alpha.shape, dtype)
        gradients = RasterGradients(
            np.empty_like(self._means2d),
            np.empty_like(self._conics),
            np.empty_like(self._opacities),
            np.empty_like(self._features),
            np.empty(self.image.shape[2], dtype),
        )
        call(
            "rasterize_bwd",
            self._scalar,
            v_image=v_image.ctypes.data,
            v_alpha=None if v_alpha is None else v_alpha.ctypes.data,
            context=self._context.handle,
            **{f"v_{name}": value.ctypes.data for name, value in gradients._asdict().items()},
            **self._shared(),
        )
        return gradients
