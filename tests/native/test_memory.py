"""keep_freed_memory: large blocks come back without page faults, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from splat_engine.native.memory import _is_glibc

SCRIPT = """
import resource, sys
import numpy as np
from splat_engine.native.memory import keep_freed_memory

done = keep_freed_memory() if sys.argv[1] == "keep" else True
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(50 << 20, np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(done, sum(faults() for _ in range(3)))
"""


def faults_of(how: str) -> tuple[str, int]:
    """Whether the call says it was done, and the page faults of three more blocks of 50 MB."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True)
    said, count = done.stdout.split()
    return said, int(count)


@pytest.mark.skipif(sys.platform != "linux" or not _is_glibc(), reason="mallopt is glibc's")
def test_freed_memory_is_used_again() -> None:
    """Without it each block of 50 MB is mapped and cleared anew; with it only the first is."""
    plain, kept = faults_of("plain"), faults_of("keep")
    assert kept[0] == "True"
    assert plain[1] > 30 and kept[1] < plain[1] / 10


def test_elsewhere_it_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another system or C library nothing is called."""
    from splat_engine.native import memory

    monkeypatch.setattr(memory, "_is_glibc", lambda: False)
    assert memory.keep_freed_memory() is False
