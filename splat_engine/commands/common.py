"""What all commands share: exit codes, how a command is added to the parser, the words for a failure of ours."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError

EXIT_OK, EXIT_USER, EXIT_INTERNAL, EXIT_INTERRUPTED = 0, 1, 3, 130  # and 2, which is argparse's own
EPILOG = (
    "Exit codes: 0 done; 1 something you can mend (stderr says what); 2 wrong command line; 3 failure of the program; "
    "130 interrupted, with a checkpoint saved (go on with --resume)."
)


def add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], help: str) -> Any:
    """Adds a command to those of a parser; returns its own parser."""
    parser = commands.add_parser(name, help=help, description=help, epilog=EPILOG)
    parser.set_defaults(command=run)
    return parser


def failure_of(error: Exception, log: Path | None) -> UserError:
    """Returns the words for what is not the user's mistake."""
    if isinstance(error, MemoryError):
        return UserError("There is not enough memory.", "Use fewer or smaller views, or fewer splats.", error)
    hint = f"Please report this, with {log}." if log else "Please report this, with the lines below."
    return UserError(f"The engine failed: {type(error).__name__}: {error}", hint, error)


def program_version() -> str:
    """Returns the version of the installed package, or "unknown" in a bare checkout."""
    try:
        return metadata.version("splat-engine")
    except metadata.PackageNotFoundError:
        return "unknown"
