"""The rasterizer on a card: what happens between its kernels (csrc/cuda/tiles.cu, rasterize_fwd.cu, rasterize_bwd.cu).

Memory for N splats and P pairs of a splat and a tile, in float: 64 N bytes of records and bounds, 64 N of sums while going
backward, about 30 P while sorting, 4 P kept, and for a backward checkpoints of 32 (1 + C) P bytes, 128 P for colours. A
drawing without gradients keeps no checkpoints. Where they would take more than CHECKPOINT_SHARE of the card's memory, they
are made again while going backward, for a band of tiles at a time: one more forward and one more synchronisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda.launch import blocks_for, is_emulated, launch
from splat_engine.ops._cuda.structs import CHANNELS
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address

TILE = 16
"""px a side; as the next two, in csrc/cuda/raster.h."""
TILE_PIXELS = TILE * TILE
BUCKET = 32
PATCHES = 8
LINE = 16
"""Numbers of a splat's line of sums (csrc/include/footprint.h)."""
RECORD = 8
"""Numbers of a splat's record, and of its bounds."""
BLOCK = 256
BACKWARD_WARPS = 4
"""Of a block: a warp a bucket."""
SHORT_KEYS = 1 << 16
"""Up to this many tiles have keys of 16 bits."""
CHECKPOINT_SHARE = 4
"""Checkpoints take at most this part of the card's memory: a quarter."""
MAX_IMAGE_SIZE = 1 << 18
"""px a side, as on the CPU (csrc/cpu/rasterize.h)."""


class TileLists(NamedTuple):
    """Which splats each tile blends.

    Attributes:
        records: [N, 8] what blending needs of each splat; undefined for splats that touch no tile.
        tile_starts: [tiles + 1] int64, the first pair of each tile, row by row.
        pairs: [P] int32, the splats of each tile from front to back.
    """

    records: Tensor
    tile_starts: Tensor
    pairs: Tensor


class Checkpoints(NamedTuple):
    """Where the rays of a band of tiles were before each bucket.

    Attributes:
        first_tile: The band's.
        tiles: Number of tiles in it.
        rays: [P' // 32, 1 + C, 256] for the P' pairs of the band; undefined where no ray arrived.
        patch_buckets: [tiles of the image, 8] int32, the buckets that each patch of the band entered.
        bucket_tiles: [P' // 32 + tiles] int32, the tile of each bucket's slot.
    """

    first_tile: int
    tiles: int
    rays: Tensor
    patch_buckets: Tensor
    bucket_tiles: Tensor


class Saved(NamedTuple):
    """What a forward keeps for its backward; only read.

    Attributes:
        lists: The tiles' lists.
        checkpoints: Of all tiles; None where they would take too much memory.
    """

    lists: TileLists
    checkpoints: Checkpoints | None


def forward(
    inputs: list[Tensor],
    depths: Tensor,
    depth_slopes: Tensor | None,
    background: Tensor | None,
    width: int,
    height: int,
    *,
    save: bool = True,
) -> tuple[Tensor, Tensor, Saved | None]:
    """Draws splats.

    Args:
        inputs: means2d [N, 2], conics [N, 3], opacities [N], features [N, C], contiguous; C at most 8.
        depths: [N], contiguous.
        depth_slopes: [N, 2], contiguous, or None.
        background: [C] or None for zero.
        width: px.
        height: px.
        save: whether a backward will follow.

    Returns:
        image [height, width, C], alpha [height, width], and what the backward needs, or None.

    Raises:
        UserError: the image is too large, or the kernels cannot be had.
    """
    if depth_slopes is not None:
        raise UserError("The card's kernels cannot blend in each pixel's own order yet.", "Take the CPU.")
    lists = tile_lists(inputs, depths, width, height)
    features = inputs[3]
    channels, pairs, tiles = features.shape[1], lists.pairs.shape[0], lists.tile_starts.shape[0] - 1
    image, alpha = depths.new_empty(height, width, channels), depths.new_empty(height, width)
    fits = pairs <= _pairs_at_once(features)
    checkpoints = _room(lists, channels, 0, tiles, pairs) if save and fits else None
    _blend(
        lists,
        checkpoints,
        features,
        (width, height),
        background=address(background),
        image=address(image),
        alpha=address(alpha),
    )
    return image, alpha, Saved(lists, checkpoints) if save else None


def backward(
    inputs: list[Tensor],
    image: Tensor,
    alpha: Tensor,
    saved: Saved,
    v_image: Tensor,
    v_alpha: Tensor | None,
    *,
    absolute: bool = False,
) -> list[Tensor]:
    """Gradients of the inputs.

    Args:
        inputs: as the forward got them.
        image: as the forward gave it.
        alpha: as the forward gave it.
        saved: of that forward.
        v_image: [height, width, C], contiguous.
        v_alpha: [height, width], contiguous, or None for zero.
        absolute: whether to sum |dL/dmeans2d| over pixels, too.

    Returns:
        Gradients of means2d, conics, opacities, features; then, if asked for, the absolute sums [N, 2].
    """
    features = inputs[3]
    (count, channels), (height, width) = features.shape, alpha.shape
    sums = image.new_zeros(count, LINE)
    whole = saved.checkpoints
    for checkpoints in [whole] if whole else _bands(saved.lists, features, (width, height)):
        buckets = checkpoints.bucket_tiles.shape[0]
        launch(
            f"rasterize_bwd{'_absolute' if absolute else ''}_c{_compiled(channels)}",
            scalar_name(image.dtype),
            image.device,
            grid=blocks_for(buckets, BACKWARD_WARPS),
            block=BACKWARD_WARPS * BUCKET,
            buckets=buckets,
            width=width,
            height=height,
            channels=channels,
            features=address(features),
            image=address(image),
            alpha=address(alpha),
            v_image=address(v_image),
            v_alpha=address(v_alpha),
            sums=address(sums),
            **_addresses(saved.lists, checkpoints),
        )
    return _finish(inputs, saved.lists.records, sums, absolute)


def _finish(inputs: list[Tensor], records: Tensor, sums: Tensor, absolute: bool) -> list[Tensor]:
    """Gradients from the splats' lines of sums."""
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


def _blend(
    lists: TileLists,
    checkpoints: Checkpoints | None,
    features: Tensor,
    size: tuple[int, int],
    **pictures: int,
) -> None:
    """Blends the tiles of a band, or all; ``pictures``: background, image, alpha, left out where nothing is drawn."""
    channels = features.shape[1]
    launch(
        f"rasterize_fwd_c{_compiled(channels)}",
        scalar_name(features.dtype),
        features.device,
        grid=checkpoints.tiles if checkpoints else lists.tile_starts.shape[0] - 1,
        block=TILE_PIXELS,
        width=size[0],
        height=size[1],
        channels=channels,
        features=address(features),
        **pictures,
        **_addresses(lists, checkpoints),
    )


def _bands(lists: TileLists, features: Tensor, size: tuple[int, int]) -> Iterator[Checkpoints]:
    """Makes the checkpoints of a band of tiles after the other; a band's are gone when the next is asked for."""
    starts, limit = lists.tile_starts.tolist(), _pairs_at_once(features)
    first, tiles = 0, len(starts) - 1
    while first < tiles:
        end = first + 1  # a tile is the least that a band can be
        while end < tiles and starts[end + 1] - starts[first] <= limit:
            end += 1
        band = _room(lists, features.shape[1], first, end - first, starts[end] - starts[first])
        _blend(lists, band, features, size)
        yield band
        first = end


def _pairs_at_once(features: Tensor) -> int:
    """The number of pairs whose checkpoints may be in memory together."""
    bytes_of_pair = TILE_PIXELS // BUCKET * (1 + _compiled(features.shape[1])) * features.element_size()
    return _memory_bytes(features.device) // CHECKPOINT_SHARE // bytes_of_pair


def _memory_bytes(device: torch.device) -> int:
    """A card's memory; where kernels are emulated there is no limit."""
    if is_emulated():
        return 1 << 62
    return torch.cuda.get_device_properties(device).total_memory


def tile_lists(inputs: list[Tensor], depths: Tensor, width: int, height: int) -> TileLists:
    """Sorts splats by depth and into tiles; the arguments are those of ``forward``.

    The number of pairs is read back, which waits for the card: the one synchronisation of a training step.
    """
    _check_size(width, height)
    count, scalar, device = depths.shape[0], scalar_name(depths.dtype), depths.device
    records, bounds, tile_counts = _prepare(inputs, depths, width, height)
    order = torch.sort(depths, stable=True).indices
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
    return TileLists(records, tile_starts, splats[by_tile])


def _prepare(inputs: list[Tensor], depths: Tensor, width: int, height: int) -> tuple[Tensor, Tensor, Tensor]:
    """Records, bounds, and the number of tiles of each splat."""
    means2d, conics, opacities, features = inputs
    count = depths.shape[0]
    records, bounds = depths.new_empty(count, RECORD), depths.new_empty(count, RECORD)
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
        records=address(records),
        bounds=address(bounds),
        tile_counts=address(tile_counts),
    )
    return records, bounds, tile_counts


def _check_size(width: int, height: int) -> None:
    if max(width, height) > MAX_IMAGE_SIZE:
        raise UserError(
            f"The image is too large: {width} x {height} px.",
            f"Keep both sides at {MAX_IMAGE_SIZE} px or less.",
        )


def _compiled(channels: int) -> int:
    """The number of channels of the kernel that serves this many."""
    return next(compiled for compiled in CHANNELS if compiled >= channels)


def _room(lists: TileLists, channels: int, first_tile: int, tiles: int, pairs: int) -> Checkpoints:
    """Room for the checkpoints of a band of tiles with so many pairs."""
    return Checkpoints(
        first_tile,
        tiles,
        lists.records.new_empty(pairs // BUCKET, 1 + _compiled(channels), TILE_PIXELS),
        lists.pairs.new_empty(lists.tile_starts.shape[0] - 1, PATCHES),
        lists.pairs.new_empty(pairs // BUCKET + tiles),
    )


def _addresses(lists: TileLists, checkpoints: Checkpoints | None) -> dict[str, int]:
    """The fields that say which splats a tile blends, and where checkpoints are."""
    fields = {
        "records": address(lists.records),
        "tile_starts": address(lists.tile_starts),
        "pairs": address(lists.pairs),
    }
    if checkpoints is not None:
        fields |= {
            "first_tile": checkpoints.first_tile,
            "checkpoints": address(checkpoints.rays),
            "patch_buckets": address(checkpoints.patch_buckets),
            "bucket_tiles": address(checkpoints.bucket_tiles),
        }
    return fields
