"""One fit from the first view to the result, as a state machine. Knows no bpy.

::

    idle -> capturing -> fitting <-> paused -> finished | failed | cancelled

``poll`` does a little work and returns: a timer calls it in the GUI, a loop calls it headless.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory

from .curve import CurveKeeper, Point

ENGINE_STARTS = "Starting the engine"


class State(enum.Enum):
    """Where a session stands."""

    IDLE = "idle"
    CAPTURING = "capturing"
    FITTING = "fitting"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_engine(self) -> bool:
        """Tells whether the engine is at work or stands still, and can be told something."""
        return self in (State.FITTING, State.PAUSED)

    @property
    def is_over(self) -> bool:
        """Tells whether nothing more will happen."""
        return self in (State.FINISHED, State.FAILED, State.CANCELLED)


class Engine(Protocol):
    """What a session needs of an ``EngineProcess``."""

    def is_running(self) -> bool:
        """Tells whether more may come."""

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        """Returns what came since the last call; waits so long for the first."""

    def send(self, command: events.Command) -> bool:
        """Tells the engine something."""

    def error(self) -> UserError | None:
        """Returns why it ended without a result."""

    def close(self) -> None:
        """Ends it, saved."""

    def kill(self) -> None:
        """Ends it at once."""


class CaptureStep(NamedTuple):
    """How far a capture is; the first two alone will do.

    Attributes:
        done, total: Views.
        phase: What is being done, in words.
        seconds_left: Estimate for the views that are left; 0 before the first is rendered.
    """

    done: int
    total: int
    phase: str = "Rendering the views"
    seconds_left: float = 0.0


@dataclass
class Report:
    """What a session knows so far, for a panel or a terminal.

    Attributes:
        phase: What is being done, in words.
        step, steps: Of the part that is running: views captured, or steps fitted.
        views: Views captured.
        loss: Of the last steps.
        psnr_db: On training views of the last steps.
        splats: Present number.
        seconds_left: A guess for the part that is running; 0 before there is one.
        curve: Step, loss and PSNR over the whole fit, evenly thinned to at most ``POINTS_MAX`` points.
        test_psnr_db, test_ssim: On held-out views; None before the first evaluation.
        warnings: Everything the engine or the capture warned of.
        seconds: Duration of "capture" and "fit", once over.
        metrics: The engine's, at the end.
        device: Where the engine computes.
        snapshots: Number of snapshots written; a change means that there is something new to show.
        previews: Number of pictures drawn by the engine.
        file_seconds: How long the fit stood still for the last snapshot or picture, by its kind.
    """

    phase: str = ""
    step: int = 0
    steps: int = 0
    views: int = 0
    loss: float = 0.0
    psnr_db: float = 0.0
    splats: int = 0
    seconds_left: float = 0.0
    curve: list[Point] = field(default_factory=list)
    test_psnr_db: float | None = None
    test_ssim: float | None = None
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    device: str = ""
    snapshots: int = 0
    previews: int = 0
    file_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """How much of the running part is done, 0 to 1."""
        return min(1.0, self.step / self.steps) if self.steps else 0.0


class Session:
    """Captures, starts the engine, follows it.

    Args:
        run: The run's directory.
        start_engine: Starts the engine once the capture is there; called by ``poll``. None: the capture is all
            that is wanted.
        capture: Steps of a capture: each yields what a ``CaptureStep`` holds; closed on cancel. One that waits for
            news has ``wait_s``, and is told there how long it may. None: the capture is there already.
        clock: Seconds; for tests.
    """

    def __init__(
        self,
        run: RunDirectory,
        start_engine: Callable[[], Engine] | None,
        capture: Iterator[tuple[Any, ...]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run = run
        self.state = State.IDLE
        self.report = Report()
        self.error: UserError | None = None
        self.capture_directory: Path | None = None
        """What is fitted to, where that is known: its points are shown before there are splats."""
        self._start_engine = start_engine
        self._capture = capture
        self._engine: Engine | None = None
        self._clock = clock
        self._since_s = 0.0
        self._curve = CurveKeeper(self.report.curve)

    def start(self) -> None:
        """Leaves idle; the work itself is done by ``poll``.

        Raises:
            RuntimeError: The session was started before.
        """
        if self.state is not State.IDLE:
            raise RuntimeError(f"a session starts once; this one is {self.state.value}")
        self._since_s = self._clock()
        self.state = State.CAPTURING
        self.report.phase = "Looking at the scene" if self._capture is not None else ENGINE_STARTS

    def poll(self, wait_s: float = 0.0) -> bool:
        """Does what there is to do: renders one view, or takes what the engine said.

        Args:
            wait_s: How long to wait for news; 0 in the GUI.

        Returns:
            True as long as it must be called again.
        """
        try:
            if self.state is State.CAPTURING:
                self._poll_capture(wait_s)
            elif self.state.has_engine:
                self._poll_engine(wait_s)
        except UserError as error:
            self.fail(error)
        except BaseException:
            # A mistake of ours: leave nothing running, and let the caller report it.
            self.cancel()
            raise
        return self.state is not State.IDLE and not self.state.is_over

    def pause(self) -> bool:
        """Asks the engine to stand still; False if it is not fitting."""
        return self.state is State.FITTING and self._send(events.Pause())

    def resume(self) -> bool:
        """Asks a paused engine to go on; False if it is not paused."""
        return self.state is State.PAUSED and self._send(events.Resume())

    def save(self) -> bool:
        """Asks for a snapshot and a checkpoint now; False if nothing is being fitted."""
        return self.state.has_engine and self._send(events.Save())

    def snapshot(self) -> bool:
        """Asks for the splats as they are now; False if nothing is being fitted."""
        return self.state.has_engine and self._send(events.Snapshot())

    def preview(self, frame: dict[str, Any]) -> bool:
        """Asks for a picture of a camera (the keys of a frame in transforms.json); False if nothing is being fitted."""
        return self.state.has_engine and self._send(events.Preview(frame))

    def stop(self) -> bool:
        """Asks for the result as it stands now. While capturing there is none: the session is cancelled."""
        if self.state.has_engine:
            return self._send(events.Stop())
        if self.state is State.CAPTURING:
            self.cancel()
        return False

    def cancel(self) -> None:
        """Ends everything; the engine saves a checkpoint. Does nothing when the session is over."""
        if self.state.is_over:
            return
        self.state = State.CANCELLED
        self._release()

    def discard(self) -> None:
        """Ends everything at once; nothing is saved, for nothing of it is wanted."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.kill()
        self.cancel()

    def fail(self, error: UserError) -> None:
        """Ends everything for a reason that lies outside: the result cannot be used, for example."""
        self.error = error
        self.state = State.FAILED
        self._release()

    def _send(self, command: events.Command) -> bool:
        return self._engine is not None and self._engine.send(command)

    def _poll_capture(self, wait_s: float) -> None:
        if self._capture is not None:
            if hasattr(self._capture, "wait_s"):
                self._capture.wait_s = wait_s
            step = next(self._capture, None)
            if step is not None:
                self._take_capture_step(CaptureStep(*step))
                return
            self.report.seconds["capture"] = self._clock() - self._since_s
        self._capture = None
        if self._start_engine is None:
            self.state = State.FINISHED
            return
        self.report.step = self.report.steps = 0
        self.report.seconds_left = 0.0
        self.report.phase = ENGINE_STARTS
        self._since_s = self._clock()
        self._engine = self._start_engine()
        self.state = State.FITTING

    def _take_capture_step(self, step: CaptureStep) -> None:
        report = self.report
        report.step, report.steps, report.phase = step.done, step.total, step.phase
        report.seconds_left = step.seconds_left
        report.views = step.total

    def _poll_engine(self, wait_s: float) -> None:
        assert self._engine is not None
        for event in self._engine.new_events(wait_s):
            self._take(event)
        if self._engine.is_running():
            return
        error = self._engine.error()
        if error is not None:
            raise error
        self.report.seconds["fit"] = self._clock() - self._since_s
        self.report.seconds_left = 0.0
        self.state = State.FINISHED
        self._release()

    def _take(self, event: events.Event) -> None:
        report = self.report
        if isinstance(event, events.Started):
            report.step, report.steps = event.first_step, event.steps
            report.splats, report.device = event.splats, event.device
            report.phase = "Fitting"
        elif isinstance(event, events.Progress):
            report.step, report.steps, report.loss = event.step, event.steps, event.loss
            report.psnr_db, report.splats, report.seconds_left = event.psnr, event.splats, event.seconds_left
            self._curve.add((event.step, event.loss, event.psnr))
        elif isinstance(event, events.Warned):
            report.warnings += [event.message] * (event.message not in report.warnings)
        elif isinstance(event, events.Evaluated) and event.views:
            report.test_psnr_db, report.test_ssim = event.psnr, event.ssim
        elif isinstance(event, events.FileWritten):
            report.snapshots += event.kind in ("snapshot", "splats")
            report.phase = "Measuring the result" if event.kind == "splats" else report.phase
            report.previews += event.kind == "preview"
            report.file_seconds[event.kind] = event.seconds
        elif isinstance(event, events.Paused):
            self.state, report.phase = State.PAUSED, "Paused"
        elif isinstance(event, events.Resumed):
            self.state, report.phase = State.FITTING, "Fitting"
        elif isinstance(event, events.Finished):
            report.step, report.splats, report.metrics = event.step, event.splats, event.metrics

    def _release(self) -> None:
        """Closes the capture, which puts the user's scene back, and the engine."""
        capture, self._capture = self._capture, None
        engine, self._engine = self._engine, None
        try:
            close = getattr(capture, "close", None)
            if close is not None:
                close()
        finally:
            if engine is not None:
                engine.close()
