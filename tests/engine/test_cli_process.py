"""The engine as a process: commands on stdin, signals, death, a lost parent, a Python without torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from splat_engine.fit.checkpoint import load_checkpoint
from splat_engine.formats.events import Pause, Preview, Resume, Save, Snapshot, Stop, encode
from splat_engine.formats.splat_ply import read_splat_ply
from tests.engine.tiny_capture import ring_cameras, write_tiny_capture

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120


class Engine:
    """A running ``splat-engine train``; events are read as they come."""

    def __init__(self, capture: Path, run: Path, *options: str, commands: bool = True) -> None:
        words = [sys.executable, "-m", "splat_engine", "train", str(capture), "--out", str(run)]
        words += ["--start-splats", "200"]
        self.process = subprocess.Popen(
            words + ["--progress", "json", "--threads", "1", *(["--commands"] if commands else []), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self.events: list[dict[str, Any]] = []

    def send(self, *commands: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(map(encode, commands)))
        self.process.stdin.flush()

    def until(self, name: str, **values: object) -> dict[str, Any]:
        """Reads events up to one of a name and values."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] == name and values.items() <= event.items():
                return event
        raise AssertionError(f"no {name} {values}; {self.events[-3:]}; {self.process.communicate()[1]}")

    def end(self) -> int:
        """Waits for the end; returns the exit code."""
        out, self.errors = self.process.communicate(timeout=TIMEOUT_S)
        self.events += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode

    def names(self) -> list[str]:
        return [event["event"] for event in self.events]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("capture")
    write_tiny_capture(root)
    return root


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    """Engines to be ended whatever happens."""
    started: list[Engine] = []
    yield started
    for engine in started:
        engine.process.kill()
        engine.process.communicate()


def test_pause_preview_save_resume_stop(capture: Path, tmp_path: Path, engines: list[Engine]) -> None:
    """In a pause no step is taken and commands are obeyed; after it the fit goes on; stop writes the result."""
    run = tmp_path / "run"
    engine = Engine(capture, run, "--steps", "1000000", "--snapshot-interval", "0")
    engines.append(engine)
    engine.until("progress")
    engine.send(Pause())
    paused = engine.until("paused")
    camera = ring_cameras(3)[2].scaled(0.5)
    engine.send(Preview(camera.to_frame()))
    written = [engine.until("file", kind="preview")]
    engine.send(Save())
    written += [engine.until("file", kind=kind) for kind in ("checkpoint", "snapshot", "preview")]
    assert {event["step"] for event in written} == {paused["step"]}
    assert Image.open(run / "preview.png").size == (camera.width, camera.height)
    assert load_checkpoint(run / "checkpoint.pt")["trainer"]["step"] == paused["step"]
    assert len(read_splat_ply(run / "snapshot.ply")[0]) >= 120
    engine.process.stdin.write("no command\n")  # type: ignore[union-attr]
    engine.send(Resume())
    assert "no command" in engine.until("warning")["message"]
    assert engine.until("resumed")["step"] == paused["step"]
    while engine.until("progress")["step"] < 100:  # however slow the machine is
        pass
    engine.send(Stop())
    finished = engine.until("finished")
    assert engine.end() == 0
    assert finished["reason"] == "stopped" and finished["step"] > paused["step"]
    assert finished["metrics"]["engine.psnr"] > 20
    assert load_checkpoint(run / "checkpoint.pt")["trainer"]["step"] == finished["step"]
    assert read_splat_ply(run / "splats.ply")[0].metadata["steps"] == str(finished["step"])


def test_snapshot_before_the_first_step(capture: Path, tmp_path: Path, engines: list[Engine]) -> None:
    """Asked for before it begins, the splats of the start are written first of all; nothing else is, and the seconds are told."""
    run = tmp_path / "run"
    engine = Engine(capture, run, "--steps", "1000000", "--snapshot-interval", "0")
    engines.append(engine)
    engine.send(Snapshot())
    written = engine.until("file")
    assert (written["kind"], written["step"]) == ("snapshot", 0) and 0 < written["seconds"] < 60
    assert not any(event["event"] == "progress" for event in engine.events)
    assert read_splat_ply(run / "snapshot.ply")[0].metadata["steps"] == "0"
    engine.until("progress")
    engine.send(Pause())
    step = engine.until("paused")["step"]
    engine.send(Snapshot())
    assert engine.until("file")["step"] == step  # in a pause as well
    assert sorted(path.name for path in run.glob("*.p*")) == ["snapshot.ply"]


def test_a_lost_parent_ends_the_fit_with_a_checkpoint(
    capture: Path, tmp_path: Path, engines: list[Engine]
) -> None:
    """When stdin closes, in the middle of a pause too, the engine saves and exits with 0; --resume goes on."""
    run = tmp_path / "run"
    engine = Engine(capture, run, "--steps", "1000000", "--max-splats", "150")
    engines.append(engine)
    engine.until("progress")
    engine.send(Pause())
    step = engine.until("paused")["step"]
    assert engine.end() == 0
    assert engine.events[-1]["reason"] == "parent gone" and engine.events[-1]["step"] == step
    assert any("--resume" in event.get("message", "") for event in engine.events)
    assert load_checkpoint(run / "checkpoint.pt")["trainer"]["step"] == step
    assert not (run / "splats.ply").exists()
    again = Engine(capture, run, "--resume", "--steps", str(step + 3), commands=False)
    engines.append(again)
    assert again.end() == 0
    assert again.events[0]["first_step"] == step and again.events[-1]["step"] == step + 3
    assert (run / "splats.ply").is_file()


def test_without_commands_stdin_means_nothing(capture: Path, tmp_path: Path, engines: list[Engine]) -> None:
    """Started by hand or by a script whose stdin is closed, the fit runs to its end."""
    engine = Engine(capture, tmp_path / "run", "--steps", "3", commands=False)
    engines.append(engine)
    assert engine.end() == 0 and engine.events[-1]["reason"] == "done" and engine.errors == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_saves_and_says_130(
    capture: Path, tmp_path: Path, engines: list[Engine], number: signal.Signals
) -> None:
    """Ctrl-C and termination end the fit after the present step, with a checkpoint and exit code 130."""
    run = tmp_path / "run"
    engine = Engine(capture, run, "--steps", "1000000", "--max-splats", "150")
    engines.append(engine)
    engine.until("progress")
    engine.process.send_signal(number)
    assert engine.until("finished")["reason"] == "interrupted"
    assert engine.end() == 130
    assert load_checkpoint(run / "checkpoint.pt")["trainer"]["step"] == engine.events[-1]["step"]


def test_killed_engine_leaves_a_usable_checkpoint(
    capture: Path, tmp_path: Path, engines: list[Engine]
) -> None:
    """After SIGKILL the newest checkpoint loads, and the resumed fit equals one that never stopped, bit for bit."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    options = [
        "--steps",
        "60",
        "--checkpoint-interval",
        "7",
        "--densify-start",
        "10",
        "--densify-interval",
        "10",
    ]
    engine = Engine(capture, run, *options)
    engines.append(engine)
    step = engine.until("file", kind="checkpoint")["step"]
    engine.send(Pause())
    engine.until("paused")
    engine.process.send_signal(signal.SIGKILL)
    assert engine.end() == -signal.SIGKILL
    assert not (run / "splats.ply").exists()
    assert load_checkpoint(run / "checkpoint.pt")["trainer"]["step"] >= step
    for folder, more in ((run, ["--resume"]), (whole, [])):
        other = Engine(capture, folder, *options, *more, commands=False)
        engines.append(other)
        assert other.end() == 0
    first, second = ((folder / "splats.ply").read_bytes() for folder in (run, whole))
    body = first.index(b"end_header"), second.index(b"end_header")
    assert first[body[0] :] == second[body[1] :] and len(first) > 10000


def test_closed_stdout_does_not_end_the_fit(capture: Path, tmp_path: Path, engines: list[Engine]) -> None:
    """A reader that goes away loses the events alone; the run is finished and logged."""
    run = tmp_path / "run"
    engine = Engine(capture, run, "--steps", "30", commands=False)
    engines.append(engine)
    engine.until("started")
    engine.process.stdout.close()  # type: ignore[union-attr]
    assert engine.process.wait(timeout=TIMEOUT_S) == 0
    assert json.loads((run / "events.jsonl").read_text().splitlines()[-1])["event"] == "finished"


def test_c_libraries_cannot_tear_the_event_stream(
    capture: Path, tmp_path: Path, engines: list[Engine]
) -> None:
    """OpenEXR prints to stdout when pixels are damaged: that goes to stderr, stdout stays JSON."""
    root = tmp_path / "capture"
    write_tiny_capture(root, views=2, hold_out=0)
    path = root / "views" / "0001.exr"
    path.write_bytes(path.read_bytes()[:-30])
    engine = Engine(root, tmp_path / "run", "--steps", "4", commands=False)
    engines.append(engine)
    assert engine.end() == 1
    assert engine.events[-1]["event"] == "failed" and "0001.exr" in engine.events[-1]["headline"]
    assert "0001.exr is not a readable EXR" in engine.errors


@pytest.mark.parametrize("missing", ["torch", "OpenEXR", "tqdm"])
def test_incomplete_python_is_an_error_in_words(capture: Path, tmp_path: Path, missing: str) -> None:
    """An engine Python without a package names itself, the package and the remedy; help works nevertheless."""
    (tmp_path / f"{missing}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{missing}'\", name='{missing}')\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    words = [sys.executable, "-m", "splat_engine", "train", str(capture), "--out", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S)
    assert done.returncode == 1
    assert (
        f"has no {missing}" in done.stderr and "pip install" in done.stderr and "Traceback" not in done.stderr
    )
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "failed"
    done = subprocess.run(
        [*words[:4], "--help"], capture_output=True, text=True, env=environment, timeout=TIMEOUT_S
    )
    assert done.returncode == 0 and "usage" in done.stdout


def test_all_that_was_said_is_out_when_the_process_ends(capture: Path, tmp_path: Path) -> None:
    """It ends without taking itself apart: stdout, stderr, the log and the lock are as a slow end leaves them."""

    def told(*words: str | Path, code: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "splat_engine", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=TIMEOUT_S)
        assert done.returncode == code, done.stderr
        return done

    run = tmp_path / "run"
    options = ("--out", run, "--steps", "2", "--start-splats", "50", "--threads", "1")
    lines = told("train", capture, *options, code=0).stdout.splitlines()
    assert json.loads(lines[-1])["event"] == "finished"
    assert (run / "events.jsonl").read_text().splitlines() == lines
    assert (run / "engine.log").is_file()
    assert json.loads(told("info", run, "--json", code=0).stdout)
    assert "--resume" in told("train", "--help", code=0).stdout
    assert told("train", tmp_path / "none", *options, code=1).stderr.startswith("error: ")
    assert "usage" in told("train", code=2).stderr


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_thread_spins_beside_the_start() -> None:
    """numpy and scipy are there, and the process still has one thread: the other cores are for the views."""
    code = """
import os, sys
from splat_engine.__main__ import main
sys.argv = ["splat-engine", "--version"]
try:
    main()
except SystemExit:
    assert "numpy" in sys.modules
import scipy.spatial
print(len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.stdout.splitlines()[-1:] == ["1"], done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_last_word_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A full device behind stdout is no success, though the process ends at once."""
    code = "import sys\nfrom splat_engine import cli\ncli.main = lambda: print('word') or 0\ncli.run()"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, cwd=ROOT)
    assert done.returncode != 0 and b"No space left" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="work is split on Linux alone")
def test_a_fit_with_work_done_beside_it_is_the_same_fit(tmp_path: Path) -> None:
    """On two cores, where first splats and pictures are made in a child: warnings and splats as in one process, on one."""
    write_tiny_capture(tmp_path / "capture", pictures=True)
    options = ["--steps", "6", "--max-splats", "60", "--start", str(tmp_path / "capture" / "init.ply")]
    options += ["--target", "display", "--strategy", "none"]
    done = []
    for threads in ("1", "2"):
        engine = Engine(
            tmp_path / "capture", tmp_path / threads, *options, "--threads", threads, commands=False
        )
        assert engine.end() == 0, engine.errors
        warnings = [event["message"] for event in engine.events if event["event"] == "warning"]
        done.append((warnings, read_splat_ply(tmp_path / threads / "splats.ply")[0]))
    (warnings, one), (more_warnings, two) = done
    assert any("60" in message for message in warnings) and more_warnings == warnings
    np.testing.assert_allclose(two.means, one.means, atol=1e-5)


def test_a_start_that_is_not_there_is_told_by_name_from_beside_too(capture: Path, tmp_path: Path) -> None:
    """The child's failure is not the user's message: the fit finds the same, and says so."""
    for threads in ("1", "2"):
        engine = Engine(capture, tmp_path / threads, "--start", "nowhere.ply", "--threads", threads)
        assert engine.end() == 1
        assert "nowhere.ply" in engine.errors and "Traceback" not in engine.errors
