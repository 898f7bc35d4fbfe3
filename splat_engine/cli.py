"""The command ``splat-engine``: train, propose, render, eval, info, doctor, fit-image.

Exit codes: 0 done; 1 something the user can mend (said in words on stderr); 2 a wrong command line; 3 a failure of
ours; 130 interrupted, with a checkpoint to resume from.

Each command lies in a module of splat_engine.commands. torch is imported inside its work alone, so ``--help`` is quick
and a missing torch is an error in words.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from splat_engine import report
from splat_engine.commands.common import (
    EPILOG,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_USER,
    failure_of,
    program_version,
)
from splat_engine.commands.evaluate import add_eval
from splat_engine.commands.fit_image import add_fit_image
from splat_engine.commands.inspect import add_doctor, add_info
from splat_engine.commands.propose import add_propose
from splat_engine.commands.render import add_render
from splat_engine.commands.train import add_train
from splat_engine.formats.errors import UserError


def run() -> NoReturn:
    """Runs the command line as a process, and ends the process with its exit code.

    It ends at once, once all that was said is out: taking apart what torch has made would last 0.2 s, and
    the system takes memory, threads and a card back anyhow. Files are closed and locks let go by whoever holds them.
    """
    code = main()
    logging.shutdown()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python's own end says what was lost
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    # Threads of torch that spin while they wait would take the cores from ours (shared/bench: three times slower).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except UserError as error:
        report.say_error(error)
        return EXIT_USER
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        logged = getattr(options, "log", None)
        report.say_error(failure_of(error, logged))
        if logged is None:
            traceback.print_exception(error, file=sys.stderr)
        return EXIT_INTERNAL


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="splat-engine", description="Fits 3D Gaussian splats to rendered views.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"splat-engine {program_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (add_train, add_propose, add_render, add_eval, add_info, add_doctor, add_fit_image):
        add(commands)
    return parser
