"""The cloud in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats.splats import ARRAY_NAMES, Splats
from tests.formats.strategies import random_splats


def arrays(**changes: Any) -> dict[str, Any]:
    """Returns the arrays of two splats of degree 1."""
    splats = random_splats(2, 1)
    return {**{name: getattr(splats, name) for name in ARRAY_NAMES}, **changes}


def test_lists_and_doubles_become_contiguous_float32() -> None:
    """What native code reads by address is always laid out the same."""
    splats = Splats(**arrays(means=[[0, 1, 2], [3, 4, 5]], sh=np.zeros((4, 3, 2)).T.swapaxes(1, 2)))
    for name in ARRAY_NAMES:
        array = getattr(splats, name)
        assert array.dtype == np.float32 and array.flags.c_contiguous


@pytest.mark.parametrize(
    "changes",
    [
        {"means": np.zeros((2, 2))},
        {"means": np.zeros(6)},
        {"means": 3.0},
        {"log_scales": np.zeros((3, 3))},
        {"quats_wxyz": np.zeros((2, 3))},
        {"opacity_logits": np.zeros((2, 1))},
        {"sh": np.zeros((2, 3))},
        {"sh": np.zeros((2, 4, 4))},
        {"sh": np.zeros((1, 4, 3))},
        {"sh": np.zeros((2, 5, 3))},
    ],
)
def test_shapes_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    """With what was expected and what was got."""
    with pytest.raises(ValueError, match=r"must (have shape|be 1, 4, 9 or 16)"):
        Splats(**arrays(**changes))


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_an_empty_cloud_is_a_cloud(degree: int) -> None:
    """N = 0: every method gives empty arrays of the right shape."""
    empty = Splats.empty(degree)
    assert len(empty) == 0 and empty.sh_degree == degree
    assert empty.finite().shape == empty.opacities().shape == (0,) and empty.scales().shape == (0, 3)
    for index in ([], np.zeros(0, bool), np.zeros(0, int)):
        assert len(empty.select(index)) == 0
    assert empty.with_sh_degree(3).sh.shape == (0, 16, 3)


@given(st.lists(st.integers(-5, 4), max_size=8))
def test_selection_takes_every_array_in_order(index: list[int]) -> None:
    """Index lists, the empty one too, repeated and negative indices."""
    splats = random_splats(5, 1)
    splats.metadata = {"formation": "blender"}
    chosen = splats.select(index)
    assert len(chosen) == len(index) and chosen.metadata == splats.metadata
    for row, source in enumerate(index):
        for name in ARRAY_NAMES:
            np.testing.assert_array_equal(getattr(chosen, name)[row], getattr(splats, name)[source])


def test_selection_by_mask_and_its_independence() -> None:
    """A mask keeps order; the copy's metadata is its own."""
    splats = random_splats(3, 0)
    chosen = splats.select([True, False, True])
    np.testing.assert_array_equal(chosen.means, splats.means[[0, 2]])
    chosen.metadata["a"] = "b"
    assert not splats.metadata


@given(st.integers(0, 3), st.integers(0, 3))
def test_degrees_are_cut_or_filled_with_zeros(before: int, after: int) -> None:
    """What both have is kept."""
    splats = random_splats(2, before)
    changed = splats.with_sh_degree(after)
    kept = (min(before, after) + 1) ** 2
    assert changed.sh_degree == after
    np.testing.assert_array_equal(changed.sh[:, :kept], splats.sh[:, :kept])
    assert not changed.sh[:, kept:].any()
    np.testing.assert_array_equal(changed.means, splats.means)


@pytest.mark.parametrize("name", ARRAY_NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_number_anywhere_marks_its_splat(name: str, value: float) -> None:
    """And no other."""
    splats = random_splats(3, 3)
    getattr(splats, name)[1, ...].reshape(-1)[...] = value
    assert splats.finite().tolist() == [True, False, True]


def test_a_rotation_of_norm_zero_is_marked() -> None:
    """Denormal ones are small, but rotations."""
    splats = random_splats(3, 0)
    splats.quats_wxyz[0] = 0
    splats.quats_wxyz[1] = 1e-30
    assert splats.finite().tolist() == [False, True, True]


@given(st.floats(-1e30, 1e30))
def test_opacities_are_the_logistic_function(logit: float) -> None:
    """For any logit, without overflow."""
    splats = Splats(**arrays(opacity_logits=[logit, -logit]))
    with np.errstate(all="raise", under="ignore"):
        first, second = splats.opacities()
    expected = 1 / (1 + np.exp(-min(max(logit, -700.0), 700.0)))
    assert first == pytest.approx(expected, abs=1e-7)
    assert first + second == pytest.approx(1, abs=1e-6) and 0 <= first <= 1


def test_scales_are_exponentials() -> None:
    """Infinite where float32 ends, without a warning."""
    splats = Splats(**arrays(log_scales=[[0, 1, -1], [1000, -1000, 2]]))
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(splats.scales(), [[1, np.e, 1 / np.e], [np.inf, 0, np.e**2]], rtol=1e-6)


def test_object_indices_go_with_their_splats() -> None:
    """A selection and another degree keep each splat's index and all names; without indices there are none."""
    splats = Splats(**arrays(), object_indices=[2, 0], object_names=("Cube", "Floor"))
    assert splats.object_indices is not None and splats.object_indices.dtype == np.int32
    chosen = splats.select([1, 0, 0]).with_sh_degree(3)
    assert chosen.object_indices is not None and chosen.object_indices.tolist() == [0, 2, 2]
    assert chosen.object_names == ("Cube", "Floor")
    assert Splats(**arrays()).select([0]).object_indices is None


@pytest.mark.parametrize("indices", [[0], [[0, 1]], [0, 2], [-1, 1]])
def test_object_indices_without_a_splat_or_a_name_are_refused(indices: list[Any]) -> None:
    """Each splat has one index, and each index but 0 a name."""
    with pytest.raises(ValueError, match="object_indices must"):
        Splats(**arrays(), object_indices=indices, object_names=("Cube",))
