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
from splat_engine.ops.rasterize import RasterPass


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


def rasterize() -> dict[str, Tensor]:
    """300 splats on two tiles: two batches, ten buckets, rays that reach the last; then a few for each kernel's channels."""
    results = {}
    for channels, count in ((3, 300), (1, 40), (4, 40), (7, 40), (8, 40)):
        generator = torch.Generator().manual_seed(channels)

        def uniform(*shape: int, generator: torch.Generator = generator) -> Tensor:
            return torch.rand(*shape, generator=generator, dtype=torch.float64)

        inverse_widths = 0.1 + 0.4 * uniform(count, 2)
        drawing = RasterPass(
            means2d=uniform(count, 2) * torch.tensor([20.0, 9.0]),
            conics=torch.stack([inverse_widths[:, 0], 0.05 * uniform(count), inverse_widths[:, 1]], dim=1),
            opacities=0.02 + 0.03 * uniform(count),
            features=uniform(count, channels),
            depths=uniform(count),
            width=20,
            height=9,
            backend="cuda",
        )
        v_image = uniform(9, 20, channels)
        gradients = drawing.backward(v_image, None, absolute=True)
        plain = drawing.backward(v_image, None)
        for name, result in zip("image alpha".split(), (drawing.image, drawing.alpha), strict=True):
            results[f"{name} {channels}"] = result
        for number, result in enumerate([*gradients, *plain]):
            results[f"gradient {channels} {number}"] = result
    return results


SCENARIOS: dict[str, Scenario] = {
    "adam": Scenario(("adam",), adam),
    "rasterize": Scenario(("tiles", "rasterize_fwd", "rasterize_bwd"), rasterize),
}
"""Name to scenario."""
