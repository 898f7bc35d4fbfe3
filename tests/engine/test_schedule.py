"""A fit's clock: straight to the end, or early to it after a plateau; and what a plateau is."""

from __future__ import annotations

import pytest

from splat_engine.fit.schedule import ASIDE_MIN, LOOKS, PATIENCE, VIEWS_MIN, Plateau, Schedule, views_aside


def test_the_clock_of_a_fit_that_takes_all_its_steps() -> None:
    """It goes from 0 at the first step to 1 at the last, and no further."""
    schedule = Schedule(101)
    assert [schedule.share(step) for step in (1, 51, 101, 500)] == pytest.approx([0, 0.5, 1, 1])
    assert schedule.last_step == 101 and not schedule.is_finishing
    assert Schedule(0).last_step == 0 and Schedule(1).share(1) == 0


def test_a_plateau_brings_the_end_near() -> None:
    """The clock goes on from where it was, without a leap, and reaches 1 after a quarter of the steps made so far."""
    schedule = Schedule(1001)
    before = schedule.share(401)
    schedule.plateau_step = 400
    assert schedule.is_finishing and schedule.last_step == 500
    assert before == 0.4 and schedule.share(400) == pytest.approx(0.399)
    shares = [schedule.share(step) for step in range(400, 501)]
    assert shares[-1] == 1 and all(0 < b - a < 0.01 for a, b in zip(shares, shares[1:], strict=False))


def test_without_a_plateau_the_last_phase_changes_nothing() -> None:
    """It begins where its length ends at the last step, and the clock goes as if it were not there."""
    plain, schedule = Schedule(1000), Schedule(1000)
    schedule.plateau_step = schedule.finishing_step
    assert schedule.plateau_step == 800 and schedule.last_step == 1000
    for step in (1, 799, 800, 801, 900, 1000):
        assert schedule.share(step) == pytest.approx(plain.share(step), abs=1e-3)


def test_a_plateau_is_a_gain_too_small_for_long_enough() -> None:
    """Not while the best look rises, nor after one bad look; but when a tenth of the steps brought less than asked."""
    plateau = Plateau(steps=1000, gain_db=0.1)
    assert [step for step in range(1, 101) if plateau.is_due(step)] == [25, 50, 75, 100]
    assert LOOKS == 40 and PATIENCE == 4
    rising = [20.0, 21.0, 22.0, 21.5, 22.2, 22.3, 22.4, 22.5]
    assert not any(plateau.add(seen_db) for seen_db in rising)
    assert [plateau.add(seen_db) for seen_db in (22.45, 22.42, 22.3, 22.54)] == [False, False, False, True]


def test_a_plateau_goes_on_from_what_was_seen() -> None:
    """Saved and loaded, it decides as if it had never stopped."""
    seen_db = [20.0, 20.01, 20.0, 20.02]
    first, second = Plateau(1000, 0.1), Plateau(1000, 0.1)
    for value in seen_db:
        first.add(value)
    second.load_state_dict(first.state_dict())
    assert first.add(20.03) and second.add(20.03)
    assert not Plateau(1000, 0.1).add(20.03)


def test_views_aside_are_few_and_spread() -> None:
    """A share of the views, at least three, from all over; none where each view counts."""
    assert views_aside(VIEWS_MIN - 1, 0.05) == []
    assert views_aside(VIEWS_MIN, 0.05) == [2, 6, 10] and ASIDE_MIN == 3
    chosen = views_aside(200, 0.05)
    assert len(chosen) == 10 and all(0 <= number < 200 for number in chosen)
    assert {b - a for a, b in zip(chosen, chosen[1:], strict=False)} == {20}
