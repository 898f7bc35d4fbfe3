"""The launcher that stands in for a card: it runs kernels on the CPU, thread by thread (see README.md beside this folder)."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections import Counter
from functools import cache
from pathlib import Path

from tests.cuda.emulation import build

ORDERS = ("forward", "reverse", "random", "greedy-warp")
"""Of the threads of a block. Of blocks, the first three."""
TEXT_BYTES = 1 << 16


class EmulationError(AssertionError):
    """A kernel broke a rule of CUDA; the text says which, where, and where each thread stood."""


class EmulatedLauncher:
    """Runs kernels on the CPU.

    Args:
        threads: order in which the threads of a block take their turns, one of ORDERS. "greedy-warp" lets one warp run as
            far ahead of the others as it can.
        blocks: order of the blocks: "forward", "reverse" or "random".
        seed: of random orders; also chooses the warp that runs ahead.
        sources: name to .cu file; None: those of csrc/cuda.

    Attributes:
        launches: entry point to the number of its launches.
        seconds: entry point to the time spent in it.
    """

    def __init__(
        self,
        threads: str = "forward",
        blocks: str = "forward",
        seed: int = 0,
        sources: dict[str, Path] | None = None,
    ) -> None:
        self._orders = (ORDERS.index(threads), ORDERS[:3].index(blocks))
        self._seed = seed
        self._sources = build.sources() if sources is None else sources
        self._lock = threading.Lock()
        self._kernels: dict[str, ctypes.CDLL] = {}
        self.launches: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def launch(
        self, entry: str, arguments: ctypes.Structure, *, grid: tuple[int, int], block: int, shared_bytes: int
    ) -> None:
        """Runs one kernel to its end; see ``splat_engine.ops._cuda.launch.Launcher``.

        Raises:
            EmulationError: the launch is one that a card would refuse, or the kernel broke a rule.
        """
        library = self._library_of(entry)
        _check_launch(library, entry, arguments, grid, block, shared_bytes)
        text = ctypes.create_string_buffer(TEXT_BYTES)
        kernel = ctypes.cast(library[f"emulated_{entry}"], ctypes.c_void_p)
        library.emulation_anchor.restype = ctypes.c_void_p
        start = time.perf_counter()
        with self._lock:
            failed = _scheduler().emulation_launch(
                kernel,
                ctypes.byref(arguments),
                ctypes.c_void_p(library.emulation_anchor()),
                *grid,
                block,
                ctypes.c_size_t(shared_bytes),
                *self._orders,
                ctypes.c_uint64(self._seed + self.launches.total()),
                text,
                ctypes.c_size_t(TEXT_BYTES),
            )
            self.launches[entry] += 1
            self.seconds[entry] += time.perf_counter() - start
        if failed:
            raise EmulationError(f"{entry}: {text.value.decode()}")

    def _library_of(self, entry: str) -> ctypes.CDLL:
        """The library with an entry point; sources are compiled when one of theirs is first launched."""
        if entry not in self._kernels:
            likely = sorted(self._sources.values(), key=lambda source: not _names(source, entry))
            libraries = (_loaded(build.build_kernels(source)) for source in likely)
            found = next((library for library in libraries if hasattr(library, f"emulated_{entry}")), None)
            if found is None:
                raise EmulationError(f"no source of {sorted(self._sources)} has a kernel {entry}")
            self._kernels[entry] = found
        return self._kernels[entry]


_LIMITS = {"shared": 48 << 10, "grid_x": 2**31 - 1, "grid_y": 65535}
"""What every card from sm_75 on takes without asking."""


def _check_launch(
    library: ctypes.CDLL,
    entry: str,
    arguments: ctypes.Structure,
    grid: tuple[int, int],
    block: int,
    shared_bytes: int,
) -> None:
    size, threads = library[f"bytes_of_{entry}"](), library[f"threads_of_{entry}"]()
    if ctypes.sizeof(arguments) != size:
        raise EmulationError(
            f"{entry}: Python's structure has {ctypes.sizeof(arguments)} bytes, the kernel's {size}"
        )
    if not 1 <= block <= threads:
        raise EmulationError(f"{entry}: a block of {block} threads; its launch bounds allow 1 to {threads}")
    if not (1 <= grid[0] <= _LIMITS["grid_x"] and 1 <= grid[1] <= _LIMITS["grid_y"]):
        raise EmulationError(
            f"{entry}: a grid of {grid[0]} x {grid[1]} blocks; a card takes 2^31 - 1 x 65535"
        )
    if shared_bytes > _LIMITS["shared"]:
        raise EmulationError(f"{entry}: {shared_bytes} bytes of dynamic shared memory; 48 KiB are sure")


def _names(source: Path, entry: str) -> bool:
    """Whether a source names a kernel in SPLAT_KERNEL."""
    name = re.escape(entry.rpartition("_")[0])
    return re.search(rf"SPLAT_KERNEL\(\s*{name}\s*,", source.read_text(encoding="utf-8")) is not None


@cache
def _loaded(library: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(library))


def _scheduler() -> ctypes.CDLL:
    """The library that runs the threads."""
    return _loaded(build.build_scheduler(build.variant_of_process()))
