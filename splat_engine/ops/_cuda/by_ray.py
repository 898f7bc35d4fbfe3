"""Each pixel's own order on a card: what happens between the kernels of rasterize_by_ray.cu and rasterize_by_ray_bwd.cu.

Memory for P pairs of a splat and a tile: 1 P bytes of patches' bits, for a backward 4 P more; while going backward 8 P and, in
float, 256 bytes for each pair and patch that rays come by before they end. Where those would take more than a band's share of
the card's memory (bands.py), they are made for a band of tiles at a time. Their number is read back, which waits for the card:
a training step waits twice, where one with a single order waits once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.ops._cuda.bands import bands_of, room_bytes
from splat_engine.ops._cuda.launch import launch
from splat_engine.ops._cuda.tiles import TILE_PIXELS, TileLists, compiled_channels
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address

SLOT = (2, 32)
"""Weight and dL/d(ln alpha) of a patch's pixels (csrc/cuda/rasterize_by_ray_bwd.cu)."""


class SavedRays(NamedTuple):
    """What a forward in each pixel's own order keeps for its backward, besides the lists; only read.

    Attributes:
        depths: [N].
        patches: [P] uint8, a bit for each patch of the tile that the splat touches before all its rays have ended.
        counts: [P] int32, the number of those bits.
        scans: [tiles] int32, how often each tile's list was gone through: more than once where a ray meets more splats at once
            than it has room for.
    """

    depths: Tensor
    patches: Tensor
    counts: Tensor
    scans: Tensor


def forward(
    inputs: list[Tensor],
    depths: Tensor,
    lists: TileLists,
    background: Tensor | None,
    width: int,
    height: int,
    *,
    save: bool,
) -> tuple[Tensor, Tensor, SavedRays | None]:
    """Draws splats; the arguments are those of ``rasterize.forward``, and the tiles' lists by floors.

    Returns:
        image [height, width, C], alpha [height, width], and what the backward needs, or None.
    """
    features = inputs[3]
    channels, pairs, tiles = features.shape[1], lists.pairs.shape[0], lists.tile_starts.shape[0] - 1
    image, alpha = depths.new_empty(height, width, channels), depths.new_empty(height, width)
    patches = _touched_patches(lists, width)
    rays = SavedRays(depths, patches, lists.pairs.new_empty(pairs), lists.pairs.new_empty(tiles))
    launch(
        f"rasterize_by_ray_fwd_c{compiled_channels(channels)}",
        scalar_name(depths.dtype),
        depths.device,
        grid=tiles,
        block=TILE_PIXELS,
        width=width,
        height=height,
        channels=channels,
        features=address(features),
        background=address(background),
        image=address(image),
        alpha=address(alpha),
        counts=address(rays.counts) if save else 0,
        scans=address(rays.scans) if save else 0,
        **_walk(lists, depths, patches),
    )
    return image, alpha, rays if save else None


def add_to(
    sums: Tensor,
    features: Tensor,
    lists: TileLists,
    rays: SavedRays,
    image: Tensor,
    alpha: Tensor,
    v_image: Tensor,
    v_alpha: Tensor | None,
    *,
    absolute: bool,
) -> None:
    """Goes backward as far as the splats' lines of sums [N, LINE], which it adds to; the rest is as in ``rasterize.backward``."""
    channels, (height, width) = features.shape[1], alpha.shape
    slots = torch.cat((rays.counts.new_zeros(1), rays.counts)).cumsum(0, dtype=torch.int64)
    common = {
        "width": width,
        "height": height,
        "channels": channels,
        "slots": address(slots),
        "v_image": address(v_image),
    }
    walk, scalar, kernel = (
        _walk(lists, rays.depths, rays.patches),
        scalar_name(sums.dtype),
        compiled_channels(channels),
    )
    for first_tile, tiles, number in _bands(lists, slots, sums):
        shares = sums.new_zeros(number, *SLOT)
        band = {"first_tile": first_tile, "shares": address(shares), **common}
        launch(
            f"ray_shares_c{kernel}",
            scalar,
            sums.device,
            grid=tiles,
            block=TILE_PIXELS,
            features=address(features),
            image=address(image),
            alpha=address(alpha),
            v_alpha=address(v_alpha),
            **band,
            **walk,
        )
        launch(
            f"rasterize_by_ray_bwd{'_absolute' if absolute else ''}_c{kernel}",
            scalar,
            sums.device,
            grid=tiles,
            block=TILE_PIXELS,
            sums=address(sums),
            **band,
            **{name: walk[name] for name in ("records", "tile_starts", "pairs", "patches")},
        )


def _bands(lists: TileLists, slots: Tensor, sums: Tensor) -> list[tuple[int, int, int]]:
    """(first tile, tiles, slots) of each band, by one reading of the card: of all slots, or where they are too many each tile's."""
    tiles, number = lists.tile_starts.shape[0] - 1, int(slots[-1].item())
    limit = room_bytes(sums.device) // (SLOT[0] * SLOT[1] * sums.element_size())
    if number <= limit:
        return [(0, tiles, number)] if number else []
    starts = slots[lists.tile_starts].tolist()
    return [(first, end - first, starts[end] - starts[first]) for first, end in bands_of(starts, limit)]


def _touched_patches(lists: TileLists, width: int) -> Tensor:
    """[P] uint8, a bit for each patch of a pair's tile that its splat touches."""
    patches = torch.empty_like(lists.pairs, dtype=torch.uint8)
    launch(
        "touched_patches",
        scalar_name(lists.records.dtype),
        lists.records.device,
        grid=lists.tile_starts.shape[0] - 1,
        block=TILE_PIXELS,
        width=width,
        records=address(lists.records),
        tile_starts=address(lists.tile_starts),
        pairs=address(lists.pairs),
        patches=address(patches),
    )
    return patches


def _walk(lists: TileLists, depths: Tensor, patches: Tensor) -> dict[str, int]:
    """The fields of every kernel that walks along rays."""
    return {
        "records": address(lists.records),
        "depths": address(depths),
        "floors": address(lists.floors),
        "tile_starts": address(lists.tile_starts),
        "pairs": address(lists.pairs),
        "patches": address(patches),
    }
