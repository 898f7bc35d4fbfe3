"""Two engines in one process: calls from several threads at once, and a thread count that changes under them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from splat_engine import native
from tests.native.all_ops import Array, Case, relative_error, run_all

CASES = [
    Case(5000, 257, 129, "float32"),
    Case(777, 131, 260, "float64"),
    Case(4100, 90, 140, "float32"),
]
"""One scene an engine: other sizes and types, so that none can live on another's memory."""
ROUNDS = 4


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    """Leaves the number of threads as it was."""
    before = native.get_num_threads()
    yield
    native.set_num_threads(before)


def run_at_once() -> list[dict[str, Array]]:
    """All results of ROUNDS rounds of every case, each case from a thread of its own."""
    results: list[list[dict[str, Array]]] = [[] for _ in CASES]

    def engine(index: int) -> None:
        for _ in range(ROUNDS):
            calls = run_all(CASES[index])
            results[index].append({name: calls.arrays[name] for name in calls.outputs})

    engines = [threading.Thread(target=engine, args=(index,)) for index in range(len(CASES))]
    for thread in engines:
        thread.start()
    for thread in engines:
        thread.join()
    assert [len(rounds) for rounds in results] == [ROUNDS] * len(CASES)
    return [result for rounds in results for result in rounds]


def test_engines_do_not_disturb_each_other() -> None:
    """Three engines at once get, bit by bit, what each gets alone."""
    native.set_num_threads(3)
    alone = [run_all(case).arrays for case in CASES for _ in range(ROUNDS)]
    for found, expected in zip(run_at_once(), alone, strict=True):
        assert found["alpha"].max() > 0.5
        assert [name for name in found if not np.array_equal(found[name], expected[name])] == []


def test_the_thread_count_may_change_at_any_time() -> None:
    """A call keeps the number of threads that it began with, whatever another thread sets meanwhile."""
    native.set_num_threads(1)
    alone = [(case, run_all(case).arrays) for case in CASES for _ in range(ROUNDS)]
    done = threading.Event()
    changes = 0

    def change() -> None:
        nonlocal changes
        while not done.is_set():
            native.set_num_threads((1, 7, 2, 5)[changes % 4])
            changes += 1

    changer = threading.Thread(target=change)
    changer.start()
    try:
        results = run_at_once()
    finally:
        done.set()
        changer.join()
    assert changes > 100
    for found, (case, expected) in zip(results, alone, strict=True):
        worst = max(relative_error(found[name], expected[name]) for name in found)
        assert worst < (1e-5 if case.dtype == "float32" else 1e-13)
