"""Limits on shape and colour, and splats that nobody sees."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from splat_engine.fit.model import SplatState
from splat_engine.fit.tidy import LIMIT_INTERVAL, Tidy, limit_shapes, strays
from splat_engine.formats.settings import TidySettings
from tests.engine.strategy_scenes import around, no_splats, picture, state_of, view_of
from tests.engine.tiny_capture import ring_cameras

OFF = {"aspect": 0.0, "largest": 0.0, "sh_limit": 0.0, "unseen_px": 0.0, "stray": 0.0}


def tidy(state: SplatState, steps: int = 100, **settings: Any) -> Tidy:
    """A fit whose views show what the splats draw."""
    views = [view_of(state, camera) for camera in ring_cameras(4)]
    return Tidy(TidySettings(**{**OFF, **settings}), around(views, steps=steps))


def test_needles_are_shortened_and_discs_are_not() -> None:
    """The longest axis ends at the limit times the middle one; no other axis changes."""
    scales = torch.tensor([[1.0, 0.1, 0.01], [0.01, 0.02, 0.5], [1.0, 0.9, 1e-4], [0.2, 0.2, 0.2]])
    found = scales.log()
    limit_shapes(found, 4.0, 0.0)
    expected = torch.tensor([[0.4, 0.1, 0.01], [0.01, 0.02, 0.08], [1.0, 0.9, 1e-4], [0.2, 0.2, 0.2]])
    torch.testing.assert_close(found.exp(), expected)
    limit_shapes(found, 0.0, 0.15)
    torch.testing.assert_close(found.exp(), expected.clamp_max(0.15))
    untouched = scales.log()
    limit_shapes(untouched, 0.0, 0.0)
    assert torch.equal(untouched, scales.log())


def test_limits_hold_now_and_then_and_after_the_last_step() -> None:
    """Shapes and directional colours; the constant colour is free, since emission is."""
    for step, holds in ((1, False), (LIMIT_INTERVAL, True), (95, True), (94, False)):
        state = state_of(10)
        state.params["sh"][:, 0], state.params["sh"][:, 1], state.params["sh"][:, 2] = 3.0, 2.0, -2.0
        state.params["log_scales"][:] = torch.tensor([2.0, 0.1, 0.1]).log()
        assert not tidy(state, 95, aspect=5.0, largest=0.3, sh_limit=1.0).after_step(
            step, state, is_last=step == 95
        )
        sh, scales = state.params["sh"], state.params["log_scales"].exp()
        assert (sh[:, 0] == 3).all() and scales[:, 1:].max() < 0.11
        assert (sh[:, 1:].abs().max() <= 1) == holds and (scales[:, 0].max() < 0.51) == holds


def test_long_fits_ask_every_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """A splat that one view of a hundred sees stays; a fit of a hundred steps asks fewer views than it has."""
    for steps, stays in ((2000, True), (100, False)):
        state = state_of(6)
        views = [view_of(state, camera) for camera in ring_cameras(100)]
        monkeypatch.setattr(
            "splat_engine.fit.tidy.seen_area",
            lambda state, view, *_, views=views: torch.tensor([1.0] * 5 + [float(view is views[1])]),
        )
        careful = Tidy(TidySettings(**{**OFF, "unseen_px": 0.1}), around(views, steps=steps))
        careful.after_step(steps, state, is_last=True)
        assert (len(state) == 6) is stays


def test_what_no_view_sees_goes_at_the_end() -> None:
    """Hidden or out of sight; moments and buffers go along, and the views stay as they were."""
    for step, prunes in ((100, True), (99, False)):
        state = state_of(40)
        state.params["means"][::5, 2] += 500
        before, careful = picture(state), tidy(state, unseen_px=0.1)
        assert careful.after_step(step, state, is_last=step == 100) is prunes
        assert (len(state) == 32) is prunes and state.is_whole()
        numbers = [number for number in range(40) if number % 5 or not prunes]
        assert state.buffers["number"].tolist() == numbers
        torch.testing.assert_close(picture(state), before, rtol=0, atol=1e-6)


def test_strays_go() -> None:
    """A splat many times farther out than all others, or nowhere, is one; the end of a long scene is not."""
    means = torch.linspace(-1, 1, 4000)[:, None].repeat(1, 3) * torch.tensor([10.0, 1.0, 1.0])
    means[5] = torch.tensor([0.0, 300.0, 0.0])
    means[6] = torch.tensor([0.0, 150.0, 0.0])
    means[7] = math.nan
    assert strays(means, 10.0).nonzero()[:, 0].tolist() == [5, 7]
    assert not strays(means[:2], 10.0).any() and strays(means[:0], 10.0).shape == (0,)
    state = state_of(40)
    careful = tidy(state, stray=10.0)
    state.params["means"][3] = 1e4
    assert careful.after_step(100, state, is_last=True) and len(state) == 39


def test_a_scene_that_nobody_sees_is_left_as_it_is() -> None:
    """All splats gone would hide that the fit cannot learn; N = 0 is legal."""
    state = state_of(10)
    careful = tidy(state, unseen_px=0.1)
    state.params["means"][:, 2] += 500
    assert not careful.after_step(100, state, is_last=True) and len(state) == 10
    assert not careful.after_step(100, no_splats(), is_last=True)


def test_zero_means_no_limit() -> None:
    """With all limits at 0 nothing changes, whatever the splats are like."""
    state = state_of(10)
    state.params["log_scales"][:, 0] = 3.0
    state.params["sh"][:, 1:] = 9.0
    state.params["means"][0] = 1e5
    before = {key: value.clone() for key, value in state.params.items()}
    assert not tidy(state).after_step(100, state, is_last=True)
    assert all(torch.equal(state.params[key], value) for key, value in before.items())
