"""addon.display.picture_icon: what a picture shows fills the square that an icon is."""

import numpy as np
import pytest

from addon.display.picture_icon import framed


def picture(height: int, width: int, rows: slice, columns: slice) -> np.ndarray:
    made = np.zeros((height, width, 4), np.float32)
    made[rows, columns] = (0.25, 0.5, 0.75, 1)
    return made


def test_the_square_lies_around_what_is_shown():
    """With some air on each side, and nothing of it lost."""
    whole = picture(100, 300, slice(40, 60), slice(220, 260))
    found = framed(whole)
    assert found.shape == (50, 50, 4)
    assert found[..., 3].sum() == whole[..., 3].sum()
    rows, columns = (np.nonzero(found[..., 3].any(axis=axis))[0] for axis in (1, 0))
    assert (rows[0], columns[0]) == pytest.approx((15, 5), abs=1)


@pytest.mark.parametrize("corner", [(slice(0, 20), slice(0, 20)), (slice(80, 100), slice(280, 300))])
def test_it_stays_in_the_picture(corner):
    """At an edge the square moves inwards."""
    found = framed(picture(100, 300, *corner))
    assert found.shape[:2] == (25, 25) and found[..., 3].sum() == 400


def test_a_wide_thing_is_not_cut():
    """Where the square is higher than the picture, the picture's height is all there is."""
    found = framed(picture(100, 300, slice(40, 60), slice(50, 250)))
    assert found.shape[:2] == pytest.approx((100, 250), abs=3) and found[..., 3].sum() == 20 * 200


def test_single_splats_far_off_count_for_nothing():
    """A floater in a corner does not make the rest small."""
    whole = picture(100, 300, slice(30, 70), slice(130, 170))
    whole[2, 2, 3] = 1
    assert framed(whole).shape[:2] == (50, 50)


@pytest.mark.parametrize("alpha", [0, 1])
def test_an_empty_or_full_picture_stays_whole(alpha):
    """There is nothing to frame."""
    whole = np.full((60, 90, 4), alpha, np.float32)
    assert framed(whole).shape == whole.shape
