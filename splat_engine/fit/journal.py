"""What is told of a run while it goes on: events with their time, warnings, progress; and its clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from splat_engine.fit.trainer import StepResult, Trainer
from splat_engine.formats import events
from splat_engine.formats.events import Event

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S = 0.25


class Journal:
    """A run's events and its clock, which begins when the journal is made.

    Args:
        send: Takes each event.

    Attributes:
        seconds_before: Seconds of work before the clock: before a resume, or ahead of the fit.
    """

    def __init__(self, send: Callable[[Event], None]) -> None:
        self.seconds_before = 0.0
        self._send = send
        self._began_s = time.monotonic()
        self._paused_s = 0.0

    def emit(self, event: Event) -> None:
        """Sends an event with its time."""
        self._send(replace(event, time_s=time.monotonic() - self._began_s))

    def warn(self, message: str) -> None:
        """Sends a warning."""
        logger.warning("%s", message)
        self.emit(events.Warned(message=message))

    def written(self, kind: str, path: Path, step: int, since_s: float | None = None) -> None:
        """Tells of a file; ``since_s`` is when writing it began, of ``time.monotonic``."""
        seconds = 0.0 if since_s is None else time.monotonic() - since_s
        self.emit(events.FileWritten(kind=kind, path=str(path), step=step, seconds=seconds))

    def seconds(self) -> float:
        """Seconds of work in this run, those before a resume included, pauses left out."""
        return self.seconds_before + time.monotonic() - self._began_s - self._paused_s

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The clock of work stands still inside."""
        since_s = time.monotonic()
        try:
            yield
        finally:
            self._paused_s += time.monotonic() - since_s


class Progress:
    """Loss between two progress events, PSNR with a short memory, and the time that is left; ``clock`` stands still in pauses."""

    def __init__(self, trainer: Trainer, clock: Callable[[], float]) -> None:
        self._trainer = trainer
        self._work_before = trainer.work_until(trainer.step)
        self._clock = clock
        self._began_s = self._told_s = clock()
        self._losses: list[float] = []
        self._psnr: float | None = None

    def add(self, result: StepResult) -> None:
        """Takes in one step."""
        if result.loss is not None:
            self._losses.append(result.loss)
        if result.psnr is not None:
            self._psnr = result.psnr if self._psnr is None else 0.7 * self._psnr + 0.3 * result.psnr

    def is_due(self) -> bool:
        """Whether it is time for an event."""
        return bool(self._losses) and self._clock() - self._told_s >= PROGRESS_INTERVAL_S

    def event(self) -> events.Progress:
        """Returns the event, and begins the next average; the last step is nearer once the fit is to end early."""
        self._told_s = self._clock()
        trainer, last_step = self._trainer, self._trainer.schedule.last_step
        done, whole = trainer.work_until(trainer.step), trainer.work_until(last_step)
        speed = (self._told_s - self._began_s) / max(1e-9, done - self._work_before)
        event = events.Progress(
            step=trainer.step,
            steps=last_step,
            loss=sum(self._losses) / len(self._losses),
            psnr=self._psnr or 0.0,
            splats=len(trainer.state),
            seconds_left=speed * (whole - done),
        )
        self._losses.clear()
        return event
