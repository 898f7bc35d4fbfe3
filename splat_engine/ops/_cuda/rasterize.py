"""The rasterizer on a card: what happens between its kernels (csrc/cuda/tiles.cu, rasterize_fwd.cu, rasterize_bwd.cu).

Memory for N splats and P pairs of a splat and a tile, in float: besides the lists (tiles.py) 64 N bytes of sums while going
backward, and for a backward checkpoints of 32 (1 + C) P bytes, 128 P for colours. A drawing without gradients keeps no
checkpoints. Where they would take more than a band's share of the card's memory (bands.py), they are made again while going
backward, for a band of tiles at a time: one more forward and one more synchronisation. Where each pixel has its own order,
``by_ray`` does it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from splat_engine.ops._cuda import by_ray
from splat_engine.ops._cuda.bands import bands_of, room_bytes
from splat_engine.ops._cuda.launch import blocks_for, launch
from splat_engine.ops._cuda.sums import LINE, finish
from splat_engine.ops._cuda.tiles import TILE_PIXELS, TileLists, compiled_channels, tile_lists
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address

BUCKET = 32
"""As the next, in csrc/cuda/raster.h."""
PATCHES = 8
BACKWARD_WARPS = 4
"""Of a block: a warp a bucket."""


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
        checkpoints: Of all tiles; None where they would take too much memory, or each pixel has its own order.
        rays: What goes with each pixel's own order, or None.
    """

    lists: TileLists
    checkpoints: Checkpoints | None
    rays: by_ray.SavedRays | None = None


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
    lists = tile_lists(inputs, depths, width, height, depth_slopes)
    if depth_slopes is not None:
        image, alpha, rays = by_ray.forward(inputs, depths, lists, background, width, height, save=save)
        return image, alpha, None if rays is None else Saved(lists, None, rays)
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
    if saved.rays is not None:
        by_ray.add_to(
            sums, features, saved.lists, saved.rays, image, alpha, v_image, v_alpha, absolute=absolute
        )
        return finish(inputs, saved.lists.records, sums, absolute)
    whole = saved.checkpoints
    for checkpoints in [whole] if whole else _bands(saved.lists, features, (width, height)):
        buckets = checkpoints.bucket_tiles.shape[0]
        launch(
            f"rasterize_bwd{'_absolute' if absolute else ''}_c{compiled_channels(channels)}",
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
    return finish(inputs, saved.lists.records, sums, absolute)


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
        f"rasterize_fwd_c{compiled_channels(channels)}",
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
    starts = lists.tile_starts.tolist()
    for first, end in bands_of(starts, _pairs_at_once(features)):
        band = _room(lists, features.shape[1], first, end - first, starts[end] - starts[first])
        _blend(lists, band, features, size)
        yield band


def _pairs_at_once(features: Tensor) -> int:
    """The number of pairs whose checkpoints may be in memory together."""
    bytes_of_pair = (
        TILE_PIXELS // BUCKET * (1 + compiled_channels(features.shape[1])) * features.element_size()
    )
    return room_bytes(features.device) // bytes_of_pair


def _room(lists: TileLists, channels: int, first_tile: int, tiles: int, pairs: int) -> Checkpoints:
    """Room for the checkpoints of a band of tiles with so many pairs."""
    return Checkpoints(
        first_tile,
        tiles,
        lists.records.new_empty(pairs // BUCKET, 1 + compiled_channels(channels), TILE_PIXELS),
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
