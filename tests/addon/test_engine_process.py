"""addon.engine.engine_process: the engine's Python found and checked; a process that keeps the protocol, and one that does not."""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from addon.engine import engine_process
from addon.engine.engine_process import EngineProcess
from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import (
    DensifySettings,
    FitSettings,
    LossSettings,
    OptimizerSettings,
    RunSettings,
    StartSettings,
    run_with_preset,
)

FAKE = Path(__file__).with_name("fake_engine.py")
needs_posix = pytest.mark.skipif(os.name != "posix", reason="writes a shell script")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


@pytest.fixture
def start(run: RunDirectory) -> Iterator[Any]:
    processes: list[EngineProcess] = []

    def start(mode: str) -> EngineProcess:
        processes.append(EngineProcess([sys.executable, str(FAKE), mode, "--out", str(run.root)], run))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def until_over(process: EngineProcess) -> list[events.Event]:
    found: list[events.Event] = []
    while process.is_running():
        found += process.new_events(wait_s=20)
    return found


def until(process: EngineProcess, name: str) -> events.Event:
    """Waits for an event of a name."""
    while process.is_running():
        for event in process.new_events(wait_s=20):
            if event.name == name:
                return event
    raise AssertionError(f"the engine ended without {name}")


def test_events_arrive_in_order(start, run):
    """Every line of stdout becomes an event; stderr lands in engine.log with the command line."""
    process = start("quick")
    found = until_over(process)
    assert [e.name for e in found] == ["started", "progress", "file", "evaluated", "finished"]
    assert process.error() is None and isinstance(process.ending, events.Finished)
    log = run.log.read_text()
    assert "the engine's log" in log and "fake_engine.py" in log.splitlines()[0]


def test_commands_reach_it(start):
    """Pause, resume, save and stop are answered."""
    process = start("good")
    for command, answer in (
        (events.Pause(), "paused"),
        (events.Resume(), "resumed"),
        (events.Save(), "file"),
        (events.Stop(), "finished"),
    ):
        assert process.send(command)
        until(process, answer)
    until_over(process)
    assert process.ending.reason == "stopped"


def test_closed_stdin_ends_it(start, run):
    """Closing stdin is the contract by which no engine outlives its parent: it saves and exits."""
    process = start("good")
    until(process, "progress")
    process.close()
    assert run.checkpoint.is_file()
    assert not process.send(events.Stop())


PARENT = """
import sys
from addon.engine.engine_process import EngineProcess
from splat_engine.formats.run import RunDirectory
process = EngineProcess([sys.executable, sys.argv[1], "good", "--out", sys.argv[2]], RunDirectory.open(sys.argv[2]))
while True:
    process.new_events(wait_s=60)
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="watches the engine through a named pipe")
def test_no_orphan_when_the_parent_is_killed(run):
    """If the parent dies without a word, the pipe closes: the engine saves and goes."""
    os.mkfifo(run.root / "alive")
    run.settings.write_text("{}")
    environment = {**os.environ, "PYTHONPATH": str(engine_process.checkout())}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(FAKE), str(run.root)], env=environment)
    try:
        with (run.root / "alive").open("rb") as alive:
            assert alive.readline() == b"started\n"
            assert not select.select([alive], [], [], 0)[0]
            parent.kill()
            assert select.select([alive], [], [], 30)[0], "the engine goes on without its parent"
            assert alive.read() == b""
    finally:
        parent.kill()
        parent.wait()
    assert run.checkpoint.is_file()


def test_deaf_engine_is_killed(start):
    """An engine that ignores its closed stdin is killed after the time given."""
    process = start("deaf")
    until(process, "progress")
    process.close(timeout_s=0.2)
    assert process.wait(0)


def test_failure_is_told(start):
    """A failure event is the error, word for word."""
    process = start("fails")
    until_over(process)
    assert process.error().as_dict() == {
        "headline": "A view is broken.",
        "hint": "Render it again.",
        "cause": "ValueError",
    }


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_killed_engine_names_its_log(start, run):
    """An engine that is killed leaves an error with the signal, what to do, the log's path and its last lines."""
    process = start("killed")
    until_over(process)
    error = process.error()
    assert "killed (SIGKILL" in error.headline
    assert str(run.log) in error.hint and "about to die" in error.hint
    assert error.hint.startswith("Close other programs")


def test_silent_end_is_an_error(start):
    """Exit status 0 without an ending is no success."""
    process = start("silent")
    until_over(process)
    assert "ended without saying how" in process.error().headline


def test_interrupted_fit_is_no_result(start):
    """An engine that was interrupted has a checkpoint and no result: the error says how to go on."""
    process = start("interrupted")
    until_over(process)
    assert "interrupted at step 10" in process.error().headline and "resume" in process.error().hint


def test_noise_on_stdout_is_a_warning(start):
    """A library that prints does not break the stream: the line is told, and the rest goes on."""
    found = until_over(start("chatty"))
    assert any(isinstance(e, events.Warned) and "library that prints" in e.message for e in found)
    assert found[-1].name == "finished"


def test_missing_program_is_told(run):
    """A command that does not exist is an error with a remedy."""
    with pytest.raises(UserError, match="Cannot start /nowhere/python"):
        EngineProcess(["/nowhere/python"], run)


def test_unwritable_log_is_told(run):
    """A log that cannot be written is an error that names it."""
    run.log.mkdir()
    with pytest.raises(UserError, match="engine.log"):
        EngineProcess([sys.executable], run)


def test_python_is_looked_for_in_order(tmp_path, monkeypatch):
    """The preference wins over the variable, the variable over the checkout."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch(), second.touch()
    variable = {engine_process.PYTHON_VARIABLE: str(second)}
    assert engine_process.find_python(str(first), variable) == first
    assert engine_process.find_python("", variable) == second
    with pytest.raises(UserError, match="/gone, which the preferences name"):
        engine_process.find_python("/gone", variable)
    with pytest.raises(UserError, match="SPLATFIT_ENGINE_PYTHON names"):
        engine_process.find_python("", {engine_process.PYTHON_VARIABLE: "/gone"})
    monkeypatch.setattr(engine_process, "checkout", lambda: None)
    with pytest.raises(UserError, match="no Python yet"):
        engine_process.find_python("", {})


def answering(path: Path, answer: str) -> Path:
    """Writes a program that says something whatever it is asked."""
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@needs_posix
@pytest.mark.parametrize(
    "answer, words",
    [
        ('{"python": [3, 11, 2], "splat_engine": "0.1.0"}', "has no torch"),
        ('{"python": [3, 11, 2], "torch": "1.13.1+cu117", "splat_engine": ""}', "torch 1.13.1"),
        ('{"python": [3, 8, 0], "torch": "2.6.0"}', "is Python 3.8.0"),
        ('{"python": [3, 11, 2], "torch": "2.6.0"}', "no splat-engine"),
        ("I am no Python", "does not run as a Python"),
    ],
)
def test_unfit_python_is_told(tmp_path, answer, words):
    """Each way in which a Python cannot run the engine has its own words and remedy."""
    python = answering(tmp_path / "python", answer)
    with pytest.raises(UserError, match=words) as caught:
        engine_process.check_python(python)
    assert caught.value.hint


@needs_posix
def test_fit_python_is_described(tmp_path):
    """A good one is returned with its versions."""
    python = answering(
        tmp_path / "python", '{"python": [3, 12, 1], "torch": "2.13.0+cpu", "splat_engine": ""}'
    )
    found = engine_process.check_python(python)
    assert found == engine_process.EngineInfo(python, "3.12.1", "2.13.0+cpu", "")


def test_blenders_python_has_no_torch():
    """The real probe: this very Python runs, finds the checkout's engine, and has no torch."""
    with pytest.raises(UserError, match="has no torch"):
        engine_process.check_python(Path(sys.executable))


def test_not_a_program_is_told(tmp_path):
    """A file that cannot be executed is an error, not a traceback."""
    (tmp_path / "python").write_text("")
    with pytest.raises(UserError, match="does not run"):
        engine_process.check_python(tmp_path / "python")


def test_environment_is_clean():
    """Blender's PYTHONHOME and PYTHONPATH do not reach the engine; the checkout does."""
    found = engine_process.engine_environment({"PYTHONHOME": "/b", "PYTHONPATH": "/b/lib", "HOME": "/me"})
    assert "PYTHONHOME" not in found and found["HOME"] == "/me"
    assert found["PYTHONPATH"] == str(engine_process.checkout())


def test_a_preset_and_what_is_set_beside_it(run):
    """The preset is named once; a value that it changes and a person changed back is an option of its own."""
    settings = run_with_preset(RunSettings(), "draft")
    words = engine_process.train_command(Path("/py"), Path("/c"), run, settings)
    assert [word for word in words if word.startswith("--")][3:] == ["--preset=draft"]
    settings = replace(settings, fit=replace(settings.fit, steps=RunSettings().fit.steps))
    words = engine_process.train_command(Path("/py"), Path("/c"), run, settings)
    assert words[-2:] == ["--preset=draft", f"--steps={RunSettings().fit.steps}"]


def test_command_line_says_what_differs(run):
    """Only settings off their default become options, spelled as the engine spells them."""
    settings = RunSettings(
        fit=FitSettings(steps=7),
        start=StartSettings(start="a b.ply", start_splats=9),
        loss=LossSettings(random_background=False),
        optimizer=OptimizerSettings(sh_dc=0.5),
        densify=DensifySettings(start=3),
    )
    command = engine_process.train_command(Path("/py"), Path("/c"), run, settings, resume=True)
    head = [
        "/py",
        "-m",
        "splat_engine",
        "train",
        "/c",
        "--out",
        str(run.root),
        "--commands",
        "--progress",
        "json",
    ]
    assert command[: len(head)] == head
    assert command[len(head) :] == [
        "--resume", "--steps=7", "--start=a b.ply", "--start-splats=9", "--no-random-background", "--lr-sh-dc=0.5",
        "--densify-start=3",
    ]  # fmt: skip
