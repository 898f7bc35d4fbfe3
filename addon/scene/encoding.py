"""Splats as the point attributes that Blender's native splats read, and back; numpy alone.

| attribute | content |
|---|---|
| position | [N, 3] centres |
| scale | [N, 3] standard deviations, linear |
| rotation | [N, 4] w x y z, normalised |
| radiance:base | [N, 4] raw SH DC r g b, then the activated opacity |
| radiance:sh_0 .. radiance:sh_14 | [N, 3] RGB of one SH coefficient |
| object_index | [N] int32, ours: which object of the captured scene it shows; 0 unknown, else the object's name + 1 |

Source: Blender 5.3, GAUSSIAN_SPLAT point clouds (FACTS.md section 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.conventions import SH_DEGREE_MAX, sh_count
from splat_engine.formats.ply import row_blocks
from splat_engine.formats.splats import Splats

Float32 = NDArray[np.float32]
Attributes = dict[str, NDArray[Any]]

POSITION = "position"
SCALE = "scale"
ROTATION = "rotation"
BASE = "radiance:base"
SH_PREFIX = "radiance:sh_"
OBJECT_INDEX = "object_index"
REQUIRED = (POSITION, SCALE, ROTATION, BASE)

FAR = 64.0
_LOG_SCALE_LIMITS = (-87.0, 88.0)
"""exp() of these are ordinary float32 numbers: neither zero, nor denormal, nor infinite."""
_OPACITY_MIN = float(np.finfo(np.float32).tiny)
_OPACITY_MAX = 1.0 - 2.0**-24
"""The float32 next to 1: its logit, 16.6, stands for every opacity that rounds to 1."""


def sh_names(degree: int) -> list[str]:
    """Returns the attribute names of the SH coefficients above the constant one."""
    return [f"{SH_PREFIX}{index}" for index in range(sh_count(degree) - 1)]


def drop_undrawable(splats: Splats) -> tuple[Splats, int]:
    """Leaves out the splats that Blender cannot place: not finite, or of an infinite size.

    One of them would cost all others their precision, since Blender's viewport quantises over the
    object's range.

    Returns:
        The others, in order, and how many were left out.
    """
    good = splats.finite() & (splats.log_scales < _LOG_SCALE_LIMITS[1]).all(axis=1)
    dropped = int(len(splats) - good.sum())
    return (splats.select(good), dropped) if dropped else (splats, 0)


def count_far(splats: Splats) -> int:
    """Returns how many splats lie so far from the others that these lose precision in Blender's viewport.

    The viewport keeps a position in 22 bits over the object's range. Far means beyond FAR times the range
    of the middle 98 percent; at that, these are left with 15 bits.
    """
    if not len(splats):
        return 0
    low, high = np.percentile(splats.means, (1, 99), axis=0)
    reach = FAR * max(float((high - low).max()), float(np.finfo(np.float32).tiny))
    return int((np.abs(splats.means - (low + high) / 2) > reach).any(axis=1).sum())


def attributes_of(splats: Splats) -> Attributes:
    """Returns the attributes of a cloud of drawable splats, by name; contiguous float32, but for the object index."""
    log_scales = np.clip(splats.log_scales, *_LOG_SCALE_LIMITS)
    quats = splats.quats_wxyz.astype(np.float64)
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    base = np.concatenate([splats.sh[:, 0], splats.opacities()[:, None]], axis=1)
    attributes = {POSITION: splats.means, SCALE: np.exp(log_scales), ROTATION: quats, BASE: base}
    attributes |= zip(sh_names(splats.sh_degree), _columns_of(splats.sh[:, 1:]), strict=True)
    found: Attributes = {n: np.ascontiguousarray(a, dtype=np.float32) for n, a in attributes.items()}
    return found if splats.object_indices is None else {**found, OBJECT_INDEX: splats.object_indices}


def _columns_of(sh: Float32) -> Float32:
    """Returns [N, K, 3] coefficients as [K, N, 3], a block of rows after the other, so that each is fetched once."""
    columns = np.empty((sh.shape[1], len(sh), 3), np.float32)
    for block in row_blocks(len(sh)):
        columns[:, block] = sh[block].swapaxes(0, 1)
    return columns


def splats_of(attributes: Mapping[str, NDArray[Any]], object_names: Sequence[str] | None = None) -> Splats:
    """Returns the splats that attributes describe.

    Absent SH coefficients are zero. Opacities of 0 and 1 and scales of 0, which an edit may have made,
    become the nearest numbers that have a logit or logarithm.

    Args:
        attributes: Arrays by name; REQUIRED must be there, others than splats' are ignored.
        object_names: Behind the object indices, which are ignored without; one that has no name becomes 0.
    """
    scales = np.abs(attributes[SCALE].astype(np.float64))
    base = attributes[BASE]
    opacities = np.clip(base[:, 3].astype(np.float64), _OPACITY_MIN, _OPACITY_MAX)
    sh = np.zeros((len(base), sh_count(sh_degree_of(attributes)), 3), np.float32)
    sh[:, 0] = base[:, :3]
    for k, name in enumerate(sh_names(SH_DEGREE_MAX)[: sh.shape[1] - 1]):
        if name in attributes:
            sh[:, k + 1] = attributes[name]
    indices = attributes.get(OBJECT_INDEX) if object_names is not None else None
    names = tuple(object_names or ()) if indices is not None else ()
    if indices is not None:
        indices = np.where((indices >= 0) & (indices <= len(names)), indices, 0)
    return Splats(
        means=attributes[POSITION],
        log_scales=np.log(np.maximum(scales, np.exp(_LOG_SCALE_LIMITS[0]))),
        quats_wxyz=attributes[ROTATION],
        opacity_logits=np.log(opacities) - np.log1p(-opacities),
        sh=sh,
        object_indices=indices,
        object_names=names,
    )


def sh_degree_of(names: Mapping[str, object]) -> int:
    """Returns the least SH degree that holds every coefficient among the attribute names."""
    for degree in range(SH_DEGREE_MAX, 0, -1):
        if any(name in names for name in sh_names(degree)[sh_count(degree - 1) - 1 :]):
            return degree
    return 0
