"""A program of ours as a subprocess that tells events: started, listened to, told, and ended. Knows no bpy.

Its stdout is a stream of events, its stdin takes commands; a closed stdin tells it that its parent is gone, so that it
never outlives Blender. Its stderr goes to a log.
"""

from __future__ import annotations

import logging
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import splat_engine
from splat_engine.formats import events
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import write_failure

CLOSE_TIMEOUT_S = 20.0
_LOG_LINES = 8
_KILLED = 9
"""The number of SIGKILL, which Windows has not."""

_logger = logging.getLogger(__name__)


class ChildProcess:
    """A running program.

    Args:
        command: The command line.
        log: File that its stderr is appended to.
        environment: Its environment.

    Raises:
        UserError: The process cannot be started or the log cannot be written.
    """

    name = "The program"
    """Beginning of the sentence that tells of its end."""
    start_hint = ""
    """What to do if it cannot be started."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self.ending: events.Finished | events.Failed | None = None
        self._events: queue.SimpleQueue[events.Event | None] = queue.SimpleQueue()
        self._is_over = False
        self._process = _started(command, log, environment, self.start_hint)
        self._reader = threading.Thread(target=self._listen, name="splatfit-child", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def is_running(self) -> bool:
        """Tells whether the process lives, or has left events that were not yet fetched."""
        return not self._is_over

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        """Returns the events since the last call.

        Args:
            wait_s: How long to wait for the first one, or for the end.
        """
        found: list[events.Event] = []
        try:
            event = self._events.get(timeout=wait_s) if wait_s > 0 else self._events.get_nowait()
            while event is not None:
                found.append(event)
                event = self._events.get_nowait()
            self._is_over = True
        except queue.Empty:
            return found
        return found

    def send(self, command: events.Command) -> bool:
        """Tells the program something; False if it no longer listens (its end will say why)."""
        stdin = self._process.stdin
        try:
            if stdin is None or stdin.closed:
                return False
            stdin.write(events.encode(command))
            stdin.flush()
        except OSError:
            return False
        return True

    def error(self) -> UserError | None:
        """Returns why it ended without a result; None while it runs or if it ended well."""
        code = self._process.poll()
        if code is None or not self._is_over:
            return None
        if isinstance(self.ending, events.Finished):
            return self.error_of(self.ending)
        if self.ending is not None:
            return self.ending.error()
        lines = _last_lines(self.log)
        hint = f"{_remedy(code)}Its log is {self.log}."
        hint += f"\n{lines}" if lines else " It is empty."
        return UserError(f"{self.name} {_exit_words(code)}.", hint, f"exit status {code}")

    def error_of(self, ending: events.Finished) -> UserError | None:
        """Returns what a good ending lacks; None for nothing."""
        return None

    def event_of(self, line: str) -> events.Event | None:
        """Returns the event in a line of stdout, None for an empty one; what is no event is a warning."""
        if not line.strip():
            return None
        try:
            return events.decode_event(line)
        except FormatError:
            text = f"{self.name} said something that is no event: {line.strip()[:200]}"
            return events.Warned(message=text)

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; False if the program still runs after that time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(timeout_s)
        return True

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Ends the program: closes its stdin, upon which it saves and exits; kills it after ``timeout_s``."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                _logger.debug("the program was gone before its stdin was closed")
        if not self.wait(timeout_s):
            _logger.warning("%s did not exit within %.0f s and is killed", self.name, timeout_s)
            self.kill()

    def kill(self) -> None:
        """Ends the program at once; what it has not saved is lost."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _listen(self) -> None:
        """Runs in the reader thread: turns stdout's lines into events; None after the last."""
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            for line in stdout:
                event = self.event_of(line)
                if isinstance(event, (events.Finished, events.Failed)):
                    self.ending = event
                if event is not None:
                    self._events.put(event)
        self._process.wait()
        self._events.put(None)


def checkout() -> Path | None:
    """Returns the repository that ``splat_engine`` was imported from, or None for an installed one."""
    root = Path(splat_engine.__file__).resolve().parents[1]
    return root if (root / "pyproject.toml").is_file() else None


def window_options() -> dict[str, Any]:
    """No console window on Windows; elsewhere a session of its own, so that Ctrl-C reaches us alone."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _started(
    command: Sequence[str], log_path: Path, environment: Mapping[str, str], hint: str
) -> subprocess.Popen[str]:
    log: IO[bytes] | None = None
    try:
        log = log_path.open("ab")
        log.write(f"$ {subprocess.list2cmdline(command)}\n".encode("utf-8", "surrogateescape"))
        log.flush()
        return subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(environment),
            text=True,
            encoding="utf-8",
            errors="replace",
            **window_options(),
        )
    except OSError as error:
        if log is None:
            raise write_failure(log_path, error) from error
        raise UserError(f"Cannot start {command[0]}: {error.strerror}.", hint, error) from error
    finally:
        if log is not None:
            log.close()


def _last_lines(log: Path) -> str:
    try:
        text = log.read_bytes()[-8192:].decode("utf-8", "replace")
    except OSError as error:
        return f"(cannot be read: {error.strerror})"
    lines = [line for line in text.splitlines() if not line.startswith("$ ")]
    return "\n".join(lines[-_LOG_LINES:])


def _remedy(code: int) -> str:
    """Returns what to do after an exit status, with a blank behind it; "" where that is not known."""
    if code == -_KILLED:
        return "Close other programs, or ask for less: fewer splats, or smaller views. "
    return ""


def _exit_words(code: int) -> str:
    if code == 0:
        return "ended without saying how"
    if code > 0:
        return f"ended with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    reason = "; the system may have run out of memory" if code == -_KILLED else ""
    return f"was killed ({name}{reason})"
