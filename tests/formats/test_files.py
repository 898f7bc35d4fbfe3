"""Writing aside: whole or not at all, and words for what went wrong."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import read_json, write_aside, write_bytes, write_failure, write_json


def names(folder: Path) -> list[str]:
    """Returns what lies in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_and_its_folders_with_it(tmp_path: Path) -> None:
    """Nothing but the file is left, and its rights are those of a file written plainly."""
    write_bytes(tmp_path / "a" / "b" / "x.bin", b"content")
    assert (tmp_path / "a" / "b" / "x.bin").read_bytes() == b"content"
    assert names(tmp_path / "a" / "b") == ["x.bin"]
    (tmp_path / "plain").touch()
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "plain", tmp_path / "a" / "b" / "x.bin")
    }
    assert len(modes) == 1


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    """The name changes hands at the end, in one step."""
    path = tmp_path / "x.txt"
    write_bytes(path, b"old")
    with write_aside(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), OSError(errno.EIO, "broken disk")])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    """Whatever goes wrong in between, Ctrl-C too; an OSError becomes words."""
    path = tmp_path / "x.txt"
    write_bytes(path, b"old")
    expected: Any = UserError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), write_aside(path) as stream:
        stream.write(b"half of it")
        raise error
    assert names(tmp_path) == ["x.txt"] and path.read_bytes() == b"old"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The kernel's own "no space left", at once or when the buffer is flushed; the old file stands."""
    path = tmp_path / "x.bin"
    write_bytes(path, b"old")
    make = tempfile.mkstemp

    def full(**arguments: Any) -> tuple[int, str]:
        handle, name = make(**arguments)
        os.close(handle)
        return os.open("/dev/full", os.O_WRONLY), name

    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(UserError, match="No space left") as caught:
        write_bytes(path, b"x" * size)
    assert "free some space" in caught.value.hint and str(path) in caught.value.headline
    assert names(tmp_path) == ["x.bin"] and path.read_bytes() == b"old"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="file size limits are tested on Linux")
def test_a_write_that_breaks_off_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """A real process under a real limit of 64 KiB a file writes 1 MiB of splats."""
    code = (
        "import resource, sys, numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "from splat_engine.formats.ply import write_ply_element\n"
        "from splat_engine.formats.errors import UserError\n"
        "try:\n    write_ply_element(sys.argv[1], {'x': np.zeros(1 << 18, np.float32)})\n"
        "except UserError as error:\n    print(error.headline)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.ply")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert "x.ply: File too large" in result.stdout and not names(tmp_path)


def test_paths_that_cannot_be_written_are_said(tmp_path: Path) -> None:
    """A file as a folder, a folder as a file, a name too long: each with its own hint."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    cases = {
        tmp_path / "file" / "x.txt": "is a file, not a folder",
        tmp_path / "folder": "folder of that name",
        tmp_path / ("n" * 300): "too long",
    }
    for path, hint in cases.items():
        with pytest.raises(UserError, match="^Cannot write") as caught:
            write_bytes(path, b"x")
        assert hint in caught.value.hint, path
    assert names(tmp_path) == ["file", "folder"] and not names(tmp_path / "folder")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_said(tmp_path: Path) -> None:
    """And what to do."""
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Permission denied") as caught:
        write_bytes(tmp_path / "x.txt", b"x")
    assert "permissions" in caught.value.hint


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR]
)
def test_each_cause_has_its_hint(code: int) -> None:
    """The words name the path, the system's reason and a way out of it; unknown causes have a general one."""
    error = write_failure("/a/x.txt", OSError(code, os.strerror(code)))
    assert error.headline == f"Cannot write /a/x.txt: {os.strerror(code)}."
    assert error.hint and error.hint != write_failure("x", OSError(errno.EIO, "")).hint
    assert isinstance(error.cause, OSError)


def test_a_long_but_legal_name_is_written(tmp_path: Path) -> None:
    """The temporary file's name is shorter than the file's."""
    path = tmp_path / ("n" * 250)
    write_bytes(path, b"x")
    assert names(tmp_path) == [path.name]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab é\n", max_size=3), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_json_written_is_read_back(tmp_path: Path, value: Any) -> None:
    """Any value, to the last bit of a float."""
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value
    assert (tmp_path / "x.json").read_bytes().endswith(b"\n")


@pytest.mark.parametrize("value", [math.nan, {"a": [math.inf]}, {1, 2}, object()])
def test_what_json_cannot_hold_is_not_written(tmp_path: Path, value: Any) -> None:
    """A ValueError or TypeError for the programmer; no file."""
    with pytest.raises((ValueError, TypeError)):
        write_json(tmp_path / "x.json", value)
    assert not names(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"nope", b"\xff\xff", b"NaN", b"[-Infinity]", b"1e999", b"[" * 99999, b"1" * 9999]
)
def test_what_is_no_json_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    """With the file's name and what to do about a file of its role."""
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(FormatError, match="not valid JSON") as caught:
        read_json(tmp_path / "x.json", "run file")
    assert str(tmp_path / "x.json") in caught.value.headline and "run file" in caught.value.hint


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    (tmp_path / "x.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"é": 1}).encode())
    assert read_json(tmp_path / "x.json") == {"é": 1}


def test_missing_files_and_folders_are_said(tmp_path: Path) -> None:
    """By their role."""
    with pytest.raises(UserError, match="There is no capture at"):
        read_json(tmp_path / "x.json", "capture")
    with pytest.raises(UserError, match="Cannot read the capture"):
        read_json(tmp_path, "capture")
