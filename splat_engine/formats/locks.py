"""A folder that one program alone may write: a lock that the system takes back when its holder dies.

The file's text says who holds it, for a person; whether it is held is the system's word, so a file that a killed
program left behind, or one whose process number another program has now, locks nobody out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_failure

_WINDOWS_OFFSET = 1 << 30
"""Windows locks bytes against reading too: this one lies behind the text."""
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""What a file system says that knows no locks; nothing is guarded there."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Attributes:
        pid: Number of the process; 0 if the file does not say.
        host: Name of its computer.
    """

    pid: int = 0
    host: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid else "another program"


class Lock:
    """Holds a lock from its making until it is released, left as a context, or the process ends.

    Args:
        path: The lock's file; its folder must exist.
        what: What is guarded, as the beginning of a sentence, such as "The run /runs/7".

    Raises:
        UserError: Another program holds it, or the file cannot be written.
    """

    def __init__(self, path: Path, what: str) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise write_failure(path, error) from error
        if not _take(self._file):
            os.close(self._file)
            raise UserError(
                f"{what} is being written by another Splatfit ({_named_in(path)}).",
                "Wait for its end, stop it there, or choose another folder.",
            )
        self._is_held = True
        try:
            os.ftruncate(self._file, 0)
            os.write(self._file, json.dumps(asdict(Holder(os.getpid(), socket.gethostname()))).encode())
        except OSError as error:
            self.release()
            raise write_failure(path, error) from error

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Gives the lock back; doing so twice does nothing."""
        if self._is_held:
            self._is_held = False
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)  # which gives it back


def holder_of(path: Path) -> Holder | None:
    """Returns who holds a lock; None where nobody does, there is no such file, or it cannot be read."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        return None if _take(file) else _named_in(path)
    finally:
        os.close(file)


def _named_in(path: Path) -> Holder:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return Holder(int(said["pid"]), str(said["host"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()


def _take(file: int) -> bool:
    """Takes the lock if it is free; it is gone when the file is closed."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, _WINDOWS_OFFSET, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            os.lseek(file, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _UNSUPPORTED
    return True
