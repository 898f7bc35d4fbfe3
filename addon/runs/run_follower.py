"""A run that another program has started, watched by its files. Knows no bpy."""

from __future__ import annotations

import time

from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.locks import holder_of
from splat_engine.formats.run import RunDirectory

from ..engine.engine_process import RESULT_REASONS
from .earlier_runs import HISTORY_BYTES, event_of, last_events

_LOOK_S = 0.1


class RunFollower:
    """Stands where an engine stands in a session; it cannot be told anything, and closing it leaves the run alone.

    Args:
        run: A run that is being written.

    Raises:
        UserError: Its events cannot be read.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.ending: events.Finished | events.Failed | None = None
        self._is_over = False
        try:
            self._offset = run.events.stat().st_size
            self._waiting = last_events(run, HISTORY_BYTES)
        except OSError as error:
            raise UserError(
                f"Cannot read {run.events}: {error.strerror}.", "Check the folder.", error
            ) from error
        self._take(self._waiting)

    def is_running(self) -> bool:
        """Tells whether more may come."""
        return not self._is_over

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        """Returns what was written since the last call; waits so long for the first."""
        until_s = time.monotonic() + wait_s
        while True:
            is_held = (
                holder_of(self.run.lock) is not None
            )  # before reading, or its last words would be missed
            found, self._waiting = self._waiting + self._read(), []
            if found or not is_held or time.monotonic() >= until_s:
                self._is_over = not found and not is_held
                return found
            time.sleep(_LOOK_S)

    def send(self, command: events.Command) -> bool:
        """Tells it nothing: it listens to the program that has started it."""
        return False

    def error(self) -> UserError | None:
        """Returns why it ended without a result; None if it runs or has one."""
        if not self._is_over:
            return None
        if isinstance(self.ending, events.Finished) and self.ending.reason in RESULT_REASONS:
            return None
        if isinstance(self.ending, events.Failed):
            return self.ending.error()
        return UserError(
            f"The run {self.run.root} ended without a result.",
            "Resume it under Unfinished, if it has a checkpoint.",
        )

    def close(self) -> None:
        """Stops watching."""

    def kill(self) -> None:
        """Stops watching."""

    def _read(self) -> list[events.Event]:
        """Returns the whole lines that were written since the last reading."""
        try:
            with self.run.events.open("rb") as stream:
                stream.seek(self._offset)
                content = stream.read()
        except OSError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        decoded = (event_of(line.decode("utf-8", "replace")) for line in whole.splitlines())
        found = [event for event in decoded if event is not None]
        self._take(found)
        return found

    def _take(self, found: list[events.Event]) -> None:
        for event in found:
            if isinstance(event, (events.Finished, events.Failed)):
                self.ending = event
