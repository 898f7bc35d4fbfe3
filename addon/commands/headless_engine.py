"""The commands about the engine itself, for machines without a window: ``setup-engine`` and ``check-engine``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.errors import UserError

from .. import package
from ..engine import engine_jobs, engine_process
from ..engine.setup import jobs
from ..engine.setup.place import EnginePlace, Status, carried_wheel, read_facts, status
from ..engine.setup.plan import make_plan

_WAIT_S = 0.5
_CLOSE_WAIT_S = 10.0

Result = dict[str, Any]


def add_parsers(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Adds the commands' options.

    Args:
        add: Makes the parser of a command, from its name and its help.
    """
    parser = add(
        "setup-engine", "Make the engine's environment: PyTorch and the engine, in a folder of their own."
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where it goes; default: the extension's own folder"
    )
    parser.add_argument(
        "--packages",
        type=Path,
        metavar="DIR",
        help="folder with downloaded packages, for machines without network",
    )
    parser = add(
        "check-engine", "Look whether the engine works: PyTorch, device, kernels, and a fit of one second."
    )
    parser.add_argument(
        "--engine-python",
        default="",
        metavar="PATH",
        help="the Python to check; default: the one a fit would use",
    )


def setup_engine(options: argparse.Namespace) -> Result:
    """Makes the environment, unless it stands; says where its Python is.

    Raises:
        UserError: It cannot be made, or Blender may not go online.
    """
    wheel = carried_wheel(package.FOLDER)
    place = EnginePlace(options.folder.resolve()) if options.folder else engine_jobs.place()
    if place is None:
        raise UserError(
            "Blender has no folder for the engine.", "Install Splatfit as an extension, or give --folder."
        )
    packages = options.packages.resolve() if options.packages else None
    if status(place, wheel) is Status.READY:
        facts = read_facts(place)
        _say("the engine stands already")
    else:
        if not (bpy.app.online_access or packages):
            raise UserError(
                "Blender may not go online.",
                "Start it with --online-mode, or give --packages, a folder with the downloaded packages.",
            )
        plan = make_plan(place, wheel, wheel_folder=packages, is_offline=not bpy.app.online_access)
        facts = _followed(jobs.setup_job(plan))
        engine_jobs.look_again()
    return {"python": str(place.python), "folder": str(place.root), **facts}


def check_engine(options: argparse.Namespace) -> Result:
    """Lets the engine examine itself.

    Raises:
        UserError: There is none, or it does not work.
    """
    python = engine_process.find_python(options.engine_python or engine_jobs.chosen_python())
    log = Path(bpy.app.tempdir) / "splatfit-check.log"
    job = jobs.check_job(python, log, engine_process.engine_environment(), engine_process.check_python)
    return {"python": str(python), **_followed(job)}


COMMANDS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "setup-engine": setup_engine,
    "check-engine": check_engine,
}


def _followed(job: jobs.Job) -> dict[str, Any]:
    """Runs a job to its end, each new phase a line on stderr; returns its facts.

    Raises:
        UserError: It failed.
        KeyboardInterrupt: It was interrupted; what has been downloaded is kept.
    """
    phase = ""
    job.start()
    try:
        going_on = True
        while going_on:
            going_on = job.wait_for_news(_WAIT_S)
            if job.phase != phase:
                phase = job.phase
                _say(f"{phase} ...")
    except KeyboardInterrupt:
        job.cancel(_CLOSE_WAIT_S)
        raise
    if job.error is not None:
        raise job.error
    return job.facts


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
