"""What runs the kernels of each family on small inputs: the barriers' test (`barriers.py`) removes barriers under these.

A scenario is a function without arguments that calls ops with backend "cuda" and returns what came out, by name. Inputs are
as small as they can be while every kernel goes through all its phases: several batches of what it stages, more than one
warp with something to do, more than one block. A scenario's results are finite, not empty, and the same in every order of
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from splat_engine.ops.adam import adam_step
from tests.cuda import by_ray_scenario, raster_scenario, splat_scenario
from tests.cuda.loss_scenarios import photometric_scenario, ssim_scenario


@dataclass(frozen=True)
class Scenario:
    """A family of kernels and what runs them.

    Attributes:
        sources: files in csrc/cuda, without ".cu", whose kernels it launches: each of them, with float or double numbers.
        run: returns name to result.
    """

    sources: tuple[str, ...]
    run: Callable[[], dict[str, Tensor]]


def adam() -> dict[str, Tensor]:
    """Two blocks of numbers, a third of the rows left out."""
    generator = torch.Generator().manual_seed(3)
    parameter, gradient = torch.randn(2, 171, 3, generator=generator)
    first, second = torch.zeros(2, 171, 3)
    visible = torch.arange(171) % 3 != 1
    adam_step(parameter, gradient, first, second, lr=0.01, step=1, visible=visible, backend="cuda")
    return {"parameter": parameter, "first": first, "second": second}


SCENARIOS: dict[str, Scenario] = {
    "adam": Scenario(("adam",), adam),
    "ssim": Scenario(("ssim",), ssim_scenario),
    "photometric": Scenario(("photometric",), photometric_scenario),
    "raster": Scenario(("tiles", "rasterize_fwd", "rasterize_bwd"), raster_scenario.run),
    "by ray": Scenario(("rasterize_by_ray", "rasterize_by_ray_bwd"), by_ray_scenario.run),
    "splats": Scenario(("project", "sh", "update", "relocate"), splat_scenario.run),
}
"""Name to scenario."""
