"""A fit's clock: straight to the end, or in stages of twice the length, each of which may be the last."""

from __future__ import annotations

import pytest

from splat_engine.fit.schedule import ASIDE_MIN, RESTART, SETTLING, VIEWS_MIN, Schedule, views_aside


def test_the_clock_of_a_fit_that_takes_all_its_steps() -> None:
    """It goes from 0 at the first step to 1 at the last, and no further; the number of splats is the strategy's alone."""
    schedule = Schedule(101)
    assert [schedule.share(step) for step in (1, 51, 101, 500)] == pytest.approx([0, 0.5, 1, 1])
    assert schedule.last_step == 101 and schedule.may_densify(101)
    assert not any(schedule.is_stage_end(step) for step in range(102))
    assert Schedule(0).last_step == 0 and Schedule(1).share(1) == 0


def test_stages_double_the_steps() -> None:
    """Each stage ends with the clock at 1; the next begins in the middle, and new splats come in its first part alone."""
    schedule = Schedule(800, in_stages=True)
    assert schedule.stage_ends == [100, 200, 400, 800]
    assert [step for step in range(1, 801) if schedule.is_stage_end(step)] == [100, 200, 400]
    assert [schedule.share(step) for step in (1, 100, 200, 400, 800)] == pytest.approx([0, 1, 1, 1, 1])
    assert [schedule.share(step) for step in (101, 201, 401)] == pytest.approx([RESTART] * 3)
    assert all(schedule.may_densify(step) == (schedule.share(step) <= SETTLING) for step in range(1, 801))
    assert schedule.may_densify(60) and not schedule.may_densify(100) and schedule.may_densify(101)


@pytest.mark.parametrize("steps", range(1, 20))
def test_stages_of_few_steps(steps: int) -> None:
    """However short, stages end in order and the last with the last step."""
    schedule = Schedule(steps, in_stages=True)
    assert schedule.stage_ends == sorted(set(schedule.stage_ends)) and schedule.stage_ends[-1] == steps
    assert all(0 <= schedule.share(step) <= 1 for step in range(1, steps + 1))


def test_a_plateau_ends_the_fit_with_a_short_last_phase() -> None:
    """A tenth of the steps made so far, with low rates that fall to their end, and no new splats."""
    schedule = Schedule(800, in_stages=True)
    schedule.plateau_step = 200
    assert schedule.last_step == 220 and schedule.all_views_from == 200
    assert schedule.share(200) == 1 and schedule.share(201) == pytest.approx(0.8)
    assert schedule.share(220) == 1 and not schedule.may_densify(210)
    assert not schedule.is_stage_end(400)


def test_without_a_plateau_all_views_are_learned_from_at_the_end() -> None:
    """The last eleventh of the steps, a tenth of those before it."""
    schedule = Schedule(1100, in_stages=True)
    assert schedule.all_views_from == 1000 and schedule.last_step == 1100


def test_views_aside_are_few_and_spread() -> None:
    """A share of the views, at least three, from all over; none where each view counts."""
    assert views_aside(VIEWS_MIN - 1, 0.05) == []
    assert views_aside(VIEWS_MIN, 0.05) == [2, 6, 10] and ASIDE_MIN == 3
    chosen = views_aside(200, 0.05)
    assert len(chosen) == 10 and all(0 <= number < 200 for number in chosen)
    assert {b - a for a, b in zip(chosen, chosen[1:], strict=False)} == {20}
