"""The emulation itself: it reports each fault of emulation/faults.cu, and the sound versions are clean."""

from __future__ import annotations

import math
import re

import pytest

from tests.cuda.emulation import sanitized
from tests.cuda.emulation.fault_run import COUNT, FAULTS, FIELDS, THREADS, run_fault, structure_of
from tests.cuda.emulation.launcher import EmulatedLauncher, EmulationError
from tests.cuda.orders import ORDERS

GIVEN = [float(i + 1) for i in range(COUNT)]
MIRRORED = GIVEN[THREADS - 1 :: -1]
SHIFTED = [1.0, *GIVEN[: THREADS - 1]]
PAIRS = [GIVEN[i ^ 1] for i in range(THREADS)]
SUMS = [sum(GIVEN[:32]), sum(GIVEN[32:64])]

# Kernel to what its sound version writes, followed by zeros.
SOUND: dict[str, list[float]] = {
    "missing_barrier": SHIFTED,
    "missing_second_barrier": MIRRORED + GIVEN[: THREADS - 1 : -1],
    "divergent_barrier": GIVEN[:THREADS],
    "exit_before_barrier": GIVEN[:THREADS],
    "exited_lane": SUMS,
    "divergent_shuffle": PAIRS,
    "own_lane_left_out": [1.0] * THREADS,
    "source_left_out": [GIVEN[i - i % 32 + 15] if i % 32 < 16 else GIVEN[i] for i in range(THREADS)],
    "never_written": [sum(SUMS)] * THREADS,
    "never_written_dynamic": MIRRORED,
    "race_in_warp": PAIRS,
    "shuffle_is_no_barrier": PAIRS,
    "same_word": [1.0] * THREADS,
    "past_a_shared_array": GIVEN[:THREADS],
    "null_pointer": GIVEN[:THREADS],
    "endless": GIVEN[:THREADS],
}
# Kernel to the text of its error.
BROKEN_RULES = {
    "divergent_barrier": r"wait at different barriers.*\n  thread 0 to 31 waits at __syncthreads in .*faults.cu:\d+\n  thread 32 to 6",
    "exit_before_barrier": r"have exited before a barrier.*\n  thread 0 to 59 waits at .*faults.cu:\d+\n  thread 60 to 63 has exited",
    "exited_lane": r"a lane that has exited is named in a mask.*\n  thread 0 to 30 waits at __shfl_down_sync in csrc/cuda/device.h:\d+ for lanes 0xffffffff\n  thread 31 to 63 has exited",
    "divergent_shuffle": r"none can go on \(deadlock\).*\n  thread 0 waits at __ballot_sync in .*faults.cu:\d+ .*\n  thread 1 waits at __shfl_xor_sync",
    "own_lane_left_out": r"with a mask that leaves it out \(thread 0\)",
    "source_left_out": r"reads a lane that its mask leaves out",
    "null_pointer": r"touches memory at 0x14, which is not there \(thread 5\)",
}
# Kernel to the orders in which its numbers come out wrong.
WRONG_NUMBERS = {
    "missing_barrier": {"reverse", "random", "greedy-warp 1"},
    "missing_second_barrier": set(ORDERS),
    "never_written": set(ORDERS),
    "never_written_dynamic": set(ORDERS),
    "race_in_warp": set(ORDERS),
    "shuffle_is_no_barrier": set(),
    "same_word": set(),
}
ADDRESS_REPORTS = {
    "past_the_end": "heap-buffer-overflow",
    "past_a_shared_array": "index 64 out of bounds",
    "null_pointer": "SEGV",
}
RACES = [
    "missing_barrier",
    "missing_second_barrier",
    "race_in_warp",
    "shuffle_is_no_barrier",
    "same_word",
    "race_of_blocks",
]
needs_sanitizers = pytest.mark.skipif(
    bool(sanitized.missing()), reason=sanitized.missing() or "they are here"
)


def numbers(kernel: str, fault: int, order: str, scalar: str = "f32") -> list[float]:
    """What a kernel writes in one order of threads."""
    launcher = EmulatedLauncher(sources=FAULTS, **ORDERS[order])
    return run_fault(kernel, fault, scalar=scalar, launcher=launcher)


@pytest.mark.parametrize("scalar", ["f32", "f64"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", SOUND)
def test_sound_kernels_are_clean(kernel: str, order: str, scalar: str) -> None:
    """They write the right numbers in every order."""
    expected = SOUND[kernel] + [0.0] * (COUNT - len(SOUND[kernel]))
    assert numbers(kernel, 0, order, scalar) == expected


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", BROKEN_RULES)
def test_broken_rules_are_errors(kernel: str, order: str) -> None:
    """An exception, in every order, and what follows is not disturbed by the threads that were left in the middle."""
    with pytest.raises(EmulationError, match=kernel) as caught:
        numbers(kernel, 1, order)
    if order == "forward":
        assert caught.match(f"(?s){BROKEN_RULES[kernel]}")
    assert numbers("missing_barrier", 0, order)[:THREADS] == SHIFTED


def test_a_kernel_without_an_end_is_an_error() -> None:
    """After the time that the launcher allows; the next launch is none the worse."""
    with pytest.raises(EmulationError, match=r"runs for longer than the launcher allows \(thread 3\)"):
        run_fault("endless", 1, launcher=EmulatedLauncher(sources=FAULTS, seconds_max=1))
    assert numbers("missing_barrier", 0, "forward")[:THREADS] == SHIFTED


@pytest.mark.parametrize("kernel", WRONG_NUMBERS)
def test_wrong_numbers_come_to_light(kernel: str) -> None:
    """In the orders that are named, and nowhere else: so one order is too few, and values are too little."""
    expected = SOUND[kernel] + [0.0] * (COUNT - len(SOUND[kernel]))
    assert {order for order in ORDERS if numbers(kernel, 1, order) != expected} == WRONG_NUMBERS[kernel]


def test_shared_memory_is_spoiled_before_each_block() -> None:
    """What nobody wrote is not a number."""
    assert math.isnan(numbers("never_written_dynamic", 1, "forward")[THREADS - 1 - 7])


@needs_sanitizers
@pytest.mark.parametrize("kernel", ADDRESS_REPORTS)
def test_address_sanitizer_reports(kernel: str) -> None:
    """Memory out of bounds, with the line of the kernel."""
    outcome = sanitized.run("address", ["-m", "tests.cuda.emulation.fault_run", "1", kernel])
    assert outcome.code != 0
    assert any(ADDRESS_REPORTS[kernel] in kind for kind in outcome.kinds), outcome.report or outcome.output
    assert "faults.cu:" in outcome.report


@needs_sanitizers
def test_thread_sanitizer_reports() -> None:
    """Races between warps, within one, and between blocks: each is told, with its kernel."""
    outcome = sanitized.run("thread", ["-m", "tests.cuda.emulation.fault_run", "1", *RACES])
    assert outcome.code == 0, outcome.output
    assert outcome.kinds == {"data race"}
    assert {
        kernel for kernel in RACES if re.search(rf"\b{kernel}<float>.*faults.cu:\d+", outcome.report)
    } == set(RACES), outcome.report


@needs_sanitizers
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_are_silent_about_sound_kernels(sanitizer: str) -> None:
    """No false alarm in any of them."""
    kernels = sorted({*SOUND, *RACES, *ADDRESS_REPORTS})
    outcome = sanitized.run(sanitizer, ["-m", "tests.cuda.emulation.fault_run", "0", *kernels])
    assert (outcome.code, outcome.report) == (0, ""), outcome.report or outcome.output


def test_blocks_add_up() -> None:
    """Atomics of several blocks."""
    assert run_fault("race_of_blocks", 0)[0] == sum(GIVEN[:4])


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes", "text"),
    [
        ((1, 1), 65, 0, "a block of 65 threads; its launch bounds allow 1 to 64"),
        ((1, 1), 0, 0, "a block of 0 threads"),
        ((1, 65536), 64, 0, "a grid of 1 x 65536 blocks"),
        ((1, 1), 64, 49153, "49153 bytes of dynamic shared memory"),
    ],
)
def test_launches_that_a_card_refuses(
    grid: tuple[int, int], block: int, shared_bytes: int, text: str
) -> None:
    """Too many threads for the kernel's launch bounds, or more than every card has."""
    arguments = structure_of("missing_barrier", FIELDS, "f32")()
    with pytest.raises(EmulationError, match=text):
        EmulatedLauncher(sources=FAULTS).launch(
            "missing_barrier_f32", arguments, grid=grid, block=block, shared_bytes=shared_bytes
        )


def test_structures_of_another_size_and_unknown_kernels() -> None:
    """Are refused before anything runs."""
    launcher = EmulatedLauncher(sources=FAULTS)
    smaller = structure_of("missing_barrier", FIELDS[:3], "f32")()
    with pytest.raises(EmulationError, match="structure has 24 bytes, the kernel's 32"):
        launcher.launch("missing_barrier_f32", smaller, grid=(1, 1), block=64, shared_bytes=0)
    with pytest.raises(EmulationError, match="has a kernel no_such_f32"):
        launcher.launch("no_such_f32", smaller, grid=(1, 1), block=64, shared_bytes=0)
