"""What is said and proposed when memory runs out."""

from __future__ import annotations

import pytest
import torch

from splat_engine.fit.memory import Memory, fewer_splats, is_out_of_memory, measure, out_of_memory, words
from splat_engine.fit.place import CPU
from splat_engine.formats.errors import OutOfMemory, UserError

CARDS_WORDS = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 7.79 GiB of which ..."
)


def raised(size: int) -> BaseException:
    """What torch raises for an allocation on the processor."""
    with pytest.raises(RuntimeError) as caught:
        torch.empty(size, dtype=torch.uint8)
    return caught.value


def test_all_kinds_are_known() -> None:
    """torch's on a card and on the processor, Python's, ours; and nothing else."""
    for error in (torch.OutOfMemoryError("x"), MemoryError(), OutOfMemory("x"), raised(1 << 60)):
        assert is_out_of_memory(error)
    for other in (RuntimeError("shape"), UserError("x"), ValueError()):
        assert not is_out_of_memory(other)


def test_what_was_needed_is_read() -> None:
    """From torch's words, in all their units; the system's free and total memory come along."""
    assert measure(torch.OutOfMemoryError(CARDS_WORDS), CPU).needed == int(2.5 * 2**30)
    assert measure(torch.OutOfMemoryError("Tried to allocate 512 bytes"), CPU).needed == 512
    memory = measure(raised(1 << 60), CPU)
    assert memory.needed == 1 << 60 and memory.total is None or memory.total > memory.free > 0
    assert measure(MemoryError(), CPU).needed is None


@pytest.mark.parametrize("splats", [1, 2, 7, 30, 4321, 200_000, 5_000_000])
@pytest.mark.parametrize("needed", [None, 1, 1 << 30, 1 << 40])
def test_fewer_are_proposed(splats: int, needed: int | None) -> None:
    """At least one, never as many as there are (but for a single one), and less the more was missing."""
    memory = Memory(needed, free=1 << 28, total=1 << 33, used=1 << 32)
    proposed = fewer_splats(splats, memory)
    assert 1 <= proposed <= splats and (proposed < splats or splats == 1)
    more = Memory(1 << 45, free=1 << 28, total=1 << 33, used=1 << 32)
    assert fewer_splats(splats, more) <= proposed


def test_it_is_said_with_numbers() -> None:
    """Needed, free, total, splats, a budget, and the step to resume from."""
    memory = Memory(needed=3 << 30, free=1 << 30, total=8 << 30, used=6 << 30)
    error = out_of_memory(MemoryError(), memory, CPU, splats=1_000_000, checkpoint_step=700)
    for number in ("1000000 splats", "3.0 GiB needed", "1.0 GiB free", "8.0 GiB total"):
        assert number in error.headline
    # 7/9 of the memory that would be needed is there, and a tenth is left for safety.
    assert "--max-splats 700000" in error.hint and "step 700" in error.hint
    assert "--resume" not in out_of_memory(MemoryError(), memory, CPU, splats=9, checkpoint_step=None).hint


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 bytes"), (9, "9 bytes"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"), (5 << 29, "2.5 GiB")],
)
def test_bytes_in_words(value: int, text: str) -> None:
    """The largest unit that leaves at least one."""
    assert words(value) == text
