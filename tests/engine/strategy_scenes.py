"""Splats, and a fit around them, for the tests of the strategies."""

from __future__ import annotations

from typing import Any

import torch

from splat_engine.fit.drawing import draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import PARAMETER_NAMES, SplatState
from splat_engine.fit.strategies import Surroundings
from splat_engine.fit.views import ViewList, ViewTensors, camera_tensors, view_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.splats import Splats
from tests.engine.tiny_capture import known_splats, ring_cameras

BLENDER = ImageFormation("blender")
RATES = {
    "means": 1e-3,
    "log_scales": 0.02,
    "quats_wxyz": 1e-3,
    "opacity_logits": 0.05,
    "sh_dc": 0.0,
    "sh": 0.0,
}


def state_of(count: int = 6, degree: int = 1) -> SplatState:
    """Splats whose moments are 1 and 2, with a buffer that numbers them."""
    state = SplatState.from_splats(known_splats(count).with_sh_degree(degree))
    for name in PARAMETER_NAMES:
        first, second = state.add_moments(name, state.params[name])
        first += 1
        second += 2
    state.buffers["number"] = torch.arange(count).float()
    return state


def six() -> SplatState:
    """Two small, two large, one transparent, one huge splat; opacity 0.8."""
    state = state_of()
    with torch.no_grad():
        state.params["log_scales"][:] = torch.tensor([0.01, 0.02, 0.3, 0.4, 0.02, 5.0]).log()[:, None]
        state.params["opacity_logits"][:] = 1.4
        state.params["opacity_logits"][4] = -8
    return state


def no_splats() -> SplatState:
    """N = 0."""
    return SplatState.from_splats(Splats.empty(1))


def view_of(splats: SplatState, camera: Camera, *, with_depth: bool = True) -> ViewTensors:
    """A training view that shows what splats draw."""
    viewmat, intrinsics = camera_tensors(camera)
    drawn = draw(splats.params, viewmat, intrinsics, camera, BLENDER, background=torch.zeros(3))
    depth = torch.full_like(drawn.alpha, 0.0)
    return view_tensors(camera, drawn.blended, drawn.alpha, depth=depth if with_depth else None)


def around(views: list[ViewTensors] | None = None, **changes: Any) -> Surroundings:
    """A fit of 1000 steps with at most 100 splats in a scene of extent 2."""
    seen = [view_of(state_of(40), camera) for camera in ring_cameras(3)] if views is None else views
    known = {"images": ViewList(seen), "formation": BLENDER, "extent": 2.0, "steps": 1000, "max_splats": 100}
    return Surroundings(**{**known, "rates": lambda step: RATES, **changes})


def picture(state: SplatState, camera: Camera | None = None) -> torch.Tensor:
    """[H, W, 4] what splats draw over black, in linear light, and alpha."""
    camera = camera or ring_cameras(1)[0]
    drawn = draw(state.params, *camera_tensors(camera), camera, BLENDER, background=torch.zeros(3))
    return torch.cat((drawn.blended, drawn.alpha[..., None]), dim=2)
