"""What views say of splats: errors and shares."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from splat_engine.fit.drawing import to_screen
from splat_engine.fit.strategies.pixels import judge, seen_area, shares
from splat_engine.fit.views import camera_tensors
from tests.engine.strategy_scenes import BLENDER, no_splats, state_of, view_of
from tests.engine.tiny_capture import ring_cameras


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_shares_add_up_to_the_picture(backend: str) -> None:
    """The shares of all splats, each pixel weighted, sum to the weighted alpha of the picture."""
    state, camera = state_of(30), ring_cameras(1)[0]
    view = view_of(state, camera)
    weights = torch.rand(view.alpha.shape, generator=torch.Generator().manual_seed(0))
    screen = to_screen(state.params, *camera_tensors(camera), camera, BLENDER)
    share = shares(screen, weights, backend)
    assert share.shape == (30,) and share.min() >= 0 and share.max() > 5
    torch.testing.assert_close(share.sum(), (view.alpha * weights).sum(), rtol=1e-4, atol=0)


def test_a_hidden_splat_has_no_area() -> None:
    """Behind opaque ones it covers nothing; alone it does."""
    state, camera = state_of(30), ring_cameras(1)[0]
    towards = torch.tensor(camera.position.tolist())
    state.params["means"][:29] = towards * 0.5
    state.params["log_scales"][:29] = -1.0
    state.params["opacity_logits"][:] = 9.0
    state.params["means"][29] = 0.0
    view = view_of(state, camera)
    area = seen_area(state, view, BLENDER, "cpu")
    assert area[29] == 0 and area.sum() > 100
    state.params["means"][:29] = -towards
    assert seen_area(state, view, BLENDER, "cpu")[29] > 1


def test_errors_are_where_the_view_differs() -> None:
    """A changed block of the target has them, a block that is not valid has none."""
    state, camera = state_of(60), ring_cameras(1)[0]
    view = view_of(state, camera)
    assert judge(state, view, BLENDER, "cpu").errors.max() < 1e-5
    color = view.color.clone()
    color[10:20, 12:22] += 0.3
    wrong = replace(view, color=color)
    errors = judge(state, wrong, BLENDER, "cpu").errors
    assert errors[10:20, 12:22].min() > 0.05 and errors.count_nonzero() < 200
    valid = torch.ones_like(view.alpha, dtype=torch.bool)
    valid[10:20, 12:22] = False
    assert judge(state, replace(wrong, valid=valid), BLENDER, "cpu").errors.max() < 1e-5


def test_no_splats_draw_nothing() -> None:
    """N = 0: no shares, and the error is the picture."""
    view = view_of(state_of(40), ring_cameras(1)[0])
    judged = judge(no_splats(), view, BLENDER, "cpu")
    assert judged.errors.max() > 0.1 and not judged.alpha.any()
    assert shares(judged.screen, judged.errors, "cpu").shape == (0,)
