"""Runs every test under the Python it is meant for: ``make test``, or ``python3 tools/run_tests.py [SUITE ...]``.

Suites: engine (torch), addon and addon-lts (Blender 5.3 and 4.5), e2e. What follows a word that begins with a dash
goes to pytest, as in ``run_tests.py engine -k ply``. All suites run even where one before them failed. The last line
sums them up: "N passed, N failed, N skipped". A suite that crashed counts as a failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "out" / "tests"


@dataclass(frozen=True)
class Suite:
    """Tests that run under one Python.

    Attributes:
        environment: Folder in .venv.
        paths: Files and folders of tests; those that do not exist in this checkout are left out.
    """

    environment: str
    paths: tuple[str, ...]

    @property
    def python(self) -> Path:
        """The Python that runs it."""
        return ROOT / ".venv" / self.environment / "bin" / "python"


# tests/formats runs in all three: the contract is read and written by each of these Pythons and numpys.
SUITES = {
    "engine": Suite(
        "engine",
        (
            "tests/formats",
            "tests/engine",
            "tests/native",
            "tests/cuda",
            "tests/tools",
            "tests/test_architecture.py",
        ),
    ),
    "addon": Suite("blender", ("tests/formats", "tests/addon")),
    "addon-lts": Suite("blender-lts", ("tests/formats", "tests/addon")),
    "e2e": Suite("blender", ("tests/e2e",)),
}


@dataclass
class Counts:
    """How tests ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: Counts) -> None:
        """Adds another suite's counts."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def read_counts(report: Path) -> Counts | None:
    """Returns the counts of a junit report, None where there is no whole report."""
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        counts = Counts()
        for suite in suites:
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            counts.add(Counts(max(0, int(suite.get("tests", 0)) - failed - skipped), failed, skipped))
    except (OSError, ElementTree.ParseError, ValueError):
        return None
    return counts


def run_suite(name: str, suite: Suite, arguments: list[str]) -> Counts:
    """Runs one suite, its output shown as it comes."""
    paths = [path for path in suite.paths if (ROOT / path).exists()]
    if not paths:
        print(f"tests: {name}: this checkout has none of {', '.join(suite.paths)}", flush=True)
        return Counts()
    report = REPORTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [
        suite.python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *arguments,
        *paths,
    ]
    start = time.monotonic()
    print(f"tests: {name}: {' '.join(paths)} with .venv/{suite.environment}", flush=True)
    code = subprocess.run(
        [str(word) for word in command], cwd=ROOT, env=environment(), check=False
    ).returncode
    counts = read_counts(report)
    if counts is None or (code != 0 and counts.failed == 0 and not nothing_chosen(code, arguments)):
        print(f"tests: {name}: pytest ended with exit code {code} and no whole report", flush=True)
        counts = Counts(*(counts and (counts.passed, counts.failed, counts.skipped)) or (0, 0, 0))
        counts.failed += 1
    print(f"tests: {name}: {counts} in {time.monotonic() - start:.0f} s", flush=True)
    return counts


def nothing_chosen(code: int, arguments: list[str]) -> bool:
    """Tells whether pytest ran nothing because a person's own choice of tests left none in this suite."""
    return code == 5 and bool(arguments)


def environment() -> dict[str, str]:
    """Returns the environment of the tests: this checkout's modules, and threads that sleep while they wait."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"}


def main(words: list[str]) -> int:
    """Runs the suites named, or all; returns the exit code."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    names, arguments = words[:first] or list(SUITES), words[first:]
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"tests: unknown suite {unknown[0]!r}; known: {', '.join(SUITES)}")
        return 2
    REPORTS.mkdir(parents=True, exist_ok=True)
    total = Counts()
    for name in names:
        total.add(run_suite(name, SUITES[name], arguments))
    print(total, flush=True)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
