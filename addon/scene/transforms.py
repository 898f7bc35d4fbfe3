"""Moving, turning and stretching splats, their view-dependent colour included; numpy alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from splat_engine.formats.conventions import SH_C0, Float, sh_count
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats

_SINGULAR = 1e-12


def transform(splats: Splats, matrix: Float) -> Splats:
    """Returns splats as an affine map of space leaves them.

    Centres and covariances are mapped exactly, also under stretch, shear and mirror. The SH are
    turned with the orthogonal part of the map: exact for turned, moved, uniformly scaled and mirrored
    splats; a stretch bends the colour's directions in a way that SH of the same degree cannot hold.

    Args:
        splats: The cloud.
        matrix: [4, 4] world_from_object.

    Raises:
        UserError: The matrix is not finite, or flattens space.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    linear = matrix[:3, :3]
    finite = bool(np.isfinite(matrix).all())
    if not finite or abs(np.linalg.det(linear)) <= _SINGULAR * np.abs(linear).max() ** 3:
        raise UserError(
            "The object's transform flattens it or is not finite.", "Give it a scale other than zero."
        )
    if np.array_equal(matrix, np.eye(4)):
        return splats
    quats, log_scales = _map_covariances(splats, linear)
    left, _, right = np.linalg.svd(linear)
    return replace(
        splats,
        means=(splats.means @ linear.T + matrix[:3, 3]).astype(np.float32),
        log_scales=log_scales.astype(np.float32),
        quats_wxyz=quats.astype(np.float32),
        sh=rotate_sh(splats.sh, left @ right).astype(np.float32),
        metadata=dict(splats.metadata),
    )


def _map_covariances(splats: Splats, linear: Float) -> tuple[Float, Float]:
    """Returns quaternions and log-scales of A R S S^T R^T A^T.

    A similarity keeps every splat's own axes and order of scales; other maps need a decomposition
    for each splat: the left singular vectors of A R S are the new axes, its singular values the scales.
    """
    scale = np.cbrt(abs(np.linalg.det(linear)))
    orthogonal = linear / scale
    if np.allclose(orthogonal @ orthogonal.T, np.eye(3), atol=1e-6):
        turn = orthogonal if np.linalg.det(orthogonal) > 0 else -orthogonal
        return multiply_quats(quat_of(turn), splats.quats_wxyz), splats.log_scales + math.log(scale)
    axes = rotations_of(splats.quats_wxyz) * np.exp(splats.log_scales.astype(np.float64))[:, None, :]
    left, singular, _ = np.linalg.svd(linear @ axes)
    left[np.linalg.det(left) < 0, :, 2] *= -1
    return quats_of(left), np.log(np.maximum(singular, np.finfo(np.float32).tiny))


def rotations_of(quats_wxyz: Float) -> Float:
    """Returns [N, 3, 3] rotation matrices of quaternions [N, 4] of any norm but zero."""
    quats = np.asarray(quats_wxyz, dtype=np.float64)
    w, x, y, z = (quats / np.linalg.norm(quats, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def quats_of(rotations: Float) -> Float:
    """Returns [N, 4] quaternions w x y z of rotation matrices [N, 3, 3].

    Source: I. Y. Bar-Itzhack, "New method for extracting the quaternion from a rotation matrix" (2000),
    in the form of the four candidate rows of 4 q q^T, of which the one with the largest diagonal is used.
    """
    m = np.moveaxis(np.asarray(rotations, dtype=np.float64), 0, 2)
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    a, b, c = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    d, e, f = m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1]
    outer = np.array(
        [
            [1 + trace, a, b, c],
            [a, 1 + 2 * m[0, 0] - trace, d, e],
            [b, d, 1 + 2 * m[1, 1] - trace, f],
            [c, e, f, 1 + 2 * m[2, 2] - trace],
        ]
    )
    best = np.argmax(np.einsum("iin->in", outer), axis=0)
    quats: Float = outer[best, :, np.arange(outer.shape[2])]
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    return quats


def quat_of(rotation: Float) -> Float:
    """Returns the quaternion [4] of one rotation matrix [3, 3]."""
    quat: Float = quats_of(np.asarray(rotation)[None])[0]
    return quat


def multiply_quats(left_wxyz: Float, right_wxyz: Float) -> Float:
    """Returns the Hamilton product of a quaternion [4] with quaternions [N, 4]: first right, then left."""
    w, x, y, z = np.asarray(left_wxyz, dtype=np.float64)
    matrix = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    product: Float = np.asarray(right_wxyz) @ matrix.T
    return product


def sh_basis(directions: Float, degree: int) -> Float:
    """Returns [M, K] real spherical harmonics of unit directions [M, 3], in the order of the PLY format.

    Source: Sloan, "Efficient Spherical Harmonic Evaluation" (2013), with the signs of 3D Gaussian
    Splatting (Condon-Shortley phase included).
    """
    x, y, z = np.asarray(directions, dtype=np.float64).T
    one = np.ones_like(x)
    pi = math.pi
    c1 = math.sqrt(3 / (4 * pi))
    basis = [SH_C0 * one, -c1 * y, c1 * z, -c1 * x]
    c2 = math.sqrt(15 / pi) / 2
    basis += [c2 * x * y, -c2 * y * z, math.sqrt(5 / pi) / 4 * (3 * z * z - 1), -c2 * x * z]
    basis += [c2 / 2 * (x * x - y * y)]
    c30, c31 = math.sqrt(7 / pi) / 4, math.sqrt(21 / (2 * pi)) / 4
    c32, c33 = math.sqrt(105 / pi) / 4, math.sqrt(35 / (2 * pi)) / 4
    basis += [-c33 * y * (3 * x * x - y * y), 2 * c32 * x * y * z, -c31 * y * (5 * z * z - 1)]
    basis += [c30 * z * (5 * z * z - 3), -c31 * x * (5 * z * z - 1), c32 * z * (x * x - y * y)]
    basis += [-c33 * x * (x * x - 3 * y * y)]
    return np.stack(basis[: sh_count(degree)], axis=1)


def sh_rotation(orthogonal: Float, degree: int) -> Float:
    """Returns [K, K], the matrix that turns SH coefficients with space.

    With coefficients c of a function f, ``matrix @ c`` are those of g(Q d) = f(d). Bands do not mix;
    each band's block is found from the basis at more directions than it has functions. The function
    space of a band is closed under rotation and mirroring, so the solution is exact.

    Args:
        orthogonal: [3, 3] rotation, or rotation and mirror.
        degree: 0 to 3.
    """
    count = 64
    height = 1 - (2 * np.arange(count) + 1) / count
    angle_rad = np.arange(count) * math.pi * (3 - math.sqrt(5))
    around = np.sqrt(1 - height**2)
    directions = np.stack([around * np.cos(angle_rad), around * np.sin(angle_rad), height], axis=1)
    before = sh_basis(directions, degree)
    after = sh_basis(directions @ np.asarray(orthogonal).T, degree)
    matrix = np.zeros((sh_count(degree), sh_count(degree)))
    for band in range(degree + 1):
        block = slice(band * band, (band + 1) ** 2)
        matrix[block, block] = np.linalg.lstsq(after[:, block], before[:, block], rcond=None)[0]
    return matrix


def rotate_sh(sh: Float, orthogonal: Float) -> Float:
    """Returns SH coefficients [N, K, 3] after space is turned by an orthogonal matrix [3, 3]."""
    degree = math.isqrt(sh.shape[1]) - 1
    if degree == 0 or np.allclose(orthogonal, np.eye(3), atol=1e-12):
        return sh
    matrix = sh_rotation(orthogonal, degree).astype(sh.dtype)
    turned: Float = np.moveaxis(np.tensordot(matrix, sh, axes=(1, 1)), 0, 1)
    return turned
