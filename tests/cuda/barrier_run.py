"""The process behind `barriers.py`: ``python -m tests.cuda.barrier_run values|thread SCENARIO FILE:LINE...``.

Writes one line of JSON, after a "#", for the scenario as it stands and two for each barrier.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from splat_engine.ops._cuda.launch import emulated_by
from tests.cuda.emulation.fault_run import FAULTS, run_fault
from tests.cuda.emulation.launcher import EmulatedLauncher, EmulationError
from tests.cuda.orders import ORDERS
from tests.cuda.scenarios import SCENARIOS
from tests.cuda.test_emulation import SOUND

Results = dict[str, Tensor]
TOLERANCE = 1e-4
"""Relative L2 of results that are the same but for the order of sums."""


def faults(launcher: EmulatedLauncher) -> Results:
    """The sound versions of emulation/faults.cu."""
    return {kernel: torch.tensor(run_fault(kernel, 0, launcher=launcher)) for kernel in SOUND}


def results_of(scenario: str, **options: Any) -> tuple[Results | str, int]:
    """Results, or the error's text, and how often a removed barrier was passed."""
    launcher = EmulatedLauncher(sources=FAULTS if scenario == "faults" else None, **options)
    try:
        with emulated_by(launcher):
            results = faults(launcher) if scenario == "faults" else SCENARIOS[scenario].run()
        return {name: tensor.detach().clone() for name, tensor in results.items()}, launcher.passed
    except EmulationError as error:
        return f"error: {str(error).splitlines()[0]}", launcher.passed


def difference(results: Results | str, expected: Results) -> str:
    """What is wrong with results, "" for nothing."""
    if isinstance(results, str):
        return results
    for name, want in expected.items():
        got = results[name]
        if got.shape != want.shape:
            return f"{name} has shape {list(got.shape)}"
        error = (got.double() - want.double()).norm()
        if not error <= TOLERANCE * want.double().norm():
            return f"{name} is off by {error:.3g}"
    return ""


def caught_by_values(scenario: str, removed: tuple[str, int], expected: Results) -> tuple[int, str]:
    """Runs in every order until something is wrong."""
    passed = 0
    for order, options in ORDERS.items():
        results, came_by = results_of(scenario, removed=removed, **options)
        passed += came_by
        if wrong := difference(results, expected):
            return passed, f"{order}: {wrong}"
    return passed, ""


def caught_by_sanitizer(scenario: str, removed: tuple[str, int], expected: Results) -> tuple[int, str]:
    """Runs once; a race is an error of the launch."""
    results, passed = results_of(scenario, removed=removed)
    return passed, difference(results, expected)


def check_sound(scenario: str, mode: str) -> Results:
    """The results with all barriers in place, the same in every order; ends the process where they are not."""
    expected, _ = results_of(scenario)
    if isinstance(expected, str):
        raise SystemExit(expected)
    for name, tensor in expected.items():
        if not tensor.numel() or not tensor.double().isfinite().all() or not tensor.any():
            raise SystemExit(f"{name} is empty, all 0 or not finite")
    if mode == "thread":
        return expected
    for order, options in ORDERS.items():
        if wrong := difference(results_of(scenario, **options)[0], expected):
            raise SystemExit(f"{order}: {wrong}")
    return expected


def say(**fields: object) -> None:
    """Writes a line at once."""
    print(f"#{json.dumps(fields)}", flush=True)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("values", "thread"))
    parser.add_argument("scenario")
    parser.add_argument("barriers", nargs="*")
    options = parser.parse_args()
    caught: dict[str, Callable[[str, tuple[str, int], Results], tuple[int, str]]]
    caught = {"values": caught_by_values, "thread": caught_by_sanitizer}
    expected = check_sound(options.scenario, options.mode)
    say(sound=True)
    for barrier in options.barriers:
        say(begins=barrier)
        name, _, line = barrier.rpartition(":")
        passed, what = caught[options.mode](options.scenario, (name, int(line)), expected)
        say(barrier=barrier, passed=passed, caught=what)


if __name__ == "__main__":
    main()
