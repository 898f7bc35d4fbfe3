"""The tiles' lists on a card: what happens between the kernels of csrc/cuda/tiles.cu.

Memory for N splats and P pairs of a splat and a tile, in float: 64 N bytes of records and bounds, about 30 P while sorting,
4 P kept.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda.launch import blocks_for, launch
from splat_engine.ops._cuda.structs import CHANNELS
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address

TILE = 16
"""px a side; as the next, in csrc/cuda/raster.h."""
TILE_PIXELS = TILE * TILE
RECORD = 8
"""Numbers of a splat's record, and of its bounds."""
BLOCK = 256
SHORT_KEYS = 1 << 16
"""Up to this many tiles have keys of 16 bits."""
MAX_IMAGE_SIZE = 1 << 18
"""px a side, as on the CPU (csrc/cpu/rasterize.h)."""


class TileLists(NamedTuple):
    """Which splats each tile blends.

    Attributes:
        records: [N, 8] what blending needs of each splat; undefined for splats that touch no tile.
        tile_starts: [tiles + 1] int64, the first pair of each tile, row by row.
        pairs: [P] int32, the splats of each tile from front to back; where each pixel has its own order, by their floors.
        floors: [N] least depth that a pixel can find in each splat; None where all pixels have one order.
    """

    records: Tensor
    tile_starts: Tensor
    pairs: Tensor
    floors: Tensor | None = None


def tile_lists(
    inputs: list[Tensor], depths: Tensor, width: int, height: int, depth_slopes: Tensor | None = None
) -> TileLists:
    """Sorts splats by depth, or with slopes by their floors, and into tiles.

    Args:
        inputs: means2d [N, 2], conics [N, 3], opacities [N], features [N, C], contiguous.
        depths: [N], contiguous.
        width: px.
        height: px.
        depth_slopes: [N, 2], contiguous, or None.

    Raises:
        UserError: the image is too large, or the kernels cannot be had.

    The number of pairs is read back, which waits for the card: the one synchronisation of a training step.
    """
    _check_size(width, height)
    count, scalar, device = depths.shape[0], scalar_name(depths.dtype), depths.device
    records, bounds, floors, tile_counts = _prepare(inputs, depths, depth_slopes, width, height)
    order = torch.sort(depths if floors is None else floors, stable=True).indices
    pair_ends = torch.cumsum(tile_counts[order], 0, dtype=torch.int64)
    pairs = int(pair_ends[-1].item()) if count else 0
    tiles = blocks_for(width, TILE) * blocks_for(height, TILE)
    keys = depths.new_empty(pairs, dtype=torch.int16 if tiles <= SHORT_KEYS else torch.int32)
    splats = depths.new_empty(pairs, dtype=torch.int32)
    launch(
        "emit_pairs",
        scalar,
        device,
        grid=blocks_for(count, BLOCK),
        block=BLOCK,
        count=count,
        width=width,
        height=height,
        key_bytes=keys.element_size(),
        records=address(records),
        bounds=address(bounds),
        order=address(order),
        pair_ends=address(pair_ends),
        keys=address(keys),
        splats=address(splats),
    )
    sorted_keys, by_tile = torch.sort(keys, stable=True)
    tile_starts = depths.new_empty(tiles + 1, dtype=torch.int64)
    launch(
        "tile_ranges",
        scalar,
        device,
        grid=blocks_for(tiles + 1, BLOCK),
        block=BLOCK,
        pairs=pairs,
        tiles=tiles,
        key_bytes=keys.element_size(),
        keys=address(sorted_keys),
        tile_starts=address(tile_starts),
    )
    return TileLists(records, tile_starts, splats[by_tile], floors)


def _prepare(
    inputs: list[Tensor], depths: Tensor, depth_slopes: Tensor | None, width: int, height: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Records, bounds, floors where there are slopes, and the number of tiles of each splat."""
    means2d, conics, opacities, features = inputs
    count = depths.shape[0]
    records, bounds = depths.new_empty(count, RECORD), depths.new_empty(count, RECORD)
    floors = None if depth_slopes is None else torch.empty_like(depths)
    tile_counts = depths.new_empty(count, dtype=torch.int32)
    launch(
        "prepare_splats",
        scalar_name(depths.dtype),
        depths.device,
        grid=blocks_for(count, BLOCK),
        block=BLOCK,
        count=count,
        width=width,
        height=height,
        channels=features.shape[1],
        means2d=address(means2d),
        conics=address(conics),
        opacities=address(opacities),
        features=address(features),
        depths=address(depths),
        depth_slopes=address(depth_slopes),
        records=address(records),
        bounds=address(bounds),
        floors=address(floors),
        tile_counts=address(tile_counts),
    )
    return records, bounds, floors, tile_counts


def _check_size(width: int, height: int) -> None:
    if max(width, height) > MAX_IMAGE_SIZE:
        raise UserError(
            f"The image is too large: {width} x {height} px.",
            f"Keep both sides at {MAX_IMAGE_SIZE} px or less.",
        )


def compiled_channels(channels: int) -> int:
    """The number of channels of the kernel that serves this many."""
    return next(compiled for compiled in CHANNELS if compiled >= channels)
