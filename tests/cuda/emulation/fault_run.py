"""Runs kernels of faults.cu: ``python -m tests.cuda.emulation.fault_run FAULT KERNEL...``, a process without torch.

The tests start it under a sanitizer, which must be the first in its process.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from splat_engine.native.structs import structure_of
from tests.cuda.emulation.launcher import EmulatedLauncher

FAULTS = {"faults": Path(__file__).resolve().with_name("faults.cu")}
FIELDS = [("count", "i64"), ("fault", "i64"), ("given", "ptr"), ("out", "ptr")]
THREADS = 64
"""Of a block: two warps."""
COUNT = 2 * THREADS
"""Numbers that a kernel gets and may write: two batches."""
BLOCKS = {"race_of_blocks": 4}
"""Blocks of the kernels that want more than one."""


def run_fault(
    kernel: str, fault: int, *, scalar: str = "f32", launcher: EmulatedLauncher | None = None
) -> list[float]:
    """Runs a kernel of faults.cu on the numbers 1, 2, ... and returns what it wrote.

    Args:
        kernel: its name.
        fault: 0: the sound version, 1: the one with a fault.
        scalar: "f32" or "f64".
        launcher: one made with FAULTS; None: threads and blocks in order.
    """
    launcher = launcher or EmulatedLauncher(sources=FAULTS)
    number = ctypes.c_float if scalar == "f32" else ctypes.c_double
    count = THREADS if kernel == "past_the_end" else COUNT
    given, out = (number * COUNT)(*range(1, COUNT + 1)), (number * count)()
    with _on_the_heap(ctypes.sizeof(out)) as place:
        arguments = structure_of(kernel, FIELDS, scalar)(COUNT, fault, ctypes.addressof(given), place)
        launcher.launch(
            f"{kernel}_{scalar}",
            arguments,
            grid=(BLOCKS.get(kernel, 1), 1),
            block=THREADS,
            shared_bytes=THREADS * 8,
        )
        ctypes.memmove(out, place, ctypes.sizeof(out))
    return list(out)


@contextmanager
def _on_the_heap(size: int) -> Iterator[int]:
    """Memory filled with zeros, from malloc itself: a sanitizer knows its bounds."""
    heap = ctypes.CDLL(None)
    heap.calloc.restype, heap.calloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]
    heap.free.argtypes = [ctypes.c_void_p]
    place = heap.calloc(1, size)
    try:
        yield place
    finally:
        heap.free(place)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", type=int, choices=(0, 1))
    parser.add_argument("kernels", nargs="+")
    options = parser.parse_args()
    for kernel in options.kernels:
        run_fault(kernel, options.fault)


if __name__ == "__main__":
    main()
