"""Time on a card, by its own events; and on the processor where the card is emulated."""

from __future__ import annotations

import ctypes
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from splat_engine.ops._cuda.launch import Launcher, emulated_by


def finish(device: torch.device) -> None:
    """Waits until a card has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def elapsed_ms(work: Callable[[], object], device: torch.device) -> float:
    """Returns the milliseconds from the start of some work to its end on the device, the processor's share included."""
    finish(device)
    start = time.perf_counter()
    work()
    finish(device)
    return 1e3 * (time.perf_counter() - start)


def least_ms(work: Callable[[], object], device: torch.device, *, seconds: float, in_a_row: int = 1) -> float:
    """Returns the least milliseconds of some work; the first two rounds do not count.

    Args:
        work: What to time.
        device: Where it runs.
        seconds: Of rounds, at least three of them.
        in_a_row: How often it is done in a round without waiting for the card in between.
    """

    def run() -> None:
        for _ in range(in_a_row):
            work()

    run()
    run()
    times: list[float] = []
    end_s = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end_s:
        times.append(elapsed_ms(run, device) / in_a_row)
    return min(times)


class KernelClock:
    """A launcher that times each kernel of another launcher.

    Args:
        launcher: Runs the kernels.
        device: Where.
    """

    def __init__(self, launcher: Launcher, device: torch.device) -> None:
        self._launcher = launcher
        self._device = device
        self._spans: list[tuple[str, Any, Any]] = []

    def launch(
        self, entry: str, arguments: ctypes.Structure, *, grid: tuple[int, int], block: int, shared_bytes: int
    ) -> None:
        """Runs one kernel, between two marks of time."""
        start = self._mark()
        self._launcher.launch(entry, arguments, grid=grid, block=block, shared_bytes=shared_bytes)
        self._spans.append((entry, start, self._mark()))

    def _mark(self) -> Any:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def milliseconds(self) -> dict[str, float]:
        """Returns entry point to the time of its launches since the last call."""
        finish(self._device)
        found: defaultdict[str, float] = defaultdict(float)
        for entry, start, end in self._spans:
            found[entry] += start.elapsed_time(end) if self._device.type == "cuda" else 1e3 * (end - start)
        self._spans.clear()
        return dict(found)


@contextmanager
def kernel_clock(launcher: Launcher, device: torch.device) -> Iterator[KernelClock]:
    """While it lasts, all kernels are timed."""
    clock = KernelClock(launcher, device)
    with emulated_by(clock):
        yield clock


def copy_bytes_per_s(device: torch.device, size_bytes: int, *, seconds: float) -> float:
    """Returns the rate of a plain copy on the device, bytes read and written added up."""
    source = torch.ones(size_bytes // 4, device=device)
    target = torch.empty_like(source)
    return 2e3 * source.nbytes / least_ms(lambda: target.copy_(source), device, seconds=seconds, in_a_row=5)
