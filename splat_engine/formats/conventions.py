"""Axes, colour and compositing conventions: their one home on the Python side.

``csrc/include/constants.h`` states the compositing constants for the kernels; a test
holds the two together.

World frame: Blender's (right-handed, Z up, scene units). Camera frame inside the engine:
OpenCV (x right, y down, z forward), pixel centres at +0.5. Camera frame in
transforms.json: OpenGL (x right, y up, z backward).
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", bound=np.floating[Any])

Float = NDArray[np.floating[Any]]
Formation = Literal["blender", "classic"]
CameraModel = Literal["perspective", "orthographic"]

FORMATIONS: tuple[Formation, ...] = ("blender", "classic")
CAMERA_MODELS: tuple[CameraModel, ...] = ("perspective", "orthographic")

ALPHA_MAX = 0.99
"""Ceiling of one splat's alpha; the gradient above it is zero."""
ALPHA_MIN = 1.0 / 255.0
"""A splat weaker than this at a pixel is skipped there."""
TRANSMITTANCE_MIN = 1e-4
"""A splat that would bring the transmittance here or lower is not blended, and the ray ends."""

CLASSIC_DILATION_PX2 = 0.3
"""Variance that the ``classic`` formation adds to both screen axes (Kerbl et al. 2023)."""
PIXEL_FILTER_VARIANCE_PX2 = 0.1727
"""Variance along each axis of the pixel filter that Cycles has by default: a Blackman-Harris window of width 1.5 px, which
Cycles takes as the window's half: it ends 1.5 px from the pixel's centre. With a0 .. a3 of the window and half width h its
variance is h^2 (1/3 - 2 (a1 - a2/4 + a3/9) / (a0 pi^2)) = 0.0767 h^2."""

BOX_FILTER_VARIANCE_PX2 = 1.0 / 12.0
"""Variance along each axis of the mean over a pixel."""

SH_C0 = 0.5 / math.sqrt(math.pi)
"""Y_0^0: the constant basis function of the real spherical harmonics."""
SH_DEGREE_MAX = 3

OPENGL_FROM_OPENCV: Float = np.diag([1.0, -1.0, -1.0, 1.0])
"""Turns a camera matrix's columns from OpenCV to OpenGL axes, and back: it is its own inverse."""


def sh_count(degree: int) -> int:
    """Returns the number of SH coefficients of a degree: 1, 4, 9, 16 for 0 to 3.

    Raises:
        ValueError: The degree is not 0, 1, 2 or 3.
    """
    if degree not in range(SH_DEGREE_MAX + 1):
        raise ValueError(f"SH degree must be 0 to {SH_DEGREE_MAX}, got {degree}")
    return (degree + 1) ** 2


def sh_degree(count: int) -> int:
    """Returns the SH degree whose coefficients number ``count``.

    Raises:
        ValueError: The count is not 1, 4, 9 or 16.
    """
    for degree in range(SH_DEGREE_MAX + 1):
        if (degree + 1) ** 2 == count:
            return degree
    raise ValueError(f"number of SH coefficients must be 1, 4, 9 or 16, got {count}")


def srgb_from_linear(linear: Float) -> Float:
    """Encodes linear light with the sRGB curve; above 1 the curve simply goes on.

    Args:
        linear: Any shape; negative values give 0.

    Returns:
        Encoded values of the same shape.

    Source: IEC 61966-2-1.
    """
    linear = np.maximum(linear, 0.0)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * np.power(linear, 1 / 2.4) - 0.055)


def linear_from_srgb(encoded: Float) -> Float:
    """Decodes sRGB-encoded values to linear light; above 1 the curve simply goes on.

    Args:
        encoded: Any shape; negative values give 0.

    Returns:
        Linear values of the same shape.

    Source: IEC 61966-2-1.
    """
    encoded = np.maximum(encoded, 0.0)
    return np.where(encoded <= 0.04045, encoded / 12.92, np.power((encoded + 0.055) / 1.055, 2.4))


def linear_number_from_srgb(encoded: float) -> float:
    """Decodes one sRGB-encoded value; see ``linear_from_srgb``."""
    encoded = max(encoded, 0.0)
    return encoded / 12.92 if encoded <= 0.04045 else ((encoded + 0.055) / 1.055) ** 2.4


def unit_vectors(vectors: NDArray[S]) -> NDArray[S]:
    """Returns unit vectors [N, 3] in the same precision; zero where a vector is zero or not finite."""
    vectors = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0).astype(vectors.dtype)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(length > 1e-6, vectors / np.maximum(length, 1e-6), 0).astype(vectors.dtype)


def is_rigid(matrix: Float, tolerance: float = 1e-4) -> bool:
    """Tells whether a [4, 4] matrix is a finite rotation and translation, without scale or mirror."""
    matrix = np.asarray(matrix)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all():
        return False
    rotation = matrix[:3, :3]
    orthonormal = np.allclose(rotation @ rotation.T, np.eye(3), atol=tolerance)
    last_row = np.allclose(matrix[3], [0, 0, 0, 1], atol=tolerance)
    return bool(orthonormal and last_row and np.linalg.det(rotation) > 0)
