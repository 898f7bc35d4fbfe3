"""Rows come and go in parameters, moments and buffers alike; Adam and the guard change what they should."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from splat_engine.fit.drawing import blend, draw, screen_gradients, screen_leaves
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.guard import log_scale_floors
from splat_engine.fit.model import PARAMETER_NAMES, SplatState
from splat_engine.fit.optimizer import Adam, Seen, exponential
from splat_engine.fit.schedule import Schedule
from splat_engine.fit.views import camera_tensors
from splat_engine.formats.settings import OptimizerSettings
from tests.engine.strategy_scenes import state_of
from tests.engine.tiny_capture import HEIGHT, WIDTH, known_splats, look_at, ring_cameras


def test_cloud_to_state_and_back() -> None:
    """from_splats and to_splats keep every number; a higher degree is filled with zeros."""
    splats = known_splats(9)
    back = SplatState.from_splats(splats).to_splats({"a": "b"}, sh_degree=2)
    assert np.array_equal(back.means, splats.means) and back.metadata == {"a": "b"}
    assert (
        back.sh.shape == (9, 9, 3) and np.array_equal(back.sh[:, :1], splats.sh) and not back.sh[:, 1:].any()
    )
    back.means[:] = 0
    assert splats.means.any()


def test_rearrange_changes_everything_together() -> None:
    """Kept rows keep values, moments and buffers; new rows take their parent's values, with zero moments."""
    state = state_of()
    before = {name: value.clone() for name, value in state.params.items()}
    moved = torch.tensor([[9.0, 9.0, 9.0], [8.0, 8.0, 8.0]])
    state.rearrange(torch.tensor([5, 0, 2]), torch.tensor([2, 4]), {"means": moved})
    source = [5, 0, 2, 2, 4]
    assert len(state) == 5
    for name, value in state.params.items():
        assert value.is_contiguous() and not value.requires_grad
        expected = before[name][source]
        if name == "means":
            expected[3:] = moved
        assert torch.equal(value, expected)
    for first, second in state.moments.values():
        assert (first[:3] == 1).all() and (second[:3] == 2).all()
        assert not first[3:].any() and not second[3:].any() and len(first) == len(second) == 5
    assert state.buffers["number"].tolist() == [5, 0, 2, 2, 4]


def test_raising_the_degree_keeps_what_is_there() -> None:
    """New coefficients and their moments are zero, old ones stay; lowering does nothing."""
    state = state_of(degree=0)
    sh = state.params["sh"].clone()
    state.raise_sh_degree(2)
    assert state.sh_degree == 2 and torch.equal(state.params["sh"][:, :1], sh)
    assert not state.params["sh"][:, 1:].any()
    first, second = state.moments["sh"]
    assert (first[:, :1] == 1).all() and not first[:, 1:].any() and second.shape == (6, 9, 3)
    state.raise_sh_degree(1)
    assert state.sh_degree == 2


def test_state_dict_is_everything() -> None:
    """A state made of its own dictionary is equal in every tensor."""
    state = state_of()
    again = SplatState.from_state_dict(state.state_dict())
    for name in PARAMETER_NAMES:
        assert torch.equal(again.params[name], state.params[name])
    assert all(torch.equal(again.moments[n][i], state.moments[n][i]) for n in state.moments for i in (0, 1))
    assert torch.equal(again.buffers["number"], state.buffers["number"])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["blender", "classic"])
def test_adam_is_torch_adam_with_a_rate_each(name: str, backend: str) -> None:
    """20 steps on drawn views equal autograd and torch.optim.Adam with a group a parameter, the constant colour too."""
    settings = OptimizerSettings(
        means=1e-3, means_final=1e-3, final_share=1.0, sh_dc=0.02, sh_rest=1e-3, quats=3e-3, log_scales=1e-2
    )
    formation = ImageFormation(name)  # type: ignore[arg-type]
    state = SplatState.from_splats(known_splats(7).with_sh_degree(2))
    leaves = {name: value.clone() for name, value in state.params.items()}
    leaves["sh_dc"], leaves["sh"] = leaves["sh"][:, :1].clone(), leaves["sh"][:, 1:].clone()
    adam = Adam(settings, formation, extent=3.0, schedule=Schedule(20), backend=backend)
    rates = adam.rates(1)
    assert rates["means"] == pytest.approx(0.003) and rates["sh"] == 1e-3 and rates["sh_dc"] == 0.02
    other = torch.optim.Adam(
        [{"params": [value.requires_grad_(True)], "lr": rates[name]} for name, value in leaves.items()],
        eps=1e-15,
    )
    weights = torch.rand(HEIGHT, WIDTH, 3, generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in state.params.items()}
    for step, camera in enumerate(ring_cameras(20), start=1):
        viewmat, intrinsics = camera_tensors(camera)
        view, black = (viewmat, intrinsics, camera, formation), torch.zeros(3)
        screen = screen_leaves(state.params, *view, backend=backend)
        drawn = blend(screen, camera, background=black, backend=backend)
        gradients = screen_gradients((drawn.blended * weights).sum(), screen)
        adam.step(state, Seen(gradients, screen.projected.radii, viewmat, intrinsics, camera), step)

        whole = {**leaves, "sh": torch.cat((leaves["sh_dc"], leaves["sh"]), dim=1)}
        other.zero_grad()
        (draw(whole, *view, background=black).blended * weights).sum().backward()
        other.step()
    theirs = {**leaves, "sh": torch.cat((leaves["sh_dc"], leaves["sh"]), dim=1)}
    for name in PARAMETER_NAMES:
        moved, expected = state.params[name] - before[name], theirs[name].detach() - before[name]
        assert expected.abs().max() > 1e-3
        # Adam divides by the size of a gradient: where that is nothing but rounding, so is the step.
        assert (moved - expected).norm() < 2e-2 * expected.norm(), name


def test_position_schedule() -> None:
    """The means' rate falls exponentially from the first to the last step, times the extent."""
    adam = Adam(
        OptimizerSettings(means=1e-2, means_final=1e-4, final_share=0.25),
        ImageFormation("blender"),
        extent=2.0,
        schedule=Schedule(101),
    )
    assert adam.rates(101)["quats_wxyz"] == pytest.approx(0.25 * adam.rates(1)["quats_wxyz"])
    assert [adam.rates(step)["means"] for step in (1, 51, 101, 500)] == pytest.approx(
        [2e-2, 2e-3, 2e-4, 2e-4]
    )
    assert exponential(1.0, 0.0, 0.25) == pytest.approx(0.75)


def test_the_other_rates_fade() -> None:
    """All other rates fall exponentially to their share at the last step; a share of 1 keeps them."""
    adam = Adam(
        OptimizerSettings(final_share=0.25, sh_dc=0.04, quats=0.01),
        ImageFormation("blender"),
        extent=1.0,
        schedule=Schedule(101),
    )
    assert [adam.rates(step)["sh_dc"] for step in (1, 51, 101)] == pytest.approx([0.04, 0.02, 0.01])
    assert adam.rates(101)["quats_wxyz"] == pytest.approx(0.0025)
    still = Adam(
        OptimizerSettings(final_share=1.0), ImageFormation("blender"), extent=1.0, schedule=Schedule(101)
    )
    assert {name: rate for name, rate in still.rates(101).items() if name != "means"} == {
        name: rate for name, rate in still.rates(1).items() if name != "means"
    }


def test_guard_takes_the_nearest_view_that_sees() -> None:
    """The floor is the least sigma times the pixel's size in the nearest view; unseen splats have none."""
    camera = ring_cameras(1, 40, 40)[0]
    far = replace(camera, world_from_camera=look_at(np.array([4.0, 0, 0])))
    near = replace(camera, world_from_camera=look_at(np.array([2.0, 0, 0])))
    means = torch.tensor([[0.0, 0, 0], [3.0, 0, 0], [0, 0, 30.0]])
    floors = log_scale_floors(means, [far, near], 0.3)
    assert floors[0].item() == pytest.approx(math.log(0.3 * 2 / camera.fx), abs=1e-5)
    assert floors[1].item() == pytest.approx(math.log(0.3 * 1 / camera.fx), abs=1e-5)  # behind the near one
    assert floors[2].item() == -math.inf
    flat = replace(camera, model="orthographic", fx=20.0, fy=20.0)
    assert log_scale_floors(means[:1], [flat], 0.3)[0].item() == pytest.approx(math.log(0.3 / 20), abs=1e-5)
    assert (log_scale_floors(means, [near], 0.0) == -math.inf).all()
    assert log_scale_floors(means[:0], [near], 0.3).shape == (0,)
    assert torch.isfinite(log_scale_floors(means, [near] * 200, 0.3)[:1]).all()
