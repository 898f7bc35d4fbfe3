"""The headless commands' options, those of the settings derived from their declarations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from splat_engine.formats.settings import (
    CaptureSettings,
    FitSettings,
    RunSettings,
    add_arguments,
    add_run_arguments,
    capture_with_preset,
    from_arguments,
    run_with_arguments,
)

from ..package import version
from ..runs.capture_process import CAPTURE_PREFIX, bare_options
from . import headless_engine

_EXIT_HELP = (
    "Exit codes: 0 done, 1 something you can mend (stderr says what), 2 wrong command line, 3 failure of the "
    "program, 130 interrupted."
)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser; the namespace's ``command`` is the command's name."""
    parser = argparse.ArgumentParser(
        prog="splatfit",
        description="Fits Gaussian splats to a Blender scene without a window.",
        epilog=_EXIT_HELP,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"Splatfit {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for add in (_add_fit, _add_capture, _add_import, _add_export, _add_render):
        add(commands)
    headless_engine.add_parsers(lambda name, help: _add(commands, name, help))
    return parser


def _add(commands: Any, name: str, help: str) -> Any:
    parser = commands.add_parser(name, help=help, description=help, epilog=_EXIT_HELP, allow_abbrev=False)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result, or the error, as JSON")
    return parser


def _add_blend(parser: Any) -> None:
    parser.add_argument(
        "blend", type=Path, nargs="?", help="the .blend file; left out: the one Blender has open"
    )
    parser.add_argument("--scene", default="", help="name of the scene; default: the file's active one")
    parser.add_argument("--scripts", action="store_true", help="let Python scripts in the file run")


def _add_out(parser: Any) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="RESULT.blend", help="the file to write")
    parser.add_argument("--force", action="store_true", help="let --out be the file that is read")


def _add_settings(parser: Any, *, fit: bool) -> None:
    add_arguments(parser, CaptureSettings, prefix=CAPTURE_PREFIX, bare=bare_options())
    if fit:
        add_run_arguments(parser)
    else:
        add_arguments(parser, FitSettings, only={"preset"})  # how many views, and of how many samples


def _add_fit(commands: Any) -> None:
    parser = _add(commands, "fit", "Capture a scene, fit splats to it, and save it with the splats.")
    _add_blend(parser)
    _add_out(parser)
    parser.add_argument(
        "--capture", type=Path, metavar="DIR", help="folder of the views; default: beside --out"
    )
    parser.add_argument("--run", type=Path, metavar="DIR", help="folder of the fit; default: beside --out")
    parser.add_argument(
        "--use-capture", action="store_true", help="fit to the capture that is there, as it is"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the run's checkpoint")
    parser.add_argument(
        "--hide-originals", action="store_true", help="hide the objects that the splats replace"
    )
    _add_engine(parser)
    _add_settings(parser, fit=True)


def _add_engine(parser: Any) -> None:
    parser.add_argument(
        "--engine-python",
        default="",
        metavar="PATH",
        help="Python with torch; default: $SPLATFIT_ENGINE_PYTHON, else the checkout's",
    )


def _add_capture(commands: Any) -> None:
    parser = _add(commands, "capture", "Render a scene's views, for this engine or another trainer.")
    _add_blend(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the views")
    parser.add_argument(
        "--run", type=Path, metavar="DIR", help="run whose splats in the scene are left out; default: none"
    )
    parser.add_argument(
        "--source", default="", metavar="FILE.blend", help="the file that is read, if that is a copy of this"
    )
    parser.add_argument(
        "--progress", choices=("text", "json"), default="text",
        help="progress on stderr for a person, or events as JSON lines on stdout for a program; default: text",
    )  # fmt: skip
    parser.add_argument(
        "--commands",
        action="store_true",
        help="end when stdin is closed, with the finished views kept, and run at a low priority",
    )
    _add_engine(parser)
    _add_settings(parser, fit=False)


def _add_import(commands: Any) -> None:
    parser = _add(commands, "import", "Put the splats of a PLY file into a .blend file.")
    parser.add_argument("ply", type=Path, help="a 3D Gaussian splatting PLY")
    _add_blend(parser)
    _add_out(parser)


def _add_export(commands: Any) -> None:
    parser = _add(commands, "export", "Write a splat object as a 3D Gaussian splatting PLY.")
    _add_blend(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.ply", help="the file to write")
    parser.add_argument("--object", default="", help="the splat object; default: the only one")
    parser.add_argument("--local", action="store_true", help="leave the object's transform out")
    parser.add_argument("--no-modifiers", action="store_true", help="as stored, not as modifiers leave it")


def _add_render(commands: Any) -> None:
    parser = _add(commands, "render", "Draw a splat object alone, by Cycles, from a capture's cameras.")
    _add_blend(parser)
    parser.add_argument("--cameras", type=Path, required=True, metavar="CAPTURE", help="whose cameras")
    parser.add_argument("--split", choices=("train", "test", "all"), default="test", help="default: test")
    parser.add_argument("--object", default="", help="the splat object; default: the only one")
    parser.add_argument("--samples", type=int, default=256, help="of Cycles; default: 256")
    parser.add_argument("--seed", type=int, default=0, help="of Cycles' noise; default: 0")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the EXR files")


def capture_settings(options: argparse.Namespace) -> CaptureSettings:
    """Returns the capture's settings as the command line says them.

    Raises:
        UserError: A value is outside its limits.
    """
    preset = run_with_arguments(RunSettings(), options).fit.preset
    base = capture_with_preset(CaptureSettings(), preset)
    return from_arguments(CaptureSettings, options, prefix=CAPTURE_PREFIX, base=base)


def run_settings(options: argparse.Namespace) -> RunSettings:
    """Returns the fit's settings as the command line says them.

    Raises:
        UserError: A value is outside its limits.
    """
    return run_with_arguments(RunSettings(), options)
