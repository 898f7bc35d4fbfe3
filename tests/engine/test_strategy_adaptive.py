"""Clone, split, prune and reset by the gradient on the screen, or by its absolute values."""

from __future__ import annotations

import math

import pytest
import torch

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.adaptive import RESET_OPACITY, AdaptiveDensity
from splat_engine.fit.strategies.children import SPLIT_SHRINK
from splat_engine.fit.strategies.gradient import GRADIENT_SUM, SEEN_COUNT
from splat_engine.formats.settings import DensifySettings
from tests.engine.strategy_scenes import around, no_splats, six


def prepared(state: SplatState, gradients: list[float]) -> SplatState:
    """Gives each splat a mean screen-space gradient, as if seen in 4 steps."""
    state.buffers[GRADIENT_SUM] = torch.tensor(gradients) * 4
    state.buffers[SEEN_COUNT] = torch.full((len(gradients),), 4.0)
    return state


def adaptive(
    max_splats: int = 100, steps: int = 1000, absolute: bool = False, **settings: object
) -> AdaptiveDensity:
    declared = DensifySettings(
        start=10, interval=10, gradient=0.1, split_size=0.05, prune_size=1.0, **settings
    )  # type: ignore[arg-type]
    return AdaptiveDensity(declared, around([], steps=steps, max_splats=max_splats), absolute=absolute)


def test_clone_split_and_prune() -> None:
    """High gradient: small splats are cloned, large ones split into two smaller near them; weak and huge ones go."""
    state = prepared(six(), [0.5, 0.01, 0.5, 0.01, 0.5, 0.5])
    means = state.params["means"].clone()
    assert adaptive().after_step(10, state, torch.Generator().manual_seed(0))
    number = state.buffers["number"].int().tolist()
    assert number == [0, 1, 3, 0, 2, 2]  # kept, then the clone, then the split ones
    scales = state.params["log_scales"].exp()[:, 0]
    torch.testing.assert_close(
        scales, torch.tensor([0.01, 0.02, 0.4, 0.01, 0.3 / SPLIT_SHRINK, 0.3 / SPLIT_SHRINK])
    )
    after = state.params["means"]
    assert torch.equal(after[3], means[0])
    children = after[4:] - means[2]
    assert children.norm(dim=1).min() > 0 and children.norm(dim=1).max() < 4 * 0.3
    assert not torch.equal(children[0], children[1])
    assert not state.moments["means"][0][3:].any() and (state.moments["means"][0][:3] == 1).all()
    assert not state.buffers[GRADIENT_SUM].any() and len(state.buffers[GRADIENT_SUM]) == 6


def test_no_more_than_the_most_splats() -> None:
    """Where room is short the highest gradients win; without room nothing is added."""
    gradients = [0.5, 0.9, 0.6, 0.01, 0.0, 0.0]
    state = prepared(six(), gradients)
    adaptive(max_splats=5).after_step(10, state, torch.Generator())
    assert len(state) == 5 and state.buffers["number"].tolist() == [0, 1, 2, 3, 1]
    state = prepared(six(), gradients)
    adaptive(max_splats=3).after_step(10, state, torch.Generator())
    assert state.buffers["number"].tolist() == [0, 1, 2, 3]


def test_densify_keeps_its_hours() -> None:
    """Nothing before the first step, between intervals, or after the last share of the steps."""
    for step, changes in ((5, False), (10, True), (15, False), (700, True), (710, False)):
        state = prepared(six(), [0.5] * 6)
        assert adaptive(stop_share=0.7).after_step(step, state, torch.Generator()) is changes
        assert (len(state) != 6 or state.buffers["number"].tolist() != list(range(6))) is changes


def test_gradient_is_counted_where_a_splat_is_seen() -> None:
    """The sum is per half image size; steps in which a splat was culled do not count."""
    state, strategy = six(), adaptive()
    gradient = torch.zeros(6, 2)
    gradient[0] = torch.tensor([3e-3, 4e-3])
    radii = torch.ones(6, 2)
    radii[1] = 0
    strategy.after_backward(1, state, gradient, radii, (200, 100))
    strategy.after_backward(2, state, gradient, radii, (200, 100))
    assert state.buffers[GRADIENT_SUM][0].item() == pytest.approx(2 * math.hypot(0.3, 0.2))
    assert state.buffers[SEEN_COUNT].tolist() == [2, 0, 2, 2, 2, 2]
    strategy.after_backward(701, state, gradient, radii, (200, 100))
    assert state.buffers[SEEN_COUNT][0] == 2


def test_opacity_reset() -> None:
    """At its interval every opacity falls to 0.01 at most, and the opacities' moments to zero."""
    state = prepared(six(), [0.0] * 6)
    adaptive(reset_interval=25).after_step(25, state, torch.Generator())
    opacities = torch.sigmoid(state.params["opacity_logits"])
    assert opacities.max().item() == pytest.approx(RESET_OPACITY, rel=1e-4)
    assert opacities[4].item() == pytest.approx(1 / (1 + math.exp(8)))
    assert not state.moments["opacity_logits"][0].any() and state.moments["means"][0].any()


def test_the_absolute_gradient_has_its_own_threshold() -> None:
    """The strategy asks for absolute gradients and compares them with the threshold of that name."""
    for threshold, number in ((0.4, [0, 1, 2, 3, 0]), (0.6, [0, 1, 2, 3])):
        state = prepared(six(), [0.5, 0.01, 0.01, 0.01, 0.5, 0.5])
        strategy = adaptive(absolute=True, absolute_gradient=threshold)
        assert strategy.absolute and not adaptive().absolute
        strategy.after_step(10, state, torch.Generator())
        assert state.buffers["number"].tolist() == number


def test_no_splats_stay_none() -> None:
    """N = 0 is legal."""
    state, strategy = no_splats(), adaptive()
    strategy.after_backward(1, state, torch.zeros(0, 2), torch.zeros(0, 2), (8, 8))
    assert not strategy.after_step(10, state, torch.Generator()) and len(state) == 0
