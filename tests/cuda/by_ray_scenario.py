"""The scenario of the kernels that blend in each pixel's own order (scenarios.py says what a scenario is)."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.ops.rasterize import RasterPass
from tests.cuda.raster_scenario import HEIGHT, NAMES, ONE_KERNEL_EACH, WIDTH
from tests.engine.raster_scenes import cast, scene


def with_slopes(tensors: dict[str, Tensor], steep: float) -> dict[str, Tensor]:
    """The same splats with random slopes of their depths, of standard deviation `steep` a px along each axis."""
    count = len(tensors["means2d"])
    generator = torch.Generator().manual_seed(count)
    slopes = steep * torch.randn(count, 2, generator=generator, dtype=torch.float64)
    return {**tensors, "depth_slopes": slopes.to(tensors["means2d"])}


def many_at_once(dtype: torch.dtype, count: int = 600, channels: int = 3) -> dict[str, Tensor]:
    """Faint splats whose planes cross all over 23x19 px: rays that go through all of them, more than a window holds."""
    made = scene(count, WIDTH, HEIGHT, channels, seed=6, sigma_px=(1.0, 9.0), opacity=(0.01, 0.06))
    return cast(with_slopes(made, 0.2), dtype)


def run() -> dict[str, Tensor]:
    """Lists of two batches of 256 that take several scans with three channels; short ones with every other number."""
    results: dict[str, Tensor] = {}
    for channels in ONE_KERNEL_EACH:
        tensors = many_at_once(torch.float32, 400 if channels == 3 else 40, channels)
        drawn = RasterPass(**tensors, width=WIDTH, height=HEIGHT, backend="cuda")
        generator = torch.Generator().manual_seed(channels)
        v_image = torch.randn(HEIGHT, WIDTH, channels, generator=generator)
        v_alpha = torch.randn(HEIGHT, WIDTH, generator=generator)
        found = {"image": drawn.image, "alpha": drawn.alpha}
        found |= dict(zip(NAMES, drawn.backward(v_image, v_alpha, absolute=True), strict=True))
        found |= {f"plain {n}": v for n, v in zip(NAMES[:4], drawn.backward(v_image, v_alpha), strict=True)}
        results |= {f"{name}, {channels} channels": value for name, value in found.items()}
    return results
