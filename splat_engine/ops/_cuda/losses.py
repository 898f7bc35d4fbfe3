"""``ssim`` and ``photometric_loss`` on a card: csrc/cuda/ssim.cu and photometric.cu, their grids and temporary memory."""

from __future__ import annotations

from typing import Any

import torch

from splat_engine.ops._cuda.launch import blocks_for, launch

TILE_WIDTH, TILE_HEIGHT = 32, 22
"""Pixels of a block of the kernels with a window, as in csrc/cuda/window.h."""
WINDOW_BLOCK = 128
SUMS_BLOCK = 256
"""Threads of the blocks that add sums up, and of ``photometric_pixels``."""
FIGURES = 4
"""Sums a block of photometric.cu."""

_DTYPES = {"f32": torch.float32, "f64": torch.float64}


def ssim_fwd(scalar: str, device: torch.device, /, *, data_range: float, mean: int, **fields: Any) -> None:
    """Two launches: sums of the tiles (and the maps, [3, C, H, W] here), then their mean."""
    grid = _tiles(fields["height"], fields["width"])
    sums = torch.empty(grid[0] * grid[1], dtype=_DTYPES[scalar], device=device)
    launch(
        "ssim_tiles",
        scalar,
        device,
        grid=grid,
        block=WINDOW_BLOCK,
        data_range=data_range,
        sums=sums.data_ptr(),
        **fields,
    )
    shape = {name: fields[name] for name in ("height", "width", "channels", "valid")}
    launch(
        "ssim_mean",
        scalar,
        device,
        grid=1,
        block=SUMS_BLOCK,
        tiles=sums.numel(),
        sums=sums.data_ptr(),
        mean=mean,
        **shape,
    )


def ssim_bwd(scalar: str, device: torch.device, /, **fields: Any) -> None:
    """One launch over the tiles."""
    grid = _tiles(fields["height"], fields["width"])
    launch("ssim_bwd", scalar, device, grid=grid, block=WINDOW_BLOCK, **fields)


def photometric_loss(
    scalar: str,
    device: torch.device,
    /,
    *,
    figures: int,
    l1_weight: float,
    ssim_weight: float,
    mse_weight: float,
    alpha_weight: float,
    **fields: Any,
) -> None:
    """Tiles, gradient and figures where SSIM has a weight; else pixels and figures."""
    height, width = fields["height"], fields["width"]
    pixels = height * width
    numbers = 3 * pixels
    fields |= {
        "by_sign": l1_weight / numbers,
        "by_difference": 2.0 * mse_weight / numbers,
        "by_ssim": -ssim_weight / numbers,
        "by_alpha": alpha_weight / pixels,
    }
    sums = _compare(scalar, device, ssim_weight > 0, fields)
    launch(
        "photometric_figures",
        scalar,
        device,
        grid=1,
        block=SUMS_BLOCK,
        blocks=sums.shape[0],
        height=height,
        width=width,
        l1_weight=l1_weight,
        ssim_weight=ssim_weight,
        mse_weight=mse_weight,
        alpha_weight=alpha_weight,
        sums=sums.data_ptr(),
        figures=figures,
    )


def _compare(scalar: str, device: torch.device, with_ssim: bool, fields: dict[str, Any]) -> torch.Tensor:
    """The gradients, and the sums [blocks, FIGURES] of the differences."""
    height, width, dtype = fields["height"], fields["width"], _DTYPES[scalar]
    if not with_ssim:
        blocks = blocks_for(height * width, SUMS_BLOCK)
        sums = torch.empty((blocks, FIGURES), dtype=dtype, device=device)
        launch(
            "photometric_pixels",
            scalar,
            device,
            grid=blocks,
            block=SUMS_BLOCK,
            sums=sums.data_ptr(),
            **fields,
        )
        return sums
    grid = _tiles(height, width)
    sums = torch.empty((grid[0] * grid[1], FIGURES), dtype=dtype, device=device)
    maps = torch.empty((3, 3, height, width), dtype=dtype, device=device) if fields["v_image"] else None
    fields |= {"sums": sums.data_ptr(), "maps": 0 if maps is None else maps.data_ptr()}
    launch("photometric_tiles", scalar, device, grid=grid, block=WINDOW_BLOCK, **fields)
    if maps is not None:
        launch("photometric_gradient", scalar, device, grid=grid, block=WINDOW_BLOCK, **fields)
    return sums


def _tiles(height: int, width: int) -> tuple[int, int]:
    return blocks_for(width, TILE_WIDTH), blocks_for(height, TILE_HEIGHT)
