"""The scenario of the kernels of tiles.cu, rasterize_fwd.cu and rasterize_bwd.cu (scenarios.py says what a scenario is)."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.ops.rasterize import RasterPass
from tests.engine.raster_scenes import cast, scene

WIDTH, HEIGHT = 23, 19
"""Four tiles, three of them cut by the border."""
NAMES = ("v_means2d", "v_conics", "v_opacities", "v_features", "v_abs_means2d")
ONE_KERNEL_EACH = (1, 3, 4, 7, 8)
"""Numbers of channels that have a kernel of their own."""


def run() -> dict[str, Tensor]:
    """Lists of several batches of 256 and of many buckets with three channels; short ones with every other number."""
    results: dict[str, Tensor] = {}
    for channels in ONE_KERNEL_EACH:
        count = 600 if channels == 3 else 40
        tensors = scene(count, WIDTH, HEIGHT, channels, seed=6, sigma_px=(1.0, 9.0), opacity=(0.01, 0.06))
        drawn = RasterPass(**cast(tensors, torch.float32), width=WIDTH, height=HEIGHT, backend="cuda")
        generator = torch.Generator().manual_seed(channels)
        v_image = torch.randn(HEIGHT, WIDTH, channels, generator=generator)
        v_alpha = torch.randn(HEIGHT, WIDTH, generator=generator)
        found = {"image": drawn.image, "alpha": drawn.alpha}
        found |= dict(zip(NAMES, drawn.backward(v_image, v_alpha, absolute=True), strict=True))
        found |= {f"plain {n}": v for n, v in zip(NAMES[:4], drawn.backward(v_image, v_alpha), strict=True)}
        results |= {f"{name}, {channels} channels": value for name, value in found.items()}
    return results
