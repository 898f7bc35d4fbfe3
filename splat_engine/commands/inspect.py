"""``info`` and ``doctor``: say what a file holds, and whether the installation is sound."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from splat_engine import report
from splat_engine.commands.common import EXIT_OK, add_command, program_version
from splat_engine.commands.device import start_device


def add_info(commands: Any) -> None:
    """Adds ``info`` to a parser's commands."""
    parser = add_command(commands, "info", _info, "Say what a PLY, a capture, a run or a checkpoint holds.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _info(options: argparse.Namespace) -> int:
    from splat_engine.info import describe

    facts = describe(options.path)
    if options.json:
        report.say_json(facts)
    else:
        report.say_table(facts)
    return EXIT_OK


def add_doctor(commands: Any) -> None:
    """Adds ``doctor`` to a parser's commands."""
    parser = add_command(commands, "doctor", _doctor, "Check the installation, and fit for one second.")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _doctor(options: argparse.Namespace) -> int:
    from splat_engine.doctor import examine

    facts = {"version": program_version(), "python": sys.executable}
    place = start_device("auto")
    facts |= {"device": str(place)}
    facts |= examine(place.memory_bytes())
    if options.json:
        report.say_json(facts)
    else:
        report.say_table(facts)
    return EXIT_OK
