"""The ops of csrc/include/op_args.h on a card: one function an op, which knows the grid of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from splat_engine.ops._cuda import losses, splats
from splat_engine.ops._cuda.launch import blocks_for, launch

BLOCK = 256
"""Threads of a block of the kernels that give each row a thread."""


def adam_step(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """One thread a number."""
    numbers = fields["rows"] * fields["row_size"]
    launch("adam_step", scalar, device, grid=blocks_for(numbers, BLOCK), block=BLOCK, **fields)


CALLS: dict[str, Callable[..., None]] = {
    "adam_step": adam_step,
    "project_fwd": splats.project_fwd,
    "project_bwd": splats.project_bwd,
    "relocate": splats.relocate,
    "sh_colors_fwd": splats.sh_colors_fwd,
    "sh_colors_bwd": splats.sh_colors_bwd,
    "update_splats": splats.update_splats,
    "ssim_fwd": losses.ssim_fwd,
    "ssim_bwd": losses.ssim_bwd,
    "photometric_loss": losses.photometric_loss,
}
"""Op to the function that launches it."""
