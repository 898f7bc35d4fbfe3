"""The count follows the curve, up and down; scores say where."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.budget import Budget, chosen_views
from splat_engine.fit.strategies.gradient import GRADIENT_SUM
from splat_engine.formats.settings import DensifySettings
from tests.engine.strategy_scenes import around, no_splats, picture, state_of, view_of
from tests.engine.tiny_capture import ring_cameras

STEPS = range(10, 701, 10)


def views_of(state: SplatState) -> list[Any]:
    return [view_of(state, camera) for camera in ring_cameras(3)]


def budget(views: list[Any], max_splats: int, **settings: Any) -> Budget:
    declared = DensifySettings(**{"start": 10, "interval": 100, "stop_share": 0.7, "looks": 3, **settings})
    return Budget(declared, around(views, max_splats=max_splats))


def run(strategy: Budget, state: SplatState) -> list[int]:
    """Takes the strategy through a fit in which every splat has the same gradient; returns the counts at its moments."""
    counts = []
    for step in STEPS:
        gradient = torch.ones(len(state), 2)
        strategy.after_backward(step, state, gradient, gradient, (20, 20))
        changed = strategy.after_step(step, state, torch.Generator().manual_seed(step))
        assert changed <= strategy.moments.is_now(step)
        if strategy.moments.is_now(step):
            counts.append(len(state))
    return counts


@pytest.mark.parametrize(("first", "most"), [(40, 110), (40, 12)])
def test_the_count_follows_the_curve(first: int, most: int) -> None:
    """From 40 splats to more, and to fewer where the start holds too many; along one parabola."""
    state, target = state_of(first), state_of(60)
    counts = run(budget(views_of(target), most), state)
    assert counts == pytest.approx([most - (most - first) * (1 - n / 7) ** 2 for n in range(1, 8)], abs=8)
    assert counts[-1] == most == len(state)


def test_what_goes_is_what_shows_least() -> None:
    """Of splats of which a quarter lies out of sight, that quarter goes first, and the picture stays as it was."""
    state = state_of(40)
    views = views_of(state)
    state.params["means"][::4, 2] += 500
    before = picture(state)
    run(budget(views, 30, start=700), state)
    numbers = state.buffers["number"].int().tolist()
    assert numbers == [number for number in range(40) if number % 4]
    assert before.max() > 0.5
    torch.testing.assert_close(picture(state), before, rtol=0, atol=1e-6)


def test_growth_is_where_the_error_is() -> None:
    """Splats that draw what is wrong are cloned and split; of those that draw the right thing only few are."""
    state, target = state_of(40), state_of(40)
    wrong = state.params["means"][:, 0] > 0.2
    target.params["sh"][wrong, 0] -= 1.5
    cameras = ring_cameras(8)
    strategy = budget([view_of(target, cameras[number]) for number in range(8)], 48, start=700, looks=8)
    run(strategy, state)
    numbers, counts = state.buffers["number"].long().unique(return_counts=True)
    grown = numbers[counts > 1]
    assert len(grown) >= 4 and wrong[grown].float().mean() >= 0.75 > wrong.float().mean() + 0.2


def test_it_forgets_and_ends() -> None:
    """The sums begin anew after each moment; after the last nothing changes; N = 0 stays."""
    state = state_of(20)
    strategy = budget(views_of(state_of(30)), 40)
    run(strategy, state)
    assert len(state) == 40 and not state.buffers[GRADIENT_SUM].any()
    before = {name: value.clone() for name, value in state.params.items()}
    strategy.after_backward(800, state, torch.ones(40, 2), torch.ones(40, 2), (20, 20))
    assert not strategy.after_step(800, state, torch.Generator()) and not state.buffers[GRADIENT_SUM].any()
    assert all(torch.equal(state.params[name], value) for name, value in before.items())
    nothing = no_splats()
    assert not any(run(strategy, nothing)) and len(nothing) == 0


def test_views_are_drawn_without_replacement() -> None:
    """Each at most once, all of them where there are few; none of none."""
    generator = torch.Generator().manual_seed(0)
    assert len(set(chosen_views(9, 4, generator))) == 4 and max(chosen_views(9, 4, generator)) < 9
    assert sorted(chosen_views(3, 8, generator)) == [0, 1, 2] and chosen_views(0, 8, generator) == []
