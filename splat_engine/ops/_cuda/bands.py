"""Bands of tiles: what a backward keeps a pair is made for as many tiles at a time as a share of the card's memory holds."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from splat_engine.ops._cuda.launch import is_emulated

MEMORY_SHARE = 4
"""A band takes at most this part of the card's memory: a quarter."""


def room_bytes(device: torch.device) -> int:
    """What a band may take."""
    return _memory_bytes(device) // MEMORY_SHARE


def _memory_bytes(device: torch.device) -> int:
    """A card's memory; where kernels are emulated there is no limit."""
    if is_emulated():
        return 1 << 62
    return torch.cuda.get_device_properties(device).total_memory


def bands_of(starts: list[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yields the tiles of each band, half open: as many as have at most ``limit`` items, but at least one.

    Args:
        starts: The items before each tile, and their number.
        limit: Items.
    """
    first, tiles = 0, len(starts) - 1
    while first < tiles:
        end = first + 1
        while end < tiles and starts[end + 1] - starts[first] <= limit:
            end += 1
        yield first, end
        first = end
