"""splat_engine.formats.locks: one holder, told by name; a dead one locks nobody out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from splat_engine.formats.errors import UserError
from splat_engine.formats.locks import Holder, Lock, holder_of

ROOT = Path(__file__).resolve().parents[2]

HOLD = """
import sys
from pathlib import Path
from splat_engine.formats.locks import Lock
lock = Lock(Path(sys.argv[1]), "The run")
print("held", flush=True)
sys.stdin.read()
"""


def test_second_is_refused_by_name(tmp_path):
    """While one holds it, another is refused with the process's number; afterwards it is free."""
    path = tmp_path / "run.lock"
    with Lock(path, "The run"):
        with pytest.raises(UserError, match=f"The run is being written.*process {os.getpid()} on "):
            Lock(path, "The run")
        holder = holder_of(path)
        assert holder is not None and holder.pid == os.getpid() and holder.host
    assert holder_of(path) is None
    Lock(path, "The run").release()


def test_killed_holder_locks_nobody_out(tmp_path):
    """Another process that is killed leaves its file, with its number in it, and the lock is free."""
    path = tmp_path / "run.lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        holder = holder_of(path)
        assert holder is not None and holder.pid == process.pid
        with pytest.raises(UserError, match=str(process.pid)):
            Lock(path, "The run")
    finally:
        process.kill()
        process.communicate()
    assert str(process.pid) in path.read_text() and holder_of(path) is None
    Lock(path, "The run").release()


def test_looking_takes_nothing(tmp_path):
    """Asking who holds it neither makes a file nor keeps the lock."""
    path = tmp_path / "run.lock"
    assert holder_of(path) is None and not path.exists()
    Lock(path, "The run").release()
    assert holder_of(path) is None
    with Lock(path, "The run"):
        assert holder_of(path) is not None


def test_file_without_a_name(tmp_path):
    """A holder whose file cannot be read is still a holder."""
    path = tmp_path / "run.lock"
    with Lock(path, "The run"):
        path.write_text("{")
        assert holder_of(path) == Holder()


def test_unwritable_folder_is_told(tmp_path):
    """Where the file cannot be made, the error names it."""
    with pytest.raises(UserError, match=r"Cannot write .*run\.lock"):
        Lock(tmp_path / "gone" / "run.lock", "The run")
