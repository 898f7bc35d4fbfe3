"""What commands that make a run share: its options, its lock, log and events, and where its commands come from."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_engine import report
from splat_engine.commands.common import EXIT_INTERRUPTED, EXIT_OK, failure_of
from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Event, Failed, Finished
from splat_engine.formats.files import write_failure
from splat_engine.formats.locks import Lock
from splat_engine.formats.run import RunDirectory

if TYPE_CHECKING:
    from splat_engine.fit.commands import CommandQueue

logger = logging.getLogger(__name__)


def add_run(parser: Any) -> None:
    """Adds the options of a command that makes a run of a capture."""
    parser.add_argument("capture", type=Path, help="folder of the capture, or its transforms.json")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="RUN",
        help="folder of the run; an earlier run in it is replaced",
    )
    parser.add_argument(
        "--commands",
        action="store_true",
        help="read commands (pause, resume, save, stop, preview) as JSON lines from stdin; when it is closed, "
        "save a checkpoint and exit",
    )
    parser.add_argument(
        "--progress",
        choices=("json", "bar", "none"),
        help="events as JSON lines on stdout, a progress bar, or neither; default: a bar on a terminal, else json",
    )


def follow_run(
    options: argparse.Namespace, work: Callable[[RunDirectory, Callable[[Event], None]], Finished]
) -> int:
    """Does a run's work with its log and its events, alone in the run's folder; returns the exit code."""
    report.guard_stdout()
    run = RunDirectory.create(options.out)
    style = options.progress or report.default_style()
    with _alone_in(run, style), report.Reporter(style, run.events) as reporter:
        _log_to(run.log)
        options.log = run.log
        try:
            finished = work(run, reporter.emit)
        except UserError as error:
            logger.error(
                "%s", error, exc_info=error.cause if isinstance(error.cause, BaseException) else None
            )
            reporter.emit(Failed.of(error))
            raise
        except Exception as error:
            logger.exception("failure")
            reporter.emit(Failed.of(failure_of(error, run.log)))
            raise
    if reporter.style == "bar":
        report.say_table({"result": run.root, "reason": finished.reason, **finished.metrics})
    return EXIT_INTERRUPTED if finished.reason == "interrupted" else EXIT_OK


@contextmanager
def _alone_in(run: RunDirectory, style: report.ProgressStyle) -> Iterator[None]:
    """Holds the run's lock; where another engine has it, the refusal is told on stdout and not in that engine's files."""
    try:
        lock = Lock(run.lock, f"The run {run.root}")
    except UserError as error:
        with report.Reporter(style) as reporter:
            reporter.emit(Failed.of(error))
        raise
    with lock:
        yield


def _log_to(path: Path) -> None:
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise write_failure(path, error) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def listening(options: argparse.Namespace) -> CommandQueue:
    """Returns where commands come from: signals, and stdin where it was asked for. After ``start_device``."""
    from splat_engine.fit.commands import CommandQueue

    commands = CommandQueue()
    _catch_signals(commands)
    if options.commands:
        commands.listen(sys.stdin.fileno())
    return commands


def _catch_signals(commands: CommandQueue) -> None:
    """Ctrl-C and termination end the fit after the present step, with a checkpoint; the second one at once."""
    from splat_engine.fit.commands import Interrupt

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        commands.put(Interrupt())

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
