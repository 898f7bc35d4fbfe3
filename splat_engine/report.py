"""What the commands tell: the event stream on stdout, a progress bar on a terminal, errors in words.

Together with ``cli`` the only writer of stdout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Event, encode
from splat_engine.formats.files import write_failure

ProgressStyle = Literal["json", "bar", "none"]


def default_style(stream: IO[str] | None = None) -> ProgressStyle:
    """Returns "bar" on a terminal, else "json"."""
    stream = stream or _event_stream or sys.stdout
    return "bar" if stream is not None and stream.isatty() else "json"


_event_stream: IO[str] | None = None
"""Our own way to stdout once ``guard_stdout`` has closed the common one."""


def guard_stdout() -> None:
    """Keeps stdout for ourselves: what libraries print there, in C or in Python, goes to stderr from now on."""
    global _event_stream
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    if descriptor != 1 or _event_stream is not None:
        return
    sys.stdout.flush()
    _event_stream = os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, descriptor)
    sys.stdout = sys.stderr


def say(text: str = "") -> None:
    """Writes a line to stdout; a reader that is gone is no failure of ours."""
    stream = _event_stream or sys.stdout
    try:
        stream.write(text + "\n")
        stream.flush()
    except BrokenPipeError:
        # What is still in the buffer must not fail again when the interpreter flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say_json(value: Any) -> None:
    """Writes a value as indented JSON to stdout."""
    say(json.dumps(value, indent=2, allow_nan=False))


def say_error(error: UserError) -> None:
    """Writes an error's headline and hint to stderr."""
    lines = [f"error: {error.headline}", *([error.hint] if error.hint else [])]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def say_table(rows: Mapping[str, Any]) -> None:
    """Writes names and values in two columns to stdout."""
    width = max((len(name) for name in rows), default=0)
    for name, value in rows.items():
        say(f"{name:<{width}}  {value}")


class Reporter:
    """Takes the events of a run: into events.jsonl, and to whoever watches.

    A context manager; leaving it closes the file and the bar.

    Args:
        style: "json" writes each event as a line on stdout, "bar" draws a bar on stderr, "none" neither.
        log: events.jsonl, appended to; or None.

    Raises:
        UserError: The file cannot be opened, or later not be written.
    """

    def __init__(self, style: ProgressStyle, log: Path | None = None) -> None:
        self.style = style
        self._log_path = log
        self._log: IO[str] | None = None
        self._bar: Any = None
        if log is not None:
            try:
                self._log = log.open("a", encoding="utf-8")
            except OSError as error:
                raise write_failure(log, error) from error

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._log is not None:
            self._log.close()

    def emit(self, event: Event) -> None:
        """Records and shows an event.

        Raises:
            UserError: events.jsonl cannot be written.
        """
        line = encode(event)
        if self._log is not None and self._log_path is not None:
            try:
                self._log.write(line)
                self._log.flush()
            except OSError as error:
                # Closed once here; a second failing flush at exit would hide this one.
                self._log = None
                raise write_failure(self._log_path, error) from error
        if self.style == "json":
            say(line.rstrip("\n"))
        elif self.style == "bar":
            self._show(event)

    def _show(self, event: Event) -> None:
        from tqdm import tqdm  # absent in an incomplete installation, which is told in words before any event

        if isinstance(event, events.Started):
            self._bar = tqdm(
                total=event.steps, initial=event.first_step, unit="step", dynamic_ncols=True, file=sys.stderr
            )
        elif isinstance(event, events.Progress) and self._bar is not None:
            self._bar.set_postfix_str(f"{event.psnr:.1f} dB, {event.splats} splats", refresh=False)
            self._bar.update(event.step - self._bar.n)
        elif isinstance(event, events.Warned):
            tqdm.write(f"warning: {event.message}", file=sys.stderr)
        elif isinstance(event, (events.Paused, events.Resumed)):
            tqdm.write(event.name, file=sys.stderr)
        elif isinstance(event, events.Finished) and self._bar is not None:
            self._bar.close()
