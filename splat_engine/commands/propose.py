"""``propose``: chooses the cameras from which a brief fit is most wrong."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from splat_engine.commands.common import add_command, program_version
from splat_engine.commands.device import start_device
from splat_engine.commands.runs import add_run, follow_run, listening
from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Event, Finished
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import FitSettings, add_arguments, from_arguments

logger = logging.getLogger(__name__)


def add_propose(commands: Any) -> None:
    """Adds ``propose`` to a parser's commands."""
    parser = add_command(
        commands,
        "propose",
        _propose,
        "Fit briefly to a capture, and choose the cameras from which the fit is most wrong.",
    )
    add_run(parser)
    parser.add_argument(
        "--candidates",
        type=Path,
        required=True,
        metavar="CAPTURE",
        help="capture of probes: small, noisy views from the cameras to choose from",
    )
    parser.add_argument("--count", type=int, required=True, help="how many to choose")
    parser.add_argument("--steps", type=int, default=400, help="of the brief fit; default: 400")
    add_arguments(parser, FitSettings, only=("target", "device", "threads", "seed"))


def _propose(options: argparse.Namespace) -> int:
    if options.count < 1 or options.steps < 1:
        raise UserError("--count and --steps must be 1 or more.", "Ask for at least one view after one step.")

    def work(run: RunDirectory, emit: Callable[[Event], None]) -> Finished:
        asked = from_arguments(FitSettings, options)
        place = start_device(asked.device, asked.threads, logger.info)
        from splat_engine.fit.loop import FitRequest
        from splat_engine.fit.proposals import ProposalRequest, brief, propose_views

        fit = FitRequest(
            options.capture, run.root, brief(asked, options.steps), version=program_version(), place=place
        )
        return propose_views(
            ProposalRequest(fit, options.candidates, options.count), emit, listening(options)
        )

    return follow_run(options, work)
