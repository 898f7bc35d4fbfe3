"""Commands to a running fit: where they come from, and that a closed pipe is one too."""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass
from typing import ClassVar, Protocol

from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Command, decode_command

LINE_BYTES_MAX = 1 << 20
"""A longer line is no command of ours."""


@dataclass(frozen=True)
class ParentGone(Command):
    """Nobody is left to give commands: save, and exit."""

    name: ClassVar[str] = "parent gone"


@dataclass(frozen=True)
class Interrupt(Command):
    """Ctrl-C or a termination signal: save, and exit."""

    name: ClassVar[str] = "interrupt"


@dataclass(frozen=True)
class Unreadable(Command):
    """A line that is no command; the fit warns and goes on."""

    name: ClassVar[str] = "unreadable"
    message: str = ""


class CommandSource(Protocol):
    """What the fit asks for commands."""

    def poll(self) -> Command | None:
        """Returns the next command, or None at once."""

    def wait(self) -> Command:
        """Returns the next command when there is one."""


class CommandQueue:
    """Commands by hand: from signal handlers, tests, or a thread that reads a pipe."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Command] = queue.SimpleQueue()

    def put(self, command: Command) -> None:
        """Adds a command; safe from any thread and from a signal handler."""
        self._queue.put(command)

    def poll(self) -> Command | None:
        """Returns the next command, or None at once."""
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def wait(self) -> Command:
        """Returns the next command when there is one."""
        return self._queue.get()

    def listen(self, file_descriptor: int) -> None:
        """Reads commands, a JSON line each, from a pipe until it is closed; then adds ``ParentGone``.

        The thread reads the descriptor itself: one that sleeps inside Python's stdin would hold a lock that the
        interpreter wants at its end.
        """
        thread = threading.Thread(target=self._read, args=(file_descriptor,), name="commands", daemon=True)
        thread.start()

    def _read(self, file_descriptor: int) -> None:
        pending = b""
        while chunk := _read_some(file_descriptor):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                self._put_line(line)
            pending = pending[:LINE_BYTES_MAX]
        self._put_line(pending)
        self.put(ParentGone())

    def _put_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return
        try:
            self.put(decode_command(text))
        except UserError as error:
            self.put(Unreadable(error.headline))


def _read_some(file_descriptor: int) -> bytes:
    """Reads what is there; nothing when the pipe is closed or broken."""
    try:
        return os.read(file_descriptor, 65536)
    except OSError:
        return b""
