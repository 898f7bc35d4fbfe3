"""When strategies act, and how many splats are due."""

from __future__ import annotations

import pytest
import torch

from splat_engine.fit.strategies import KeepAll, make_strategy, strategy_of
from splat_engine.fit.strategies.adaptive import AdaptiveDensity
from splat_engine.fit.strategies.base import Moments
from splat_engine.fit.strategies.budget import Budget
from splat_engine.fit.strategies.error import ErrorGrowth
from splat_engine.fit.strategies.mcmc import MarkovChain
from splat_engine.formats.settings import DensifySettings
from tests.engine.strategy_scenes import around, six


def moments(max_splats: int = 1000, **settings: object) -> Moments:
    declared = {"start": 200, "interval": 100, "stop_share": 0.7, **settings}
    return Moments(DensifySettings(**declared), steps=1000, max_splats=max_splats)  # type: ignore[arg-type]


def test_each_name_has_its_strategy() -> None:
    """And only the absolute gradient is asked for as such."""
    fit = around([])
    kinds = {
        "none": (KeepAll, False),
        "auto": (AdaptiveDensity, False),
        "adaptive": (AdaptiveDensity, False),
        "absolute": (AdaptiveDensity, True),
        "mcmc": (MarkovChain, False),
        "budget": (Budget, True),
        "error": (ErrorGrowth, False),
    }
    for name, (kind, absolute) in kinds.items():
        made = make_strategy(name, DensifySettings(), fit)  # type: ignore[arg-type]
        assert type(made) is kind and made.absolute is absolute
    state = six()
    assert not KeepAll().after_step(10, state, torch.Generator()) and len(state) == 6


def test_auto_is_decided_by_the_start() -> None:
    """What covers the surfaces does not grow; a name that was chosen stays."""
    assert strategy_of("auto", is_dense=True) == "none" and strategy_of("auto", is_dense=False) == "adaptive"
    assert strategy_of("mcmc", is_dense=True) == "mcmc"


def test_moments_come_at_their_interval() -> None:
    """From the first step to the last share, both included."""
    made = moments()
    assert [step for step in range(1, 1001) if made.is_now(step)] == [200, 300, 400, 500, 600, 700]
    assert not made.is_over(700) and made.is_over(701)
    odd = moments(start=250, interval=200)
    assert [step for step in range(1, 1001) if odd.is_now(step)] == [400, 600]
    assert [step for step in range(1, 30) if moments(start=0, interval=10).is_now(step)] == [10, 20]


@pytest.mark.parametrize(("first", "most"), [(100, 1000), (0, 7), (5000, 1000), (1000, 1000)])
def test_the_number_comes_to_its_end_along_the_curve(first: int, most: int) -> None:
    """It follows N_max - (N_max - N_0) (1 - t)^2 from any start, up or down, and is exact at the last moment."""
    made, count = moments(most), first
    for number, step in enumerate((200, 300, 400, 500, 600, 700), start=1):
        count = made.due(step, count)
        assert count == pytest.approx(most - (most - first) * (1 - number / 6) ** 2, abs=number)
    assert count == most


def test_what_was_lost_is_made_up_for() -> None:
    """If splats go between two moments, the rest of the way is steeper, and its end the same."""
    made, count = moments(), 100
    for step in (200, 300, 400, 500, 600, 700):
        count = made.due(step, count - 20)
    assert count == 1000
