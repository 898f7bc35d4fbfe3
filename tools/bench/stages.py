"""Where the time of a training step goes: the calls of the native library, timed one by one, and what is left.

It works for any implementation of the step, since everything native passes through ``Library.call``. An op that no stage
names is a stage of its own.
"""

from __future__ import annotations

import ctypes
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType

from splat_engine.native.library import Library
from splat_engine.native.measure import RasterCounts

RASTER_FORWARDS = ("rasterize_fwd",)
"""Ops that bin and blend, with the field ``context``: their time is split in two."""
BIN, BLEND, RASTER_BACKWARD = "bin, sort", "blend", "rasterize backward"
PYTHON = "python, torch"
"""What is left of a step: everything that is not the native library, and the timing's own some 20 microseconds."""
STAGE_OF_OP = {
    "project_fwd": "project",
    "sh_colors_fwd": "sh",
    "rasterize_fwd": BLEND,
    "photometric_loss": "loss, SSIM",
    "rasterize_bwd": RASTER_BACKWARD,
    "update_splats": "project and sh backward, Adam",
}
STAGES = ("project", "sh", BIN, BLEND, "loss, SSIM", RASTER_BACKWARD, "project and sh backward, Adam", PYTHON)
"""The order in which they are shown."""


class NativeClock:
    """Sums the seconds of each native op while it is entered.

    Attributes:
        seconds: Op name to seconds; sorting and binning count as the op ``BIN``, not with their forward.
        contexts: (handle, scalar) of each forward's context; valid while the forward's owner keeps it.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.contexts: list[tuple[int, str]] = []
        self._original: Callable[..., None] | None = None

    def __enter__(self) -> NativeClock:
        original = Library.call
        counts = (ctypes.c_int64 * len(RasterCounts._fields))()

        def timed(library: Library, op: str, scalar: str, /, **fields: object) -> None:
            start = time.perf_counter()
            original(library, op, scalar, **fields)
            self.seconds[op] += time.perf_counter() - start
            slot = fields.get("context")
            if op not in RASTER_FORWARDS or not isinstance(slot, int):
                return
            handle = ctypes.c_void_p.from_address(slot).value
            assert handle is not None
            self.contexts.append((handle, scalar))
            original(
                library, "raster_counts", scalar, context=handle, replay=0, counts=ctypes.addressof(counts)
            )
            binning = RasterCounts(*counts).bin_ns * 1e-9
            self.seconds[BIN] += binning
            self.seconds[op] -= binning

        self._original = original
        Library.call = timed  # type: ignore[method-assign]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._original is not None
        Library.call = self._original  # type: ignore[method-assign]


def time_stages(step: Callable[[], object]) -> dict[str, float]:
    """Runs a step once with the clock; returns stage to milliseconds, which add up to the step's."""
    with NativeClock() as clock:
        start = time.perf_counter()
        step()
        total = time.perf_counter() - start
    found: defaultdict[str, float] = defaultdict(float)
    for op, seconds in clock.seconds.items():
        found[STAGE_OF_OP.get(op, op)] += seconds * 1e3
    found[PYTHON] = (total - sum(clock.seconds.values())) * 1e3
    order = [*STAGES, *sorted(found.keys() - set(STAGES))]
    return {name: found[name] for name in order if name in found}
