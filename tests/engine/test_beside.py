"""Work beside the import of torch: what comes back, what a failing or dying child leaves, and that nothing is held by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from splat_engine.beside import can_split

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="work is split on Linux alone")


def told_by(code: str) -> str:
    """Runs code in a process of its own, without torch and threads, as the command line is when it splits."""
    head = "import os, sys, time\nfrom splat_engine.beside import Beside, can_split\n"
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_result_comes_back_once_it_is_asked_for(tmp_path: Path) -> None:
    """The child works on until the parent asks, and hands over more than a pipe holds."""
    code = (
        f"at_work = {str(tmp_path / 'at_work')!r}"
        + """
import numpy as np
def work(is_asked):
    rounds = 0
    while not is_asked():
        rounds += 1
        open(at_work, "w").close()
    return np.arange(500_000), rounds, os.getpid()
with Beside(work) as child:
    while not os.path.exists(at_work):
        time.sleep(0.001)
    values, rounds, pid = child.result()
print((values == np.arange(500_000)).all(), rounds > 0, pid != os.getpid())
"""
    )
    assert told_by(code) == "True True True\n"


@pytest.mark.parametrize("work", ["lambda asked: 1 / 0", "lambda asked: os._exit(3)", "lambda asked: print"])
def test_a_child_that_fails_gives_none_and_its_reason_to_the_log(work: str) -> None:
    """An exception, a sudden end; and a result that can be pickled is no failure."""
    code = f"""
import logging
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
with Beside({work}) as child:
    print(child.result())
"""
    told = told_by(code)
    if "print" in work:
        assert told == "<built-in function print>\n"
    else:
        assert told.endswith("None\n") and "is done again" in told
        assert "ZeroDivisionError" in told or "EOFError" in told


def test_a_child_that_nobody_asks_is_gone_at_the_end() -> None:
    """Whatever happens in the context: no process is left, neither at work nor as a zombie."""
    code = """
def work(is_asked):
    time.sleep(60)
try:
    with Beside(work) as child:
        pid = child._child
        raise KeyError
except KeyError:
    print(os.path.exists(f"/proc/{pid}"))
"""
    assert told_by(code) == "False\n"


def test_the_child_holds_none_of_the_parents_files() -> None:
    """A lock would outlive a parent that was killed, and a reader of its stdout would wait for the child's end."""
    code = """
kept = open(os.devnull)
def work(is_asked):
    print("not seen")
    sys.stderr.write("not seen")
    sys.stdout.flush()
    names = {int(name): os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")[:-1]}
    return {number: name for number, name in names.items() if not name.startswith("pipe:")}
with Beside(work) as child:
    print(child.result())
"""
    assert told_by(code) == "{0: '/dev/null', 1: '/dev/null', 2: '/dev/null'}\n"


def test_a_process_is_split_before_torch_and_on_two_cores_alone() -> None:
    """With torch there is nothing left to gain; its threads, and any other, would make a fork unsafe."""
    assert "torch" in sys.modules or told_by("import torch\nprint(can_split(2))") == "False\n"
    if "torch" in sys.modules:
        assert not can_split(2)
    cores = len(os.sched_getaffinity(0))
    told = told_by(
        "import threading\nprint(can_split(1), can_split(2))\n"
        "wait = threading.Event()\nthreading.Thread(target=wait.wait).start()\n"
        "print(can_split(2))\nwait.set()\n"
    )
    assert told == f"False {cores > 1}\nFalse\n"
