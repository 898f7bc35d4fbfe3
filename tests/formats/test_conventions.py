"""Colour curves, SH counts and rigid transforms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from splat_engine.formats import conventions
from splat_engine.formats.conventions import is_rigid, linear_from_srgb, sh_count, sh_degree, srgb_from_linear
from tests.formats.strategies import poses


@given(st.floats(0, 1e4))
def test_the_curve_and_its_inverse_cancel(value: float) -> None:
    """Both ways round, also above 1, where the curve simply goes on."""
    assert linear_from_srgb(srgb_from_linear(np.array(value))) == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert srgb_from_linear(linear_from_srgb(np.array(value))) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_the_curve_has_its_published_values() -> None:
    """IEC 61966-2-1: 0.5 encoded is 0.2140 linear, 0.18 linear is 0.4613 encoded; the ends are fixed."""
    np.testing.assert_allclose(
        linear_from_srgb(np.array([0, 0.04045, 0.5, 1])), [0, 0.0031308, 0.2140411, 1], atol=1e-7
    )
    np.testing.assert_allclose(srgb_from_linear(np.array([0, 0.18, 1])), [0, 0.4613561, 1], atol=1e-7)


@given(st.floats(-1e6, -1e-9))
def test_negative_light_is_black(value: float) -> None:
    """The curve is not continued below zero."""
    assert srgb_from_linear(np.array(value)) == 0 and linear_from_srgb(np.array(value)) == 0


@given(st.lists(st.floats(0, 100), min_size=2, max_size=9))
def test_the_curve_keeps_order(values: list[float]) -> None:
    """It is monotonic over its seam."""
    assert (np.diff(srgb_from_linear(np.sort(values))) >= -1e-9).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_curve_keeps_the_type(dtype: type) -> None:
    """float32 in, float32 out: 1 M points do not double in memory."""
    assert srgb_from_linear(np.zeros((2, 3), dtype)).dtype == dtype
    assert linear_from_srgb(np.zeros((2, 3), dtype)).dtype == dtype


def test_sh_counts_and_degrees_are_inverse() -> None:
    """Degrees 0 to 3 have 1, 4, 9, 16 coefficients."""
    assert [sh_count(degree) for degree in range(4)] == [1, 4, 9, 16]
    assert [sh_degree(count) for count in (1, 4, 9, 16)] == [0, 1, 2, 3]


@pytest.mark.parametrize("degree", [-1, 4, 100])
def test_other_degrees_are_refused(degree: int) -> None:
    """Blender draws no more than degree 3."""
    with pytest.raises(ValueError, match="0 to 3"):
        sh_count(degree)


@pytest.mark.parametrize("count", [0, 2, 15, 25])
def test_other_counts_are_refused(count: int) -> None:
    """A count between two degrees is a mistake."""
    with pytest.raises(ValueError, match="1, 4, 9 or 16"):
        sh_degree(count)


def test_the_constant_basis_function_integrates_to_one() -> None:
    """Y_0^0 squared over the sphere is 1."""
    assert conventions.SH_C0**2 * 4 * np.pi == pytest.approx(1, abs=1e-15)


@given(poses())
def test_rigid_poses_are_known_and_turning_axes_keeps_them(pose: NDArray[np.float64]) -> None:
    """OpenCV and OpenGL axes differ by a rotation that is its own inverse."""
    turned = pose @ conventions.OPENGL_FROM_OPENCV
    assert is_rigid(pose) and is_rigid(turned)
    np.testing.assert_array_equal(turned @ conventions.OPENGL_FROM_OPENCV, pose)


@given(poses(), st.sampled_from(["scale", "mirror", "shear", "zero", "nan", "inf", "row", "shape"]))
def test_what_is_not_rigid_is_known(pose: NDArray[np.float64], fault: str) -> None:
    """Scale, mirror, shear, a singular or non-finite matrix, a projective row, another shape."""
    if fault == "scale":
        pose[:3, :3] *= 1.01
    elif fault == "mirror":
        pose[:3, 0] *= -1
    elif fault == "shear":
        pose[:3, 0] += 0.1 * pose[:3, 1]
    elif fault == "zero":
        pose[:3, 2] = 0
    elif fault in ("nan", "inf"):
        pose[1, 3] = float(fault)
    elif fault == "row":
        pose[3, 3] = 2
    else:
        pose = pose[:3]
    assert not is_rigid(pose)
