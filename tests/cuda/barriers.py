"""Whether a kernel needs each of its barriers: they are removed one by one, and what happens is looked at.

A barrier is removed by the scheduler, which passes over it as if the line were not there; nothing is compiled again. A
removed barrier can spoil memory, so it happens in processes of their own: first without a sanitizer, in every order of
threads, where results that change or an error show that it was needed; then, for the barriers that have come through,
under the thread sanitizer, which tells of two threads that touch the same memory in no order.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cuda.emulation import build, sanitized

CHILD = "tests.cuda.barrier_run"


@dataclass(frozen=True, order=True)
class Barrier:
    """One __syncthreads() or __syncwarp(...) of a source.

    Attributes:
        file: name of the source.
        line: counted from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Verdict:
    """What became of a removed barrier.

    Attributes:
        passed: how often threads came by it.
        caught: what showed that it was missing; "" where nothing did.
    """

    passed: int
    caught: str


def barriers_of(source: Path) -> list[Barrier]:
    """The barriers of one file, without those in comments.

    Raises:
        ValueError: two stand in one line, so that they cannot be told apart.
    """
    text = re.sub(
        r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), source.read_text("utf-8"), flags=re.S
    )
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        count = len(re.findall(r"\b__sync(?:threads|warp)\s*\(", line.partition("//")[0]))
        if count > 1:
            raise ValueError(f"{source.name}:{number}: two barriers in one line")
        found += [Barrier(source.name, number)] * count
    return found


def barriers_below(source: Path) -> list[Barrier]:
    """The barriers of a file and of all that it includes."""
    return sorted({barrier for path in build.closure(source) for barrier in barriers_of(path)})


def judge(scenario: str, barriers: list[Barrier]) -> dict[Barrier, Verdict]:
    """Runs a scenario with each barrier removed in turn.

    Args:
        scenario: a name in ``scenarios.SCENARIOS``, or "faults".
        barriers: those to remove.

    Raises:
        AssertionError: without a barrier removed, the scenario is not sound: it fails, or its threads race.
    """
    verdicts = _run("values", scenario, barriers)
    left = [barrier for barrier in barriers if verdicts[barrier].passed and not verdicts[barrier].caught]
    if left:
        verdicts |= _run("thread", scenario, left)
    return verdicts


def _run(mode: str, scenario: str, barriers: list[Barrier]) -> dict[Barrier, Verdict]:
    """Starts processes until each barrier has its verdict: one that ends a process is caught, and the rest go on."""
    verdicts: dict[Barrier, Verdict] = {}
    while left := [barrier for barrier in barriers if barrier not in verdicts]:
        words = ["-m", CHILD, mode, scenario, *map(str, left)]
        code, output = _output(mode, words)
        lines = [json.loads(line[1:]) for line in output.splitlines() if line.startswith("#")]
        assert lines and lines[0] == {"sound": True}, f"{scenario} ({mode}), no barrier removed:\n{output}"
        verdicts |= {
            _barrier(line): Verdict(line["passed"], line["caught"]) for line in lines if "caught" in line
        }
        started = [_barrier(line) for line in lines if "begins" in line]
        if code != 0 and started and started[-1] not in verdicts:
            verdicts[started[-1]] = Verdict(1, f"the process ended with {code}")
        elif any(barrier not in verdicts for barrier in left):
            raise AssertionError(f"{scenario} ({mode}) ended early with {code}:\n{output}")
    return verdicts


def _output(mode: str, words: list[str]) -> tuple[int, str]:
    """Exit code and output of one process."""
    if mode == "thread":
        outcome = sanitized.run("thread", words, stop_at_race=True)
        return outcome.code, outcome.output + outcome.report
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": build.PYTHONPATH},
        cwd=build.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _barrier(line: dict[str, Any]) -> Barrier:
    name, _, number = str(line.get("begins") or line["barrier"]).rpartition(":")
    return Barrier(name, int(number))
