"""Launches the kernels that give each splat a thread: project.cu, sh.cu, update.cu and relocate.cu."""

from __future__ import annotations

from typing import Any

import torch

from splat_engine.ops._cuda.launch import blocks_for, launch

WARP = 32
BLOCK = 128
ROWS_BLOCK = 64
"""Of the kernels whose warps keep rows of coefficients in shared memory."""
PROJECT_SUMS, SH_SUMS = 16, 3
"""Numbers that are summed over splats for the camera's gradient; the block that adds them has a warp for each."""


def project_fwd(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat."""
    launch("project_fwd", scalar, device, grid=blocks_for(fields["count"], BLOCK), block=BLOCK, **fields)


def project_bwd(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat, and where the camera's gradient is wanted a block that adds up what the warps have summed."""
    blocks = blocks_for(fields["count"], BLOCK)
    outputs = {name: fields[name] for name in ("v_viewmat", "v_intrinsics")}
    partial = _partial(PROJECT_SUMS, blocks * BLOCK, device) if any(outputs.values()) else None
    summed = {"partial": 0 if partial is None else partial.data_ptr()}
    launch("project_bwd", scalar, device, grid=blocks, block=BLOCK, **fields, **summed)
    if partial is not None:
        options = {"grid": 1, "block": PROJECT_SUMS * WARP, "warps": partial.shape[1]}
        launch("project_camera_bwd", scalar, device, **options, **summed, **outputs)


def sh_colors_fwd(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat."""
    blocks = blocks_for(fields["count"], ROWS_BLOCK)
    launch("sh_colors_fwd", scalar, device, grid=blocks, block=ROWS_BLOCK, **fields)


def sh_colors_bwd(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat, and where the camera's gradient is wanted a block that adds up what the warps have summed."""
    blocks = blocks_for(fields["count"], ROWS_BLOCK)
    partial = _partial(SH_SUMS, blocks * ROWS_BLOCK, device) if fields["v_viewmat"] else None
    summed = {"partial": 0 if partial is None else partial.data_ptr()}
    launch("sh_colors_bwd", scalar, device, grid=blocks, block=ROWS_BLOCK, **fields, **summed)
    if partial is not None:
        options = {"grid": 1, "block": SH_SUMS * WARP, "warps": partial.shape[1]}
        camera = {name: fields[name] for name in ("orthographic", "viewmat", "v_viewmat")}
        launch("sh_camera_bwd", scalar, device, **options, **summed, **camera)


def project_colors_fwd(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat."""
    blocks = blocks_for(fields["count"], ROWS_BLOCK)
    launch("project_colors_fwd", scalar, device, grid=blocks, block=ROWS_BLOCK, **fields)


def update_splats(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat."""
    blocks = blocks_for(fields["count"], ROWS_BLOCK)
    launch("update_splats", scalar, device, grid=blocks, block=ROWS_BLOCK, **fields)


def relocate(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """A thread a splat."""
    launch("relocate", scalar, device, grid=blocks_for(fields["count"], BLOCK), block=BLOCK, **fields)


def _partial(sums: int, threads: int, device: torch.device) -> torch.Tensor:
    """Room for the sums of each warp."""
    return torch.empty((sums, threads // WARP), dtype=torch.float64, device=device)
