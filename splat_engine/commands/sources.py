"""The splats that a command is given, and the capture that they were fitted to."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from splat_engine.formats.capture import Capture, read_capture
from splat_engine.formats.conventions import FORMATIONS, Formation
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import FitSettings, add_arguments
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats

logger = logging.getLogger(__name__)


def add_source(parser: Any) -> None:
    """Adds the options of a command that is given splats."""
    parser.add_argument("splats", type=Path, metavar="SPLATS|RUN", help="a splat PLY, or the folder of a run")
    parser.add_argument(
        "--formation", choices=FORMATIONS, help="how to draw; default: what the PLY says, else classic"
    )
    add_arguments(parser, FitSettings, only=("device",))


def load_splats(path: Path, formation: Formation | None) -> tuple[Splats, Formation]:
    """Reads splats from a PLY or a run, and says how they are to be drawn."""
    file = path
    if path.is_dir():
        run = RunDirectory.open(path)
        file = run.splats if run.splats.is_file() else run.snapshot
        if not file.is_file():
            raise UserError(f"The run {path} has no splats yet.", "Let it finish, or save it.")
    splats, _, notes = read_splat_ply(file)
    for note in notes:
        logger.warning("%s", note)
    said = splats.metadata.get("formation")
    known: Formation = "blender" if said == "blender" else "classic"
    return splats, formation or known


def capture_of(splats: Splats, given: Path | None, option: str) -> Capture:
    """Returns the capture that was named, or that the splats were fitted to."""
    path = given or splats.metadata.get("capture")
    if not path:
        raise UserError("The splats do not say which capture they were fitted to.", f"Name it with {option}.")
    return read_capture(path)
