"""addon.display.curve_picture: the course of a fit as pixels, and no more often than it is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from addon.display.curve_picture import LOSS_COLOR, PSNR_COLOR, CurveIcon, draw_curve


def rows_of(picture: np.ndarray, color: tuple) -> np.ndarray:
    """Returns for each column the mean row of what has a colour; not a number where nothing has."""
    near = (np.abs(picture - np.array(color, np.float32)).max(axis=2) < 0.02).astype(float)
    rows = np.arange(picture.shape[0])[:, None]
    with np.errstate(invalid="ignore"):
        mean: np.ndarray = (near * rows).sum(axis=0) / near.sum(axis=0)
    return mean


def test_loss_falls_and_psnr_rises() -> None:
    """Each line goes through the whole width, in its own colour, the way its numbers go."""
    points = [(step, 0.5 * 0.97**step, 10 + 0.2 * step) for step in range(1, 80)]
    picture = draw_curve(points)
    assert picture.shape == (160, 160, 4) and picture.dtype == np.float32
    assert picture.min() >= 0 and picture.max() <= 1 and (picture[..., 3] == 1).all()
    loss, psnr = rows_of(picture, LOSS_COLOR), rows_of(picture, PSNR_COLOR)
    for rows, sign in ((loss, -1), (psnr, 1)):
        good = np.isfinite(rows)
        assert good[8:-8].mean() > 0.9
        assert sign * (rows[good][-1] - rows[good][0]) > 100


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(0, 0.1, 20.0)],
        [(0, 0.1, 20.0), (10, 0.1, 20.0)],
        [(0, 0.0, float("nan")), (5, float("inf"), 20.0), (9, 0.1, 21.0)],
        [(5, 0.1, 20.0), (5, 0.2, 21.0)],
    ],
)
def test_odd_curves_are_drawn(points: list) -> None:
    """None, one point, a level line, what is no number, and two points at one step make a picture and no error."""
    assert np.isfinite(draw_curve(points)).all()


def test_a_steep_line_has_no_holes() -> None:
    """A jump within a column is drawn from its foot to its top."""
    picture = draw_curve([(0, 1.0, 10.0), (500, 1.0, 10.0), (501, 1.0, 40.0), (1000, 1.0, 40.0)])
    near = np.abs(picture - np.array(PSNR_COLOR, np.float32)).max(axis=2) < 0.02
    assert near.sum(axis=0).max() > 120


def test_it_is_drawn_at_most_once_a_second_and_only_for_news() -> None:
    """The same curve is not drawn again; a new one when a second has passed."""
    now_s = [0.0]
    icon = CurveIcon(lambda: now_s[0])
    points = [(1, 0.1, 20.0), (2, 0.1, 20.0)]
    icon.of(points)
    icon.of(points)
    assert icon.pictures == 1
    now_s[0] = 0.5
    icon.of([*points, (3, 0.1, 20.0)])
    assert icon.pictures == 1
    now_s[0] = 1.1
    icon.of([*points, (3, 0.1, 20.0)])
    now_s[0] = 9.0
    icon.of([*points, (3, 0.1, 20.0)])
    assert icon.pictures == 2
    icon.free()
