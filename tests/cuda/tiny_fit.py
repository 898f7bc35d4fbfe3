"""A fit so small that it can be emulated: splats drawn by the processor into six views of 32 x 32 pixels.

The views are tensors, not files: the test also runs where nothing reads pictures (tools/gpu_check on a bare machine).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from splat_engine.fit.drawing import blend, to_screen
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.place import send
from splat_engine.fit.trainer import Trainer
from splat_engine.fit.views import ViewList, ViewTensors, camera_tensors, mapped, view_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import SH_C0, Formation
from splat_engine.formats.settings import DensifySettings, OptimizerSettings, RunSettings
from splat_engine.formats.splats import Splats
from tests.engine.run_settings import run_settings

SIZE_PX = 32
RATES = OptimizerSettings(means=2e-3, means_final=2e-4, log_scales=0.02, quats=0.01, sh_dc=0.02, sh_rest=2e-3)
DENSIFY = DensifySettings(start=4, interval=4, gradient=1e-4, reset_interval=6)


def cameras(count: int = 6) -> list[Camera]:
    """Cameras on a circle of radius 4, 1 unit above the origin, looking at it."""
    made = []
    for angle in np.arange(count) * 2 * math.pi / count:
        position = np.array([4 * math.cos(angle), 4 * math.sin(angle), 1.0])
        forward = -position / np.linalg.norm(position)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3, :3] = np.stack((right, np.cross(forward, right), forward), axis=1)
        pose[:3, 3] = position
        made.append(Camera(SIZE_PX, SIZE_PX, 1.2 * SIZE_PX, 1.2 * SIZE_PX, SIZE_PX / 2, SIZE_PX / 2, pose))
    return made


def splats(count: int, seed: int) -> Splats:
    """Splats on the unit sphere."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Splats(
        means=directions.astype(np.float32),
        log_scales=np.log(rng.uniform(0.1, 0.4, size=(count, 3))).astype(np.float32),
        quats_wxyz=rng.normal(size=(count, 4)).astype(np.float32),
        opacity_logits=rng.uniform(0.0, 2.0, size=count).astype(np.float32),
        sh=((rng.uniform(0.1, 0.9, size=(count, 1, 3)) - 0.5) / SH_C0).astype(np.float32),
    )


def views(formation: ImageFormation) -> list[ViewTensors]:
    """What the cameras see of 40 splats, with depth and normals, on the processor."""
    params = SplatState.from_splats(splats(40, seed=0)).params
    made = []
    for camera in cameras():
        viewmat, intrinsics = camera_tensors(camera)
        with torch.no_grad():
            screen = to_screen(params, viewmat, intrinsics, camera, formation, with_normals=True)
            drawn = blend(screen, camera, background=torch.zeros(3), with_depth=True)
        assert drawn.depth is not None and drawn.normals is not None
        normals = torch.nn.functional.normalize(drawn.normals, dim=-1)
        made.append(view_tensors(camera, drawn.blended, drawn.alpha, depth=drawn.depth, normals=normals))
    return made


def settings(formation: Formation, steps: int, **fit: object) -> RunSettings:
    """Settings of a fit with clones, splits and an opacity reset in its first ten steps."""
    chosen = {"sh_degree": 2, "sh_interval": 3, "max_splats": 60, **fit}
    values = {"steps": steps, "formation": formation, **chosen}
    return run_settings(values, optimizer=RATES, densify=DENSIFY)


def trainer(run: RunSettings, device: torch.device, backend: str) -> Trainer:
    """A trainer of 30 splats, on a device."""
    there = [
        mapped(view, lambda value: send(value, device)) for view in views(ImageFormation(run.fit.formation))
    ]
    state = SplatState.from_splats(splats(30, seed=1)).to(device)
    return Trainer(run, ViewList(there), state, extent=4.4, warn=print, backend=backend)


def everything(made: Trainer) -> dict[str, Tensor]:
    """Parameters, moments and buffers, in the processor's memory."""
    splats_of = made.state_dict()["splats"]
    moments = {
        f"{name}, moment {number}": value
        for name, pair in splats_of["moments"].items()
        for number, value in enumerate(pair)
    }
    return {**splats_of["params"], **moments, **splats_of["buffers"]}


def worst_difference(one: Trainer, other: Trainer) -> float:
    """The largest relative L2 difference of any parameter of two trainers, which have as many splats."""
    first, second = everything(one), everything(other)
    assert first.keys() == second.keys() and len(one.state) == len(other.state)
    names = one.state.params
    return max(float((first[name] - second[name]).norm() / second[name].norm()) for name in names)
