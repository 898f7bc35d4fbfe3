"""The folder of the engine's environment: its parts, the stamp that makes it whole, and the lock of who works on it.

The stamp is written last and taken away first: an environment without one, or with one that names another wheel, does
not pass for whole. What a set-up that broke off has downloaded stays in the cache, so the next one is quick.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import read_json, write_failure, write_json

_STAMP_NAME = "ready.json"


class Status(Enum):
    """What lies in the place."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    OUTDATED = "outdated"
    READY = "ready"


@dataclass(frozen=True)
class EnginePlace:
    """Where the engine's environment is made.

    Attributes:
        root: The folder; all else lies in it, so that removing the folder removes everything.
    """

    root: Path

    @property
    def environment(self) -> Path:
        """The virtual environment."""
        return self.root / "environment"

    @property
    def python(self) -> Path:
        """The engine's Python."""
        return self.environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def cache(self) -> Path:
        """Downloaded packages. uv links them into the environment, so they do not lie on the disk twice."""
        return self.root / "cache"

    @property
    def pythons(self) -> Path:
        """Pythons that uv has brought."""
        return self.root / "pythons"

    @property
    def log(self) -> Path:
        """What the programs said."""
        return self.root / "setup.log"

    @property
    def stamp(self) -> Path:
        """The file that says what the environment holds; there only when it is whole."""
        return self.root / _STAMP_NAME


def status(place: EnginePlace, wheel: Path) -> Status:
    """Returns what lies in a place, compared with the wheel that this extension carries."""
    if not place.stamp.is_file():
        return Status.UNFINISHED if place.cache.is_dir() or place.environment.is_dir() else Status.ABSENT
    if not place.python.is_file():
        return Status.UNFINISHED
    try:
        made_of = read_json(place.stamp, "stamp")
    except UserError:
        return Status.UNFINISHED
    current = isinstance(made_of, dict) and made_of.get("wheel_sha256") == digest(wheel)
    return Status.READY if current else Status.OUTDATED


def write_stamp(place: EnginePlace, wheel: Path, facts: dict[str, Any]) -> None:
    """Makes the environment whole: to be called when everything is installed and checked.

    Raises:
        UserError: It cannot be written.
    """
    write_json(place.stamp, {"wheel": wheel.name, "wheel_sha256": digest(wheel), "facts": facts})


def read_facts(place: EnginePlace) -> dict[str, Any]:
    """Returns what the check after the set-up found; {} where there is no stamp."""
    return dict(read_json(place.stamp, "stamp").get("facts", {})) if place.stamp.is_file() else {}


def digest(wheel: Path) -> str:
    """Returns a file's SHA-256 in hexadecimal; read anew only when the file has changed."""
    found = wheel.stat()
    return _digest(wheel, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _digest(wheel: Path, changed_ns: int, size: int) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def carried_wheel(addon: Path) -> Path:
    """Returns the engine's wheel that an installed extension carries.

    Args:
        addon: The folder of the add-on.

    Raises:
        UserError: There is none, as in a checkout, or more than one.
    """
    found = sorted((addon / "wheels").glob("splat_engine-*.whl"))
    if len(found) != 1:
        raise UserError(
            f"This Splatfit carries no wheel of the engine: it runs from {addon}.",
            "In a checkout run `make setup`, or choose the engine's Python. Otherwise install the extension again.",
        )
    return found[0]


@contextmanager
def locked(place: EnginePlace) -> Iterator[int]:
    """Holds the place's lock, which the system lets go when its holder is gone, however it ended.

    Yields:
        The lock's file descriptor. On POSIX a child that is given it holds the lock too, for as long as it lives.

    Raises:
        UserError: Another holds it, or the folder cannot be written.
    """
    path = place.root / "lock"
    try:
        place.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise write_failure(path, error) from error
    try:
        try:
            _lock(descriptor)
        except OSError as error:
            raise UserError(
                "Another Blender is setting up the engine at this moment.",
                "Wait until it is done; this one will find the engine then.",
                error,
            ) from error
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
