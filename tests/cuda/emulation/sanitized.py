"""Starts a Python under g++'s address or thread sanitizer, which must be the first library of its process."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cuda.emulation.build import PYTHONPATH, ROOT, SANITIZER_VARIABLE, build_report_hook

RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
# Every report counts, also the second of an address. LeakSanitizer would tell of Python's own memory.
OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=0:max_malloc_fill_size=268435456:malloc_fill_byte=255",
    "UBSAN_OPTIONS": "abort_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "exitcode=0:suppress_equal_stacks=0:suppress_equal_addresses=0",
}


@dataclass(frozen=True)
class Outcome:
    """How a process ended.

    Attributes:
        code: its exit code, negative for a signal.
        output: stdout and stderr.
        report: the sanitizer's; "" for none.
    """

    code: int
    output: str
    report: str

    @property
    def kinds(self) -> set[str]:
        """What was reported, such as "data race" or "heap-buffer-overflow"."""
        found = re.findall(r"(?:ERROR: Address|WARNING: Thread)Sanitizer: ([\w-]+(?: race)?)", self.report)
        return set(found) | set(re.findall(r"runtime error: (.*)", self.report))


@cache
def missing() -> str:
    """Why no process can be started under a sanitizer here; "" where it can."""
    if platform.system() != "Linux" or not shutil.which("g++") or not shutil.which("setarch"):
        return "sanitizers need Linux, g++ and setarch"
    return (
        "" if all(_runtime(name).is_file() for name in RUNTIMES) else "g++ has no run-times of its sanitizers"
    )


@cache
def _runtime(sanitizer: str) -> Path:
    command = ["g++", f"-print-file-name={RUNTIMES[sanitizer]}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Path(said.strip()).resolve()


def run(sanitizer: str, arguments: list[str], *, stop_at_race: bool = False) -> Outcome:
    """Runs Python with arguments to its end.

    Args:
        sanitizer: "address" or "thread".
        arguments: Python's.
        stop_at_race: with "thread", a launch in which a race is reported ends there, with an EmulationError. Many races may
            follow the first, and each report takes its time; those that are written name no lines.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH, SANITIZER_VARIABLE: sanitizer}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONMALLOC": "malloc"}
        environment |= {name: f"{value}:log_path={folder}/report" for name, value in OPTIONS.items()}
        preload = str(_runtime(sanitizer))
        if stop_at_race:
            environment["TSAN_OPTIONS"] += ":symbolize=0:history_size=0"
            preload = f"{build_report_hook()}:{preload}"
        # addresses that do not change: the thread sanitizer needs certain ones free
        start = ["setarch", platform.machine(), "-R", "env", f"LD_PRELOAD={preload}"]
        done = subprocess.run(
            [*start, sys.executable, *arguments],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        reports = [path.read_text(errors="replace") for path in sorted(Path(folder).glob("report*"))]
    return Outcome(done.returncode, done.stdout + done.stderr, "\n".join(reports))
