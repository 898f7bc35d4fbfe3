"""Projection and colours of splats for numpy arrays, without torch: with ``Rasterization`` an image, e.g. a preview."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from splat_engine.native.library import call

Array = NDArray[np.floating]
_SCALARS = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class ProjectedArrays(NamedTuple):
    """Splats on the screen, as ``splat_engine.ops.project.Projected`` has them; culled ones are zero."""

    means2d: Array
    depths: Array
    conics: Array
    opacities: Array
    radii: Array
    depth_slopes: Array | None = None


def project(
    means: Array,
    log_scales: Array,
    quats_wxyz: Array,
    opacity_logits: Array,
    viewmat: Array,
    intrinsics: Array,
    width: int,
    height: int,
    *,
    orthographic: bool = False,
    dilation_px2: float = 0.0,
    antialiased: bool = False,
    near: float = 0.01,
    with_depth_slopes: bool = False,
) -> ProjectedArrays:
    """Projects 3D Gaussians to the screen and culls those that draw nothing; see ``splat_engine.ops.project``.

    Args:
        means: [N, 3] centres, world, scene units; float32 or float64, the type of the whole call. N may be 0.
        log_scales: [N, 3].
        quats_wxyz: [N, 4], any norm.
        opacity_logits: [N].
        viewmat: [4, 4] camera_from_world, OpenCV axes.
        intrinsics: [4] fx, fy, cx, cy, px (px per scene unit if orthographic).
        width: px.
        height: px.
        orthographic: whether the camera is.
        dilation_px2: variance added to both axes on the screen.
        antialiased: dim each splat by as much as the dilation enlarges it.
        near: least depth that is drawn, scene units.
        with_depth_slopes: also return depth_slopes, for ``Rasterization`` in each pixel's own order.

    Raises:
        ValueError: an array has another shape, or the type is neither float32 nor float64.
    """
    means = np.asarray(means)
    scalar, count = _scalar(means), len(means)
    shapes = {
        "means": (means, (count, 3)),
        "log_scales": (log_scales, (count, 3)),
        "quats_wxyz": (quats_wxyz, (count, 4)),
        "opacity_logits": (opacity_logits, (count,)),
        "viewmat": (viewmat, (4, 4)),
        "intrinsics": (intrinsics, (4,)),
    }
    inputs = {name: _prepared(name, array, shape, means.dtype) for name, (array, shape) in shapes.items()}
    sizes: dict[str, tuple[int, ...]] = {
        "means2d": (2,),
        "depths": (),
        "conics": (3,),
        "opacities": (),
        "radii": (2,),
    }
    if with_depth_slopes:
        sizes["depth_slopes"] = (2,)
    outputs = {name: np.empty((count, *size), means.dtype) for name, size in sizes.items()}
    call(
        "project_fwd",
        scalar,
        count=count,
        width=width,
        height=height,
        orthographic=int(orthographic),
        antialiased=int(antialiased),
        dilation_px2=dilation_px2,
        near_depth=near,
        **{name: array.ctypes.data for name, array in (inputs | outputs).items()},
    )
    return ProjectedArrays(**outputs)


def sh_colors(
    means: Array, sh: Array, viewmat: Array, *, degree: int, orthographic: bool = False, decode: bool = False
) -> Array:
    """Colours of splats as the camera sees them; see ``splat_engine.ops.sh_colors``.

    Args:
        means: [N, 3] centres, world; float32 or float64, the type of the whole call. N may be 0.
        sh: [N, K, 3] coefficients.
        viewmat: [4, 4] camera_from_world, a rigid motion.
        degree: 0 to 3.
        orthographic: whether the camera is.
        decode: return linear light, the colour taken as sRGB-encoded.

    Returns:
        [N, 3].

    Raises:
        ValueError: an array has another shape, or the type is neither float32 nor float64.
        UserError: the degree is out of range or K too small for it.
    """
    means, sh = np.asarray(means), np.asarray(sh)
    scalar, count = _scalar(means), len(means)
    coefficients = sh.shape[1] if sh.ndim == 3 else 0
    inputs = {
        "means": _prepared("means", means, (count, 3), means.dtype),
        "sh": _prepared("sh", sh, (count, coefficients, 3), means.dtype),
        "viewmat": _prepared("viewmat", viewmat, (4, 4), means.dtype),
    }
    colors = np.empty((count, 3), means.dtype)
    call(
        "sh_colors_fwd",
        scalar,
        count=count,
        coefficients=coefficients,
        degree=degree,
        orthographic=int(orthographic),
        decode=int(decode),
        colors=colors.ctypes.data,
        **{name: array.ctypes.data for name, array in inputs.items()},
    )
    return colors


def _scalar(array: Array) -> str:
    if array.dtype not in _SCALARS:
        raise ValueError(f"expected float32 or float64 arrays, got {array.dtype}")
    return _SCALARS[array.dtype]


def _prepared(name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    array = np.ascontiguousarray(array, dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {list(shape)}, got {list(array.shape)}")
    return array
