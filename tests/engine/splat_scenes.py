"""Small scenes of splats for the engine's tests."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from splat_engine import native

WIDTH, HEIGHT = 36, 28
"""Not square, and a multiple of no tile or register size."""


def camera(model: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """viewmat [4, 4] and intrinsics [4] of a turned camera 4 units from the origin, principal point off centre."""
    a, b, c = 0.3, -0.2, 0.1  # turns about x, y, z, rad
    turn_x = torch.tensor([[1, 0, 0], [0, math.cos(a), -math.sin(a)], [0, math.sin(a), math.cos(a)]])
    turn_y = torch.tensor([[math.cos(b), 0, math.sin(b)], [0, 1, 0], [-math.sin(b), 0, math.cos(b)]])
    turn_z = torch.tensor([[math.cos(c), -math.sin(c), 0], [math.sin(c), math.cos(c), 0], [0, 0, 1]])
    viewmat = torch.eye(4, dtype=torch.float64)
    viewmat[:3, :3] = turn_x.double() @ turn_y.double() @ turn_z.double()
    # float32 entries of a rotation are orthonormal to 1e-7 only; this makes the float64 ones so to 1e-16
    viewmat[:3, :3] = torch.linalg.qr(viewmat[:3, :3])[0]
    viewmat[:3, :3] *= torch.linalg.det(viewmat[:3, :3])
    viewmat[:3, 3] = torch.tensor([0.1, -0.05, 4.0])
    focal = 40.0 if model == "perspective" else 9.0
    intrinsics = torch.tensor([focal, 1.1 * focal, 0.47 * WIDTH, 0.55 * HEIGHT])
    return viewmat.to(dtype), intrinsics.to(dtype)


def splats(
    count: int, dtype: torch.dtype = torch.float64, seed: int = 0, spread: float = 0.8
) -> dict[str, Tensor]:
    """Splats around the origin: scales of 0.1 to 0.5 units, opacities of 0.2 to 0.9, quaternion norms of 0.7 to 1.06."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    quats = normal(count, 4)
    quats = quats / quats.norm(dim=1, keepdim=True) * (0.7 + 0.36 * uniform(count, 1))
    made = {
        "means": spread * (2 * uniform(count, 3) - 1),
        "log_scales": math.log(0.1) + math.log(5.0) * uniform(count, 3),
        "quats_wxyz": quats,
        "opacity_logits": -1.4 + 3.6 * uniform(count),
        "sh": 0.25 * normal(count, 16, 3),
    }
    return {name: tensor.to(dtype) for name, tensor in made.items()}


def geometry(made: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first four arguments of ``project``."""
    return made["means"], made["log_scales"], made["quats_wxyz"], made["opacity_logits"]


def culled_cases(model: str, dtype: torch.dtype) -> dict[str, dict[str, Tensor]]:
    """One change to splat 1 of 3 for each reason to cull it."""
    nan, inf = math.nan, math.inf
    viewmat = camera(model, dtype)[0]
    center = -viewmat[:3, :3].T @ viewmat[:3, 3]
    forward = viewmat[2, :3]

    def row(name: str, *values: float) -> dict[str, Tensor]:
        return {name: torch.tensor(values if len(values) > 1 else values[0], dtype=dtype)}

    return {
        "NaN mean": row("means", nan, 0, 0),
        "infinite mean": row("means", 0, inf, 0),
        "huge mean": row("means", 1e30, -1e30, 1e30),
        "NaN scale": row("log_scales", 0, nan, 0),
        "infinite log scale": row("log_scales", inf, 0, 0),
        "minus infinite log scale": row("log_scales", 0, -inf, 0),
        "overflowing scale": row("log_scales", 1000, 1000, 1000),
        "huge scale": row("log_scales", 85, 85, 85)
        if dtype == torch.float32
        else row("log_scales", 400, 400, 400),
        "all scales zero": row("log_scales", -1000, -1000, -1000),
        "two scales zero": row("log_scales", -2, -1000, -1000),
        "zero quaternion": row("quats_wxyz", 0, 0, 0, 0),
        "NaN quaternion": row("quats_wxyz", nan, 1, 0, 0),
        "infinite quaternion": row("quats_wxyz", inf, 1, 0, 0),
        "opacity below 1/255": row("opacity_logits", -5.55),
        "opacity zero": row("opacity_logits", -1000),
        "infinite opacity logit": row("opacity_logits", inf),
        "NaN opacity logit": row("opacity_logits", nan),
        "at the camera": {"means": center},
        "before the near plane": {"means": center + 0.009 * forward},
        "behind the camera": {"means": center - 2.0 * forward},
        "beside the image": {"means": center + 4 * forward + 20 * viewmat[0, :3]},
        "above the image": {"means": center + 4 * forward - 20 * viewmat[1, :3]},
    }


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Runs the native library on ``count`` threads for a while."""
    before = native.get_num_threads()
    native.set_num_threads(count)
    try:
        yield
    finally:
        native.set_num_threads(before)
