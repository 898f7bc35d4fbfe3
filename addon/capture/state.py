"""Which views of a capture are finished: a line of JSON each, so that an interrupted capture can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_failure

STATE_NAME = "views/captured.jsonl"


def read_state(root: Path) -> dict[str, dict[str, Any]]:
    """Returns EXR name to its latest line in the state file; lines that were cut off are skipped."""
    state: dict[str, dict[str, Any]] = {}
    try:
        lines = (root / STATE_NAME).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return state
    except OSError as error:
        raise UserError(
            f"Cannot read {root / STATE_NAME}: {error.strerror}.", "Check its permissions.", error
        ) from error
    for line in lines:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("exr"), str):
            state[entry["exr"]] = entry
    return state


def add_state(root: Path, entry: dict[str, Any]) -> None:
    """Appends a finished view to the state file.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        with (root / STATE_NAME).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
    except OSError as error:
        raise write_failure(root / STATE_NAME, error) from error
