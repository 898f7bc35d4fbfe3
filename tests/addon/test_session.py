"""addon.runs.session: the states of a fit, with a scripted engine and with a real process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from addon.engine.engine_process import EngineProcess
from addon.runs.session import Session, State
from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from tests.addon.test_engine_process import FAKE


class ScriptedEngine:
    """Says, poll by poll, what it was told to say."""

    def __init__(self, script: list[list[events.Event]], error: UserError | None = None) -> None:
        self.script, self.failure = list(script), error
        self.told: list[events.Command] = []
        self.closed = self.killed = 0

    def is_running(self) -> bool:
        return bool(self.script)

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        return self.script.pop(0)

    def send(self, command: events.Command) -> bool:
        self.told.append(command)
        return True

    def error(self) -> UserError | None:
        return self.failure

    def close(self) -> None:
        self.closed += 1

    def kill(self) -> None:
        self.killed += 1


class Views:
    """A capture of three views that remembers whether it was closed."""

    def __init__(self, count: int = 3, error: Exception | None = None) -> None:
        self.closed = False
        self.steps = self._steps(count, error)

    def _steps(self, count: int, error: Exception | None) -> Iterator[tuple[int, int]]:
        try:
            for done in range(1, count + 1):
                yield done, count
            if error is not None:
                raise error
        finally:
            self.closed = True


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


def test_whole_way(run):
    """Idle, capturing view by view, fitting, finished; with what the panel shows and the seconds of each part."""
    engine = ScriptedEngine(
        [
            [events.Started(steps=10, splats=5, device="cpu")],
            [
                events.Progress(step=4, steps=10, loss=0.5, psnr=20.0, splats=6, seconds_left=2.0),
                events.Warned(message="odd"),
            ],
            [
                events.Evaluated(psnr=30.0, ssim=0.9, views=2),
                events.Finished(step=10, splats=7, metrics={"psnr": 30.0}),
            ],
        ]
    )
    ticks = iter(range(100))
    session = Session(run, lambda: engine, Views().steps, clock=lambda: float(next(ticks)))
    assert session.state is State.IDLE and not session.poll()
    session.start()
    shares = []
    for _ in range(3):
        assert session.poll() and session.state is State.CAPTURING
        shares.append(round(session.report.share, 2))
    assert shares == [0.33, 0.67, 1.0]
    assert session.poll() and session.state is State.FITTING and session.report.share == 0
    session.poll(), session.poll()
    assert (session.report.step, session.report.psnr_db, session.report.splats) == (4, 20.0, 6)
    assert session.report.curve == [(4, 0.5, 20.0)] and session.report.phase == "Fitting"
    assert session.report.warnings == ["odd"] and session.report.device == "cpu"
    assert not session.poll()
    assert session.state is State.FINISHED and session.error is None
    assert (session.report.test_psnr_db, session.report.metrics) == (30.0, {"psnr": 30.0})
    assert set(session.report.seconds) == {"capture", "fit"} and engine.closed == 1


def test_capture_says_what_it_does_and_how_long(run):
    """Phase and time left of a capture's step stand in the report; the engine's start clears them."""
    steps = iter([(1, 3, "Rendering Dome 1", 12.5), (2, 3)])
    session = Session(run, lambda: ScriptedEngine([[events.Started()], []]), steps)
    session.start()
    assert session.report.phase == "Looking at the scene"
    session.poll()
    assert (session.report.phase, session.report.seconds_left) == ("Rendering Dome 1", 12.5)
    session.poll(), session.poll()
    assert (session.report.phase, session.report.seconds_left) == ("Starting the engine", 0.0)


def test_capture_alone(run):
    """Without an engine the session is over when the views are there."""
    session = Session(run, None, Views().steps)
    session.start()
    while session.poll():
        assert session.state is State.CAPTURING
    assert (
        session.state is State.FINISHED and session.report.step == 3 and "capture" in session.report.seconds
    )


def test_pause_and_resume_follow_the_engine(run):
    """The state changes when the engine says so, not when it is asked; commands out of place are refused."""
    engine = ScriptedEngine([[events.Started()], [events.Paused(step=1)], [events.Resumed(step=1)], []])
    session = Session(run, lambda: engine)
    assert not session.pause() and not session.resume() and not session.stop() and not session.save()
    session.start()
    session.poll(), session.poll()
    assert session.pause() and session.state is State.FITTING and not session.resume()
    session.poll()
    assert session.state is State.PAUSED and session.resume() and not session.pause()
    session.poll()
    assert session.state is State.FITTING and session.save() and session.stop()
    assert [c.name for c in engine.told] == ["pause", "resume", "save", "stop"]


def test_cancel_while_capturing_puts_the_scene_back(run):
    """Closing the capture is what restores the scene; the engine was never started."""
    views = Views()
    session = Session(run, lambda: pytest.fail("no engine is wanted"), views.steps)
    session.start()
    session.poll()
    session.stop()
    assert session.state is State.CANCELLED and views.closed and not session.poll()


def test_cancel_while_fitting_ends_the_engine(run):
    """Cancel closes the engine, once."""
    engine = ScriptedEngine([[events.Started()], []])
    session = Session(run, lambda: engine)
    session.start()
    session.poll(), session.poll()
    session.cancel(), session.cancel()
    assert session.state is State.CANCELLED and engine.closed == 1


def test_discard_kills_the_engine(run):
    """What is thrown away need not be saved first."""
    engine = ScriptedEngine([[events.Started()], []])
    session = Session(run, lambda: engine)
    session.start()
    session.poll(), session.poll()
    session.discard()
    assert session.state is State.CANCELLED and (engine.killed, engine.closed) == (1, 0)


@pytest.mark.parametrize("part", ["capture", "start", "engine"])
def test_errors_are_kept_in_words(run, part):
    """A UserError of the capture, of starting, or of the engine fails the session and is kept; all is released."""
    error = UserError("No.", "Try again.")
    views = Views(1, error if part == "capture" else None)
    engine = ScriptedEngine([[]], error if part == "engine" else None)

    def start() -> ScriptedEngine:
        if part == "start":
            raise error
        return engine

    session = Session(run, start, views.steps)
    session.start()
    while session.poll():
        pass
    assert session.state is State.FAILED and session.error is error and views.closed
    assert engine.closed == (part == "engine")


def test_our_own_mistake_is_not_swallowed(run):
    """Any other exception goes to the caller, and nothing is left running."""
    views = Views(1, ZeroDivisionError())
    session = Session(run, lambda: pytest.fail("no engine is wanted"), views.steps)
    session.start()
    session.poll()
    with pytest.raises(ZeroDivisionError):
        session.poll()
    assert session.state is State.CANCELLED and views.closed


@pytest.mark.parametrize(
    "mode, state", [("quick", State.FINISHED), ("fails", State.FAILED), ("killed", State.FAILED)]
)
def test_with_a_process(run, mode, state):
    """The same with a process that keeps the protocol, that fails, and that is killed."""
    command = [sys.executable, str(FAKE), mode, "--out", str(run.root)]
    session = Session(run, lambda: EngineProcess(command, run))
    session.start()
    while session.poll(wait_s=20):
        pass
    assert session.state is state
    assert (session.error is None) == (state is State.FINISHED)


def test_stop_gives_the_result_as_it_stands(run):
    """Stop is a good ending: the engine writes what there is."""
    command = [sys.executable, str(FAKE), "good", "--out", str(run.root)]
    session = Session(run, lambda: EngineProcess(command, run))
    session.start()
    while session.report.step < 5:
        session.poll(wait_s=20)
    session.stop()
    while session.poll(wait_s=20):
        pass
    assert session.state is State.FINISHED and run.splats.is_file()
    assert session.report.test_psnr_db == 30.5


def test_what_is_said_again_stands_once(run):
    """A full disk, of which every snapshot warns, is one line for the panel."""
    warned = events.Warned(message="The disk is full.")
    session = Session(run, lambda: ScriptedEngine([[warned], [warned, events.Warned(message="odd")], []]))
    session.start()
    for _ in range(3):
        session.poll()
    assert session.report.warnings == ["The disk is full.", "odd"]
