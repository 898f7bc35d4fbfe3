"""addon.runs.curve: a long fit is kept in few points, evenly."""

from __future__ import annotations

from addon.runs.curve import POINTS_MAX, CurveKeeper, Point


def test_short_course_is_kept_whole():
    """Below the limit nothing is left out."""
    points: list[Point] = []
    keeper = CurveKeeper(points)
    for step in range(POINTS_MAX):
        keeper.add((step, 1.0, 20.0))
    assert [point[0] for point in points] == list(range(POINTS_MAX))


def test_long_course_stays_short_and_even():
    """However many points come, at most the limit is kept, from the first on, and at even distances."""
    points: list[Point] = []
    keeper = CurveKeeper(points)
    for step in range(10 * POINTS_MAX + 7):
        keeper.add((step, 1.0 / (step + 1), 20.0))
        assert len(points) <= POINTS_MAX
    steps = [point[0] for point in points]
    assert steps[0] == 0 and len({b - a for a, b in zip(steps, steps[1:], strict=False)}) == 1
    assert len(points) >= POINTS_MAX // 2
