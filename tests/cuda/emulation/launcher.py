"""The launcher that stands in for a card: it runs kernels on the CPU, thread by thread (see README.md beside this folder)."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from tests.cuda.emulation import build

ORDERS = ("forward", "reverse", "random", "greedy-warp")
"""Of the threads of a block. Of blocks, the first three."""
TEXT_BYTES = 1 << 16
_one_at_a_time = threading.Lock()  # the scheduler has one set of stacks


class EmulationError(AssertionError):
    """A kernel broke a rule of CUDA; the text says which, where, and where each thread stood."""


class _Removed(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("line", ctypes.c_int), ("passed", ctypes.c_longlong)]


class _Request(ctypes.Structure):
    """The mirror of LaunchRequest in launch.cpp."""

    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("anchor", ctypes.c_void_p),
        ("grid_x", ctypes.c_int),
        ("grid_y", ctypes.c_int),
        ("block", ctypes.c_int),
        ("thread_order", ctypes.c_int),
        ("block_order", ctypes.c_int),
        ("seconds_max", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("shared_bytes", ctypes.c_uint64),
        ("removed", _Removed),
        ("error", ctypes.c_char_p),
        ("error_bytes", ctypes.c_uint64),
    ]


class EmulatedLauncher:
    """Runs kernels on the CPU.

    Args:
        threads: order in which the threads of a block take their turns, one of ORDERS. "greedy-warp" lets one warp run as
            far ahead of the others as it can.
        blocks: order of the blocks: "forward", "reverse" or "random".
        seed: of random orders; also chooses the warp that runs ahead.
        sources: name to .cu file; None: those of csrc/cuda.
        removed: file name and line of a __syncthreads() or __syncwarp() that is passed over as if it were not there.
        seconds_max: processor time after which a launch is an error; not under a sanitizer.

    Attributes:
        launches: entry point to the number of its launches.
        seconds: entry point to the time spent in it.
        passed: how often a thread came by the barrier that is removed.
    """

    def __init__(
        self,
        threads: str = "forward",
        blocks: str = "forward",
        seed: int = 0,
        sources: dict[str, Path] | None = None,
        removed: tuple[str, int] = ("", 0),
        seconds_max: int = 100,
    ) -> None:
        self._orders = (ORDERS.index(threads), ORDERS[:3].index(blocks))
        self._seed = seed
        self._sources = build.sources() if sources is None else sources
        self._removed = removed
        self._seconds_max = seconds_max
        self._kernels: dict[str, ctypes.CDLL] = {}
        self.launches: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.passed = 0

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
        request = _Request(
            kernel=ctypes.cast(library[f"emulated_{entry}"], ctypes.c_void_p),
            arguments=ctypes.addressof(arguments),
            anchor=ctypes.cast(library.emulation_anchor, ctypes.c_void_p),
            grid_x=grid[0],
            grid_y=grid[1],
            block=block,
            thread_order=self._orders[0],
            block_order=self._orders[1],
            seconds_max=self._seconds_max,
            seed=self._seed + self.launches.total(),
            shared_bytes=shared_bytes,
            removed=_Removed(self._removed[0].encode(), self._removed[1], 0),
            error=ctypes.cast(text, ctypes.c_char_p),
            error_bytes=TEXT_BYTES,
        )
        start = time.perf_counter()
        with _one_at_a_time:
            failed = _scheduler().emulation_launch(ctypes.byref(request))
        self.seconds[entry] += time.perf_counter() - start
        self.launches[entry] += 1
        self.passed += request.removed.passed
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
    _scheduler()
    return ctypes.CDLL(str(library))


@cache
def _scheduler() -> ctypes.CDLL:
    """The library that runs the threads; kernels find its functions."""
    library = build.build_scheduler(build.variant_of_process())
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
