"""The memory that training steps take: ``python -m tools.bench.memory make|run FILE ...``, started by tools/bench/kernels.

Two processes: making a large input takes more memory than a step, and would be counted. The base is this process with
everything imported and a tiny step made, before the input is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from splat_engine import native
from splat_engine.formats.splats import ARRAY_NAMES, Splats
from tools.bench.inputs import BenchInput, camera_of, make_input

MEMORY_CASE = (1_000_000, 1600)
"""Splats and px."""
WARM_UP_CASE = (1000, 64)
PARAMETERS = 59
"""Numbers of a splat of SH degree 3."""
LATER_STEPS = 3


def peak_bytes() -> int:
    """Returns the largest resident size that this process has had.

    Linux's ru_maxrss begins with the size of the process that started this one, so its VmHWM is read in its place.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource  # not on Windows, where the rest of the benchmark runs

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def write_input(path: str, count: int, size_px: int) -> None:
    """Writes an input to an .npz, uncompressed."""
    given = make_input(count, size_px)
    arrays = {name: getattr(given.splats, name) for name in ARRAY_NAMES}
    np.savez(path, image_cotangent=given.image_cotangent, **arrays)


def read_input(path: str) -> BenchInput:
    """Reads what ``write_input`` wrote."""
    with np.load(path) as stored:
        splats = Splats(*(stored[name] for name in ARRAY_NAMES))
        cotangent = stored["image_cotangent"]
    return BenchInput(splats, camera_of(len(cotangent)), cotangent)


def measure(path: str, formation: str, threads: int) -> dict[str, Any]:
    """Makes steps on the input of a file; returns the record."""
    from tools.bench.training import (  # torch: not for the process that makes the input
        make_workload,
        set_up_process,
    )

    set_up_process(threads)
    make_workload(make_input(*WARM_UP_CASE), formation).step()
    base = peak_bytes()
    given = read_input(path)
    work = make_workload(given, formation)
    count, size_px = len(given.splats.means), given.camera.width
    del given
    work.step()
    first = peak_bytes()
    for _ in range(LATER_STEPS):
        work.step()
    megabyte = 1e-6
    return {
        "kind": "memory",
        "splats": count,
        "size_px": size_px,
        "formation": formation,
        "isa": native.isa(),
        "threads": threads,
        "base_mb": base * megabyte,
        "peak_mb": (first - base) * megabyte,
        "later_steps": LATER_STEPS,
        "later_peak_mb": (peak_bytes() - base) * megabyte,
        "parameters_moments_mb": 3 * PARAMETERS * count * 4 * megabyte,
    }


def main() -> int:
    """Reads the command line; returns the exit code."""
    task, path, first, second = sys.argv[1:]
    if task == "make":
        write_input(path, int(first), int(second))
    else:
        print(json.dumps(measure(path, first, int(second))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
