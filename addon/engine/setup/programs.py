"""A program run line by line, told to stop at any time with all that it has started, and logged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_failure

from .download import Cancelled
from .words import program_failure

_DROPPED = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
_TOLD_LINES = 60


def without_python(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns an environment without what would lead a Python to the packages of another."""
    return {name: value for name, value in environment.items() if name not in _DROPPED}


class Runner:
    """Runs programs one after another; ``cancel`` may be called from another thread.

    Args:
        log: The file that everything they say is added to.
        environment: What they inherit.
        held: File descriptor that they hold open as long as they live; POSIX only.
    """

    def __init__(self, log: Path, environment: Mapping[str, str], held: int | None = None) -> None:
        self.log = log
        self._environment = environment
        self.held = held
        self._guard = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._cancelled = False

    def is_cancelled(self) -> bool:
        """Tells whether ``cancel`` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Ends the program that runs, with its children, and lets none start any more."""
        with self._guard:
            self._cancelled = True
            if self._process is not None:
                end_with_children(self._process)

    def run(
        self,
        step: str,
        command: Sequence[str | Path],
        added: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Runs a program to its end and returns what it said.

        Args:
            step: What it does, for the words of a failure.
            command: The command line.
            added: Environment variables.

        Raises:
            UserError: It cannot be started, or fails.
            Cancelled: ``cancel`` was called.
        """
        words = [str(word) for word in command]
        lines: list[str] = []
        process = self._start(step, words, {**self._environment, **(added or {})})
        try:
            with self.log.open("a", 1, encoding="utf-8") as log, process:
                log.write(f"$ {subprocess.list2cmdline(words)}\n")
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    lines.append(line.rstrip())
        except OSError as error:  # of the log
            end_with_children(process)
            raise write_failure(self.log, error) from error
        finally:
            with self._guard:
                self._process = None
        if self._cancelled:
            raise Cancelled
        if process.returncode != 0:
            raise program_failure(step, "\n".join(lines[-_TOLD_LINES:]), str(self.log))
        return lines

    def _start(self, step: str, words: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        with self._guard:
            if self._cancelled:
                raise Cancelled
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self.log.parent,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    **_own_group(self.held),
                )
            except OSError as error:
                raise UserError(
                    f"{step} failed: {words[0]} does not start ({error.strerror}).", "", error
                ) from error
            return self._process


def end_with_children(process: subprocess.Popen[str]) -> None:
    """Ends a program that has a group of its own, and all in the group, at once."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
        subprocess.run(command, capture_output=True, check=False, creationflags=subprocess.CREATE_NO_WINDOW)
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has ended by itself just now
            return


def _own_group(held: int | None) -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True, "pass_fds": () if held is None else (held,)}
