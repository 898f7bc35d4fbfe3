"""tools/test_gui: what can be told without a window, which `make test-gui` needs."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tools.test_gui import chroot, command, xwd

ROOT = Path(__file__).resolve().parents[2]


def dump(
    pixels: np.ndarray,
    *,
    bits: int = 32,
    padding: int = 8,
    colors: int = 3,
    version: int = 7,
    byte_order: int = 0,
    red: int = 0xFF0000,
) -> bytes:
    """An X window dump of uint8 [H, W, 3], with a name, a colour map and padded lines, as X11/XWDFile.h describes it."""
    height, width, _ = pixels.shape
    name = b"xwdump\0"
    line = bits // 8 * width + padding
    header = [100 + len(name), version, 2, 24, width, height, 0, byte_order, 32, 0, 32, bits, line, 4]
    header += [red, 0xFF00, 0xFF, 8, 256, colors, width, height, 0, 0, 0]
    rows = np.zeros((height, line), np.uint8)
    rows[:, : bits // 8 * width].reshape(height, width, bits // 8)[..., 2::-1] = pixels
    return struct.pack(">25I", *header) + name + bytes(12 * colors) + rows.tobytes()


@pytest.mark.parametrize(("bits", "padding"), [(32, 0), (32, 8), (24, 0), (24, 7)])
def test_a_dump_becomes_a_png(tmp_path, bits, padding):
    """Every pixel and channel in its place; of one window, and of several, whose pixels are packed into longer lines."""
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    content = dump(pixels, bits=bits, padding=padding)
    np.testing.assert_array_equal(xwd.read_xwd(content), pixels)
    (tmp_path / "a.xwd").write_bytes(content)
    path = xwd.write_png(tmp_path / "a.xwd", tmp_path / "a.png")
    np.testing.assert_array_equal(np.asarray(Image.open(path)), pixels)


@pytest.mark.parametrize("wrong", [{"version": 6}, {"bits": 16}, {"byte_order": 1}, {"red": 0xFF}])
def test_another_kind_of_dump_is_refused(wrong):
    """Instead of a picture of noise."""
    content = dump(
        np.zeros((2, 2, 3), np.uint8), **{"bits": 32} | {k: v for k, v in wrong.items() if k != "bits"}
    )
    if "bits" in wrong:
        content = content[:44] + struct.pack(">I", wrong["bits"]) + content[48:]
    with pytest.raises(ValueError, match="version 7"):
        xwd.read_xwd(content)


def test_a_chroot_that_is_there_is_used(tmp_path):
    """Nothing is built, and root is not needed for looking."""
    (tmp_path / "sid").mkdir()
    assert chroot.make_chroot(tmp_path) == tmp_path / "sid"


@pytest.mark.parametrize(("user", "program", "words"), [(1000, "/x", "root"), (0, None, "apt-get install")])
def test_what_is_missing_is_said(tmp_path, monkeypatch, user, program, words):
    """Without root or debootstrap: what to do; nothing is begun."""
    monkeypatch.setattr(chroot.os, "geteuid", lambda: user)
    monkeypatch.setattr(chroot.shutil, "which", lambda name: program)
    with pytest.raises(chroot.GuiTestError, match=words):
        chroot.make_chroot(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_build_that_broke_off_is_not_taken_for_whole(tmp_path, monkeypatch):
    """It lies aside, and the next try begins anew."""
    monkeypatch.setattr(chroot.os, "geteuid", lambda: 0)
    monkeypatch.setattr(chroot.shutil, "which", lambda name: "/usr/sbin/debootstrap")
    ran: list[list[str]] = []

    def fail_at_the_second(command, **_):
        ran.append(command)
        return subprocess.CompletedProcess(command, len(ran) == 2, stdout="no such package")

    monkeypatch.setattr(chroot.subprocess, "run", fail_at_the_second)
    with pytest.raises(chroot.GuiTestError, match="no such package"):
        chroot.make_chroot(tmp_path)
    assert not (tmp_path / "sid").exists() and "blender" in ran[1]
    assert chroot.make_chroot(tmp_path) == tmp_path / "sid" and (tmp_path / "sid").is_dir()


def test_how_a_scenario_ended(tmp_path):
    """By its own answer; without one by how the process ended, with the end of the log."""
    log = tmp_path / "blender.log"
    log.write_text("first\nlast words")
    assert "ran out of time" in command.failure_of(tmp_path, 124, log)
    assert "exit code 3" in command.failure_of(tmp_path, 3, log)
    assert "last words" in command.failure_of(tmp_path, 137, log)
    assert command.failure_of(tmp_path, 0, log), "no answer is no success"
    (tmp_path / "answer.json").write_text(json.dumps({"ok": False, "failure": "no button"}))
    assert command.failure_of(tmp_path, 0, log) == "FAILED: no button"
    (tmp_path / "answer.json").write_text(json.dumps({"ok": True, "failure": ""}))
    assert command.failure_of(tmp_path, 0, log) == ""


def test_blender_never_stays(tmp_path):
    """A limit of time, a profile of its own, a software renderer; mounts that end with the test."""
    place = command.Place(tmp_path / "sid", tmp_path / "scenario")
    words = command.chroot_command(place, 60)
    assert words[:4] == ["unshare", "--mount", "--propagation", "private"]
    assert words[words.index("chroot") + 1] == str(place.chroot) and "60" in words and "timeout" in words
    assert "LIBGL_ALWAYS_SOFTWARE=1" in words and any("BLENDER_USER_RESOURCES" in word for word in words)
    assert (place.chroot / "host").is_dir()
    assert (place.chroot / place.inside.relative_to("/")).is_dir(), (
        "one folder is at the same path on both sides"
    )


def test_the_engine_runs_outside_of_the_chroot(tmp_path):
    """What Blender starts as the engine's Python is the machine's own, with this checkout's modules."""
    script = tmp_path / "engine-python"
    command.write_engine(script, tmp_path / "a b" / "python", tmp_path / "checkout")
    assert script.stat().st_mode & 0o111
    last = script.read_text().splitlines()[-1]
    assert last.startswith("exec chroot /host ") and f'"{tmp_path}/a b/python" "$@"' in last
    assert f"PYTHONPATH={tmp_path}/checkout" in last


def test_an_unknown_scenario_is_a_wrong_command_line():
    """With the names that there are."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.test_gui.command", "no-such"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 2 and "panel" in done.stderr
