"""Each barrier of each kernel is needed: removed, it is caught by values in some order of threads or as a race."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from splat_engine.ops._cuda.launch import emulated_by
from tests.cuda.barriers import Barrier, Verdict, barriers_below, barriers_of, judge
from tests.cuda.emulation import build, sanitized
from tests.cuda.emulation.fault_run import FAULTS
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.scenarios import SCENARIOS

needs_sanitizers = pytest.mark.skipif(
    bool(sanitized.missing()), reason=sanitized.missing() or "they are here"
)
ALL = sorted({barrier for source in build.sources().values() for barrier in barriers_below(source)})
# Kernels of faults.cu whose barriers separate nothing: each thread reads what itself has written, or nothing.
REDUNDANT = {"divergent_barrier", "exit_before_barrier", "past_a_shared_array"}


@cache
def verdicts(scenario: str) -> dict[Barrier, Verdict]:
    """What becomes of the barriers that a scenario's sources have, each removed in turn."""
    known = build.sources()
    return judge(
        scenario, sorted({b for name in SCENARIOS[scenario].sources for b in barriers_below(known[name])})
    )


@needs_sanitizers
@pytest.mark.parametrize("barrier", ALL, ids=map(str, ALL))
def test_a_removed_barrier_is_caught(barrier: Barrier) -> None:
    """One that is not has no purpose and is to be deleted, or its scenario does not come by it."""
    told = []
    for name, scenario in SCENARIOS.items():
        if any(barrier in barriers_below(build.sources()[source]) for source in scenario.sources):
            told.append(verdicts(name)[barrier])
            if told[-1].caught:
                return
    assert any(verdict.passed for verdict in told), f"no scenario in scenarios.py comes by {barrier}"
    raise AssertionError(
        f"nothing happens when {barrier} is removed: it is redundant, or the scenario too small"
    )


@pytest.mark.parametrize("source", build.sources())
def test_every_kernel_has_a_scenario(source: str) -> None:
    """The scenarios that name a source launch each of its kernels, with float or double numbers."""
    launched: set[str] = set()
    for scenario in SCENARIOS.values():
        if source in scenario.sources:
            launcher = EmulatedLauncher()
            with emulated_by(launcher):
                scenario.run()
            launched |= {entry.rpartition("_")[0] for entry in launcher.launches}
    kernels = build.kernels_in(build.build_kernels(build.sources()[source]))
    assert kernels and kernels <= launched, f"not launched: {sorted(kernels - launched)}"


@needs_sanitizers
def test_the_judge_itself() -> None:
    """Of faults.cu, it calls the barriers needed that are, redundant those that are, and knows those never passed."""
    source = FAULTS["faults"]
    lines = source.read_text(encoding="utf-8").splitlines()
    told: dict[str, set[str]] = {"needed": set(), "redundant": set(), "never passed": set()}
    found = judge("faults", barriers_of(source))
    for barrier, verdict in found.items():
        kernel = next(
            name[1] for line in lines[barrier.line :: -1] if (name := re.search(r"void (\w+)\(", line))
        )
        told["needed" if verdict.caught else "redundant" if verdict.passed else "never passed"].add(kernel)
    assert told["redundant"] == REDUNDANT
    assert told["never passed"] == {"divergent_barrier"}
    assert told["needed"] == {
        "missing_barrier",
        "missing_second_barrier",
        "never_written",
        "never_written_dynamic",
        "race_in_warp",
        "same_word",
        "shuffle_is_no_barrier",
    }
    by_race = {lines[barrier.line - 1].strip() for barrier, v in found.items() if "sanitizer" in v.caught}
    assert by_race == {"if (!args.fault) __syncwarp();"}  # that of shuffle_is_no_barrier


def test_barriers_are_found(tmp_path: Path) -> None:
    """In code, not in comments, and not the ones with votes, whose value is used."""
    source = tmp_path / "some.cu"
    source.write_text(
        "__syncthreads();  // __syncwarp()\n/* __syncthreads();\n*/\nif (a) __syncwarp(mask);\n__syncthreads_or(b);\n"
    )
    assert barriers_of(source) == [Barrier("some.cu", 1), Barrier("some.cu", 4)]
    source.write_text("__syncthreads(); __syncthreads();\n")
    with pytest.raises(ValueError, match="some.cu:1: two barriers in one line"):
        barriers_of(source)
