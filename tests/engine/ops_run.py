"""Runs project, sh_colors, ssim and adam_step once and saves every result: ``python ops_run.py OUT.npz``.

tests/engine/test_instruction_sets.py starts it once for each instruction set.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from gradient_check import weighted_sum
from numpy.typing import NDArray
from splat_scenes import HEIGHT, WIDTH, camera, geometry, splats
from torch import Tensor

from splat_engine.ops.adam import adam_step
from splat_engine.ops.project import project
from splat_engine.ops.sh import sh_colors
from splat_engine.ops.ssim import ssim

COUNT = 203
"""A multiple of no register's lanes."""


def results(dtype: torch.dtype) -> dict[str, NDArray[np.floating]]:
    """Outputs and gradients of all four ops for one small scene."""
    made = splats(COUNT, dtype, seed=8, spread=2.0)
    viewmat, intrinsics = camera("perspective", dtype)
    leaves = [tensor.requires_grad_() for tensor in (*geometry(made), viewmat, intrinsics, made["sh"])]
    projected = project(*leaves[:6], WIDTH, HEIGHT, dilation_px2=0.1, antialiased=True, with_normals=True)
    colors = sh_colors(leaves[0], leaves[6], viewmat, degree=3, decode=True)
    generator = torch.Generator().manual_seed(1)
    image, target = torch.rand(2, 30, 41, 3, generator=generator, dtype=torch.float64).to(dtype)
    image.requires_grad_()
    similarity = ssim(image, target)
    outputs = tuple(tensor for tensor in projected if tensor is not None and tensor.requires_grad)
    (weighted_sum((*outputs, colors)) + similarity).backward()
    param = made["sh"].detach().clone()
    gradient = leaves[6].grad
    assert gradient is not None
    adam_step(param, gradient, torch.zeros_like(param), torch.zeros_like(param), lr=0.1, step=2)
    found: list[Tensor | None] = [*outputs, projected.radii, colors, similarity, param, image.grad]
    found += [leaf.grad for leaf in leaves]
    return {f"{dtype}_{i}": tensor.detach().numpy() for i, tensor in enumerate(found) if tensor is not None}


if __name__ == "__main__":
    np.savez(Path(sys.argv[1]), **results(torch.float32), **results(torch.float64))
