"""``train``: fits splats to a capture."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_engine.beside import Beside, can_split
from splat_engine.commands.common import add_command, program_version
from splat_engine.commands.device import cores, start_device
from splat_engine.commands.runs import add_run, follow_run, listening
from splat_engine.formats.events import Event, Finished
from splat_engine.formats.files import read_json
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import (
    RANDOM_START,
    RunSettings,
    add_run_arguments,
    run_from_dict,
    run_with_arguments,
)

if TYPE_CHECKING:
    from splat_engine.fit.ahead import Ahead
    from splat_engine.fit.loop import FitRequest


def add_train(commands: Any) -> None:
    """Adds ``train`` to a parser's commands."""
    parser = add_command(
        commands, "train", _train, "Fit splats to a capture, or to a nerfstudio or NeRF-synthetic data set."
    )
    add_run(parser)
    parser.add_argument(
        "--resume", action="store_true", help="go on from RUN/checkpoint.pt with the run's settings"
    )
    parser.add_argument(
        "--settings", type=Path, metavar="FILE", help="settings as JSON, as in RUN/settings.json"
    )
    add_run_arguments(parser)


def _train(options: argparse.Namespace) -> int:
    def work(run: RunDirectory, emit: Callable[[Event], None]) -> Finished:
        request = fit_request(options, run)
        from splat_engine.fit.loop import run_fit

        return run_fit(request, emit, listening(options))

    return follow_run(options, work)


def fit_request(options: argparse.Namespace, run: RunDirectory) -> FitRequest:
    """Puts settings together (defaults, file or earlier run, command line) and starts the device."""
    base = RunSettings()
    source = RunDirectory.open(run.root).settings if options.resume else options.settings
    if source is not None:
        base = run_from_dict(read_json(source, "settings file"), where=str(source))
    settings = run_with_arguments(base, options)
    if settings.start.start not in ("", RANDOM_START):
        path = str(Path(settings.start.start).resolve())
        settings = replace(settings, start=replace(settings.start, start=path))
    notes: list[str] = []
    with ExitStack() as beside:
        child = _look_ahead(options, settings, beside)
        place = start_device(settings.fit.device, settings.fit.threads, notes.append)
        from splat_engine.fit.ahead import Ahead
        from splat_engine.fit.loop import FitRequest

        ahead = child and child.result()
    return FitRequest(
        capture=options.capture,
        run=run.root,
        settings=settings,
        resume=options.resume,
        version=program_version(),
        place=place,
        notes=tuple(notes),
        ahead=ahead or Ahead(),
    )


def _look_ahead(
    options: argparse.Namespace, settings: RunSettings, beside: ExitStack
) -> Beside[Ahead] | None:
    """Begins, in a process that ``beside`` ends, with what needs no torch; None where all is done here, one by one."""
    if not can_split(settings.fit.threads or cores()):
        return None

    def work(is_asked: Callable[[], bool]) -> Ahead:
        from splat_engine.fit.ahead import look_ahead

        return look_ahead(options.capture, settings, is_asked, with_start=not options.resume)

    return beside.enter_context(Beside(work))
