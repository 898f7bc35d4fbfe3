"""addon.scene.transforms: splats under affine maps, and SH under rotation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.scene import transforms
from splat_engine.formats.conventions import sh_count
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud

quaternions = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda q: np.linalg.norm(q) > 0.1)


def covariances(splats: Splats) -> np.ndarray:
    axes = transforms.rotations_of(splats.quats_wxyz) * np.exp(splats.log_scales.astype(float))[:, None, :]
    return axes @ axes.transpose(0, 2, 1)


def placed(linear: np.ndarray, offset: tuple[float, ...] = (1.0, -2.0, 3.0)) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3] = linear
    matrix[:3, 3] = offset
    return matrix


def unit_directions(count: int, seed: int) -> np.ndarray:
    directions = np.random.default_rng(seed).normal(size=(count, 3))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


@given(quaternions, st.sampled_from([1.0, -1.0]), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_turned_sh_give_the_same_colour_in_turned_directions(quaternion, sign, degree):
    """g(Q d) = f(d) for rotations and mirrors Q, of every degree."""
    orthogonal = sign * transforms.rotations_of(np.array([quaternion]))[0]
    sh = np.random.default_rng(1).normal(size=(5, sh_count(degree), 3))
    turned = transforms.rotate_sh(sh, orthogonal)
    directions = unit_directions(40, seed=2)
    before = np.einsum("mk,nkc->nmc", transforms.sh_basis(directions, degree), sh)
    after = np.einsum("mk,nkc->nmc", transforms.sh_basis(directions @ orthogonal.T, degree), turned)
    np.testing.assert_allclose(after, before, atol=1e-10)
    assert np.abs(before).max() > 0.1


def test_sh_rotation_is_orthogonal_and_composes():
    """The matrices are a representation: M(A B) = M(A) M(B), and M of a rotation is orthogonal."""
    a, b = transforms.rotations_of(np.random.default_rng(3).normal(size=(2, 4)))
    first, second = transforms.sh_rotation(a, 3), transforms.sh_rotation(b, 3)
    np.testing.assert_allclose(transforms.sh_rotation(a @ b, 3), first @ second, atol=1e-12)
    np.testing.assert_allclose(first @ first.T, np.eye(16), atol=1e-12)


def test_basis_is_orthonormal_on_the_sphere():
    """The integral of Y_i Y_j over the sphere is 1 where i = j, else 0 (Gauss-Legendre and trapezoid)."""
    z, weights = np.polynomial.legendre.leggauss(8)
    angles = np.arange(16) * 2 * np.pi / 16
    radius = np.sqrt(1 - z**2)
    x, y = np.outer(radius, np.cos(angles)), np.outer(radius, np.sin(angles))
    points = np.stack([x, y, np.repeat(z[:, None], 16, axis=1)], axis=2).reshape(-1, 3)
    basis = transforms.sh_basis(points, 3)
    weight = np.repeat(weights, 16) * 2 * np.pi / 16
    np.testing.assert_allclose(basis.T @ (basis * weight[:, None]), np.eye(16), atol=1e-12)


@given(quaternions)
@settings(max_examples=100, deadline=None)
def test_quaternion_and_matrix_agree(quaternion):
    """A quaternion survives the way through its matrix, up to norm and sign."""
    unit = np.array(quaternion) / np.linalg.norm(quaternion)
    back = transforms.quat_of(transforms.rotations_of(unit[None])[0])
    assert abs(abs(back @ unit) - 1) < 1e-12


@pytest.mark.parametrize("kind", ["turn", "similar", "mirror", "stretch", "shear"])
def test_affine_maps_move_centres_and_covariances(kind):
    """x -> A x + t maps each centre so, and each covariance to A C A^T."""
    turn = transforms.rotations_of(np.array([[0.3, -0.5, 0.7, 0.2]]))[0]
    linear = {
        "turn": turn,
        "similar": 2.5 * turn,
        "mirror": turn @ np.diag([-1.0, 1.0, 1.0]),
        "stretch": turn @ np.diag([0.2, 1.0, 4.0]),
        "shear": turn @ np.array([[1.0, 0.7, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 1.0]]),
    }[kind]
    splats = cloud()
    moved = transforms.transform(splats, placed(linear))
    np.testing.assert_allclose(moved.means, splats.means @ linear.T + [1, -2, 3], atol=1e-5)
    expected = linear @ covariances(splats) @ linear.T
    np.testing.assert_allclose(covariances(moved), expected, atol=2e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(moved.opacity_logits, splats.opacity_logits)
    assert moved.metadata == splats.metadata


def test_identity_changes_nothing():
    """The identity gives back the very same cloud."""
    splats = cloud()
    assert transforms.transform(splats, np.eye(4)) is splats


def test_there_and_back():
    """A turn, move and uniform scale undone gives the first splats, colours included."""
    splats = cloud()
    matrix = placed(0.3 * transforms.rotations_of(np.array([[0.9, 0.1, -0.6, 0.3]]))[0])
    back = transforms.transform(transforms.transform(splats, matrix), np.linalg.inv(matrix))
    np.testing.assert_allclose(back.means, splats.means, atol=1e-5)
    np.testing.assert_allclose(back.log_scales, splats.log_scales, atol=1e-5)
    np.testing.assert_allclose(back.sh, splats.sh, atol=1e-5)
    np.testing.assert_allclose(covariances(back), covariances(splats), atol=1e-5)


@pytest.mark.parametrize("linear", [np.diag([1.0, 0.0, 1.0]), np.full((3, 3), np.nan), np.zeros((3, 3))])
def test_flattening_transform_is_refused(linear):
    """A transform that flattens space, or is not finite, is an error in words."""
    with pytest.raises(UserError, match="transform"):
        transforms.transform(cloud(), placed(linear))


def test_no_splats():
    """An empty cloud stays one."""
    assert len(transforms.transform(Splats.empty(3), placed(np.diag([1.0, 2.0, 3.0])))) == 0
