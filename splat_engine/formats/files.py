"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from splat_engine.formats.errors import FormatError, UserError

_HINTS = {
    errno.ENOSPC: "The disk is full: free some space, or choose another folder.",
    errno.EDQUOT: "Your disk quota is used up: free some space, or choose another folder.",
    errno.EACCES: "You may not write there: choose another folder, or change its permissions.",
    errno.EPERM: "You may not write there: choose another folder, or change its permissions.",
    errno.EROFS: "That folder is read-only: choose another.",
    errno.ENOENT: "The folder does not exist: create it, or choose another.",
    errno.ENOTDIR: "Part of that path is a file, not a folder: choose another.",
    errno.EEXIST: "Part of that path is a file, not a folder: choose another.",
    errno.EISDIR: "There is a folder of that name: remove it, or choose another name.",
    errno.ENAMETOOLONG: "The path is too long: choose a shorter one.",
}


def write_failure(path: str | Path, error: OSError) -> UserError:
    """Returns the words for a failed write."""
    hint = _HINTS.get(error.errno or 0, "Check the folder and try again.")
    return UserError(f"Cannot write {path}: {error.strerror or error}.", hint, error)


@contextmanager
def write_aside(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a temporary file beside ``path`` that replaces it when the block ends well.

    The folder is made if need be. After an exception the old file stands untouched and
    the temporary one is gone.

    Args:
        path: The file to write.

    Yields:
        A binary file object.

    Raises:
        UserError: The folder or file cannot be written, or the disk is full.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".part", dir=path.parent)
        temporary = Path(name)
        os.chmod(name, 0o666 & ~_umask())
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise write_failure(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_bytes(path: str | Path, content: bytes) -> None:
    """Writes ``content`` to ``path``, whole or not at all."""
    with write_aside(path) as stream:
        stream.write(content)


def write_json(path: str | Path, value: Any) -> None:
    """Writes ``value`` as indented JSON, whole or not at all; NaN and infinity are refused."""
    write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: str | Path, what: str = "file") -> Any:
    """Reads a JSON file.

    Args:
        path: The file.
        what: The file's role, for the message, such as ``"capture"``.

    Raises:
        UserError: The file is missing, unreadable or not JSON.
    """
    path = Path(path)
    try:
        return parse_json(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UserError(f"There is no {what} at {path}.", "Check the path.", error) from error
    except OSError as error:
        raise UserError(
            f"Cannot read the {what} {path}: {error.strerror}.", "Check its permissions.", error
        ) from error
    except ValueError as error:
        raise FormatError(f"{path} is not valid JSON: {error}.", f"Write the {what} anew.", error) from error


def parse_json(text: str) -> Any:
    """Parses strict JSON: what Python's parser lets through beyond the standard is an error.

    Raises:
        ValueError: The text is not JSON, holds NaN or infinity, or is nested too deeply.
    """

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number in JSON")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse(digits)

    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
