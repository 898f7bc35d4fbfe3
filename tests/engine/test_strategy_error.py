"""A splat comes where a training view is wrong, at the depth that is seen there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.error import SIZE_PX, ErrorGrowth
from splat_engine.fit.views import ViewTensors, camera_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import SH_C0
from splat_engine.formats.settings import DensifySettings
from tests.engine.strategy_scenes import around, no_splats, picture, state_of
from tests.engine.tiny_capture import HEIGHT, WIDTH, ring_cameras

PLACE = torch.tensor([0.3, -0.2, 0.25])


def growth(views: list[ViewTensors], **settings: Any) -> ErrorGrowth:
    declared = {"start": 10, "interval": 10, "looks": len(views) or 1, **settings}
    return ErrorGrowth(DensifySettings(**declared), around(views, max_splats=settings.pop("max_splats", 30)))


def hole_views(model: str = "perspective", *, with_depth: bool = True) -> list[ViewTensors]:
    """Views of one red spot at PLACE, a square of 3 x 3 px of the plane that faces the camera, with its depth."""
    made = []
    for camera in ring_cameras(4):
        if model == "orthographic":
            camera = replace(camera, model="orthographic", fx=14.0, fy=14.0)
        made.append(spot(camera, with_depth))
    return made


def spot(camera: Camera, with_depth: bool) -> ViewTensors:
    viewmat, intrinsics = camera_tensors(camera)
    seen = viewmat[:3, :3] @ PLACE + viewmat[:3, 3]
    scale = 1.0 if camera.model == "orthographic" else float(seen[2])
    column = int(intrinsics[0] * seen[0] / scale + intrinsics[2])
    row = int(intrinsics[1] * seen[1] / scale + intrinsics[3])
    square = (slice(row - 1, row + 2), slice(column - 1, column + 2))
    color, alpha, depth = (
        torch.zeros(HEIGHT, WIDTH, 3),
        torch.zeros(HEIGHT, WIDTH),
        torch.zeros(HEIGHT, WIDTH),
    )
    color[(*square, 0)], alpha[square], depth[square] = 0.5, 1.0, seen[2]
    return ViewTensors(viewmat, intrinsics, camera, color, alpha, False, depth if with_depth else None)


@pytest.mark.parametrize("model", ["perspective", "orthographic"])
@pytest.mark.parametrize("count", [0, 3])
def test_the_hole_is_filled(model: str, count: int) -> None:
    """From none, or from few elsewhere, splats of the spot's colour come to the spot, some px wide, and nowhere else."""
    state = state_of(count) if count else no_splats()
    if count:
        state.params["opacity_logits"][:] = 9.0
        state.params["means"][:] = 50.0  # out of sight
    assert growth(hole_views(model)).after_step(700, state, torch.Generator().manual_seed(0))
    new = {name: value[count:] for name, value in state.params.items()}
    assert 10 < len(new["means"]) <= 30 - count
    pixel = 1 / 14 if model == "orthographic" else 4 / (1.1 * WIDTH)
    assert (new["means"] - PLACE).norm(dim=1).max() < 3 * pixel
    red = 0.5 + SH_C0 * new["sh"][:, 0]
    expected = torch.tensor([0.735, 0, 0]).expand_as(red)  # 0.5 of linear light, encoded
    torch.testing.assert_close(red, expected, rtol=0, atol=2e-3)
    sizes = new["log_scales"].exp() / pixel
    assert SIZE_PX[0] * 0.7 < sizes.min() and sizes.max() < SIZE_PX[1] * 1.3
    drawn = picture(state, hole_views(model)[0].camera)
    assert drawn[..., 0].max() > 0.2 and drawn[..., 1].max() < 0.05


def test_without_a_depth_pass_the_drawn_depth_stands_in() -> None:
    """Where the splats are opaque, new ones come to their surface; where they are not, nowhere."""
    state = no_splats()
    views = hole_views(with_depth=False)
    assert not growth(views).after_step(700, state, torch.Generator()) and len(state) == 0
    wall = state_of(1)
    wall.params["means"][:] = PLACE
    wall.params["log_scales"][:] = torch.tensor(0.4).log()
    wall.params["opacity_logits"][:] = 9.0
    wall.params["sh"][:] = 0.0
    assert growth(views).after_step(700, wall, torch.Generator().manual_seed(0))
    assert len(wall) > 10 and (wall.params["means"] - PLACE).norm(dim=1).max() < 0.5


def test_what_is_right_is_left_alone() -> None:
    """Where the views agree with the splats nothing comes, even below the curve; transparent splats go."""
    views = hole_views()
    state = no_splats()
    black = [replace(view, color=view.color * 0, alpha=view.alpha * 0 + 1) for view in views]
    assert not growth(black).after_step(700, state, torch.Generator()) and len(state) == 0
    faint = state_of(6)
    faint.params["opacity_logits"][:] = -9.0
    faint.params["opacity_logits"][2] = 9.0
    faint.params["means"][:] = 50.0
    assert growth(black).after_step(700, faint, torch.Generator())
    assert faint.buffers["number"].tolist() == [2] and (faint.moments["means"][0] == 1).all()


def test_moments_and_hours() -> None:
    """New splats have zero moments and the nearest old one's buffers; nothing outside the moments or without room."""
    state = state_of(3)
    state.params["means"][:] = 50.0
    state.params["means"][1] = 0.0
    state.params["opacity_logits"][:] = 0.0
    strategy = growth(hole_views())
    assert not strategy.after_step(705, state, torch.Generator()) and len(state) == 3
    assert not strategy.after_step(710, state, torch.Generator()) and len(state) == 3
    strategy.after_step(700, state, torch.Generator().manual_seed(0))
    assert len(state) > 3 and (state.buffers["number"][3:] == 1).all()
    assert not state.moments["sh"][1][3:].any() and (state.moments["sh"][1][:3] == 2).all()
    full = state_of(40)
    assert not growth(hole_views()).after_step(700, full, torch.Generator()) and len(full) == 40
    nothing: SplatState = no_splats()
    assert not growth([]).after_step(700, nothing, torch.Generator())
