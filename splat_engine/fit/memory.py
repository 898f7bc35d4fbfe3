"""What to say, and to propose, when a fit runs out of memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch

from splat_engine.fit.place import Place
from splat_engine.formats.errors import OutOfMemory

SAFETY = 0.9
"""Share of the splats that would just fit, by proportion, which is proposed: a step's needs differ from view to view."""
UNKNOWN_SHARE = 0.75
"""Share of the splats that is proposed where the memory in use is not known."""
_UNITS = {"bytes": 0, "KiB": 10, "MiB": 20, "GiB": 30}
_ASKED = re.compile(r"tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)", re.IGNORECASE)
_SYSTEM = Path("/proc/meminfo")


class Memory(NamedTuple):
    """Bytes of a device's memory; each is None where it is not known.

    Attributes:
        needed: What the failed allocation asked for.
        free: What could still be had, cached blocks of torch's included.
        total: What the device has.
        used: What the fit's tensors take.
    """

    needed: int | None
    free: int | None
    total: int | None
    used: int | None


def is_out_of_memory(error: BaseException) -> bool:
    """Tells whether an error says that memory ran out: ours, torch's on a card or on the processor, or Python's."""
    if isinstance(error, OutOfMemory | MemoryError | torch.OutOfMemoryError):
        return True
    # On the processor torch raises a plain RuntimeError.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def measure(error: BaseException, place: Place) -> Memory:
    """Returns what is known about a device's memory right after an error."""
    asked = _ASKED.search(str(error))
    needed = None if asked is None else int(float(asked[1]) * 2 ** _UNITS[asked[2]])
    memory = place.memory_bytes()
    if memory is None:
        return Memory(needed, *system_bytes(), None)
    used, reserved = torch.cuda.memory_allocated(place.device), torch.cuda.memory_reserved(place.device)
    return Memory(needed, memory[0] + reserved - used, memory[1], used)


def system_bytes() -> tuple[int | None, int | None]:
    """(free, total) of the processor's memory, where the system says: Linux alone."""
    if not _SYSTEM.is_file():
        return None, None
    lines = dict(line.split(":", 1) for line in _SYSTEM.read_text().splitlines())
    free, total = (int(lines[name].split()[0]) << 10 for name in ("MemAvailable", "MemTotal"))
    return free, total


def fewer_splats(splats: int, memory: Memory) -> int:
    """Returns how many splats to try next: at least 1, and fewer than there are where there are several."""
    share = UNKNOWN_SHARE
    if memory.needed and memory.used and memory.free is not None:
        would_fit = (memory.used + memory.free) / (memory.used + memory.needed)
        share = min(SAFETY, SAFETY * would_fit)
    proposed = int(share * splats)
    for unit in (10_000, 1000, 100, 10):
        if proposed >= 10 * unit:
            return proposed // unit * unit
    return max(1, proposed)


def out_of_memory(
    error: BaseException, memory: Memory, place: Place, *, splats: int, checkpoint_step: int | None
) -> OutOfMemory:
    """Returns the error in words, with the numbers, and with a budget to try.

    Args:
        error: What was raised.
        memory: What ``measure`` returned when it was raised.
        place: Where the fit was.
        splats: How many there were, or were to be.
        checkpoint_step: Step of the run's checkpoint; None if there is none.
    """
    names = {"needed": memory.needed, "free": memory.free, "total": memory.total}
    numbers = [f"{words(value)} {name}" for name, value in names.items() if value is not None]
    where = place.device if place.device.type != "cpu" else "the processor"
    fewer = fewer_splats(splats, memory)
    hint = f"Fit with fewer splats (--max-splats {fewer}), or with smaller views."
    if checkpoint_step is not None:
        hint += f" The run's checkpoint is whole: --resume goes on from step {checkpoint_step}."
    return OutOfMemory(
        f"There is not enough memory on {where} for a fit of {splats} splats ({', '.join(numbers) or 'amounts unknown'}).",
        hint,
        error,
        fewer_splats=fewer,
    )


def words(value: int) -> str:
    """Returns bytes as a person reads them."""
    for unit, bits in reversed(_UNITS.items()):
        if value >= 1 << bits:
            return f"{value / 2**bits:.1f} {unit}" if bits else f"{value} bytes"
    return "0 bytes"
