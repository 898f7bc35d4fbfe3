"""What the CPU library did and what it could do: counts of a forward, and the peak rate of arithmetic. For benchmarks."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from splat_engine.native.library import call

PEAK_FACTOR, PEAK_ADDEND = 0.75, 0.25
"""Multiply-adds with these tend to 1: never infinite, never denormal."""
PEAK_ROUNDS_FIRST = 10_000
"""Rounds of a first try: some 20 to 80 microseconds."""


class RasterCounts(NamedTuple):
    """What a forward of the rasterizer did; the fields are those of ``RasterCount`` in csrc/cpu/abi.h, in its order.

    Attributes:
        pairs: (splat, tile) pairs that binning made.
        work: Blocks evaluated + pairs visited, as the forward counted them.
        lanes: Pixels of a block.
        bin_ns, blend_ns: Time of sorting and binning, and of blending.
        visited_pairs: Pairs up to where all rays of their tile have ended; 0 without a replay, as the next two.
        blocks: Blocks evaluated; times ``lanes`` they are the evaluated pixel-splat pairs.
        blended: Pixel-splat pairs that were blended.
    """

    pairs: int
    work: int
    lanes: int
    bin_ns: int
    blend_ns: int
    visited_pairs: int
    blocks: int
    blended: int

    @property
    def evaluated(self) -> int:
        """Evaluated pixel-splat pairs."""
        return self.blocks * self.lanes


def raster_counts(context: int | None, scalar: str = "f32", *, replay: bool = True) -> RasterCounts:
    """Returns what a forward did.

    Args:
        context: The handle that the forward left (``RasterContext.handle``), still owned by somebody.
        scalar: "f32" or "f64", the forward's type.
        replay: Also make the last three counts, which takes about as long as the forward did.

    Raises:
        UserError: The handle is None, or the forward was of the other type.
    """
    counts = np.zeros(len(RasterCounts._fields), np.int64)
    call("raster_counts", scalar, context=context, replay=int(replay), counts=counts.ctypes.data)
    return RasterCounts(*counts.tolist())


def peak_flops(scalar: str = "f32", *, seconds: float = 0.02, tries: int = 5) -> float:
    """Measures the peak rate of arithmetic of the instruction set and the number of threads in use.

    Args:
        scalar: "f32" or "f64".
        seconds: About how long one try shall take.
        tries: The fastest counts.

    Returns:
        Additions and multiplications a second, of all threads together.
    """
    first_rate = _multiply_add_rate(scalar, PEAK_ROUNDS_FIRST)
    operations_a_round = _multiply_adds(scalar, 1)[0]
    rounds = max(PEAK_ROUNDS_FIRST, int(seconds * first_rate / operations_a_round))
    return max(_multiply_add_rate(scalar, rounds) for _ in range(tries))


def _multiply_adds(scalar: str, rounds: int) -> tuple[int, float]:
    """Runs the loop; returns (operations, the sum of the first thread's registers)."""
    operations = np.zeros(1, np.int64)
    total = np.zeros(1, np.float32 if scalar == "f32" else np.float64)
    call(
        "peak_fma",
        scalar,
        rounds=rounds,
        factor=PEAK_FACTOR,
        addend=PEAK_ADDEND,
        operations=operations.ctypes.data,
        sum=total.ctypes.data,
    )
    return int(operations[0]), float(total[0])


def _multiply_add_rate(scalar: str, rounds: int) -> float:
    start = time.perf_counter()
    operations, _ = _multiply_adds(scalar, rounds)
    return operations / (time.perf_counter() - start)
