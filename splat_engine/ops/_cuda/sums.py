"""The splats' lines of sums that a backward adds to, and the gradients that they give (finish_splats, rasterize_bwd.cu)."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.ops._cuda.launch import blocks_for, launch
from splat_engine.ops._cuda.tiles import BLOCK
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address

LINE = 16
"""Numbers of a splat's line of sums (csrc/include/footprint.h)."""


def finish(inputs: list[Tensor], records: Tensor, sums: Tensor, absolute: bool) -> list[Tensor]:
    """Makes gradients from the splats' lines of sums.

    Args:
        inputs: means2d, conics, opacities, features, as the forward got them.
        records: [N, 8], as the forward made them.
        sums: [N, LINE].
        absolute: whether to make absolute ones, too.

    Returns:
        Gradients of the inputs; then, if asked for, the sums [N, 2] of |dL/dmeans2d| over pixels.
    """
    count, channels = inputs[3].shape
    gradients = [torch.empty_like(tensor) for tensor in inputs]
    if absolute:
        gradients.append(torch.empty_like(inputs[0]))
    launch(
        "finish_splats",
        scalar_name(sums.dtype),
        sums.device,
        grid=blocks_for(count, BLOCK),
        block=BLOCK,
        count=count,
        channels=channels,
        records=address(records),
        opacities=address(inputs[2]),
        sums=address(sums),
        v_means2d=address(gradients[0]),
        v_conics=address(gradients[1]),
        v_opacities=address(gradients[2]),
        v_features=address(gradients[3]),
        v_abs_means2d=address(gradients[4]) if absolute else 0,
    )
    return gradients
