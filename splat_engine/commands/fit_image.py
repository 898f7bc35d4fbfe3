"""``fit-image``: fits a picture with 2D Gaussians."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from splat_engine import report
from splat_engine.commands.common import EXIT_OK, add_command
from splat_engine.commands.device import start_device
from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_json
from splat_engine.formats.settings import ImageFitSettings, add_arguments, from_arguments


def add_fit_image(commands: Any) -> None:
    """Adds ``fit-image`` to a parser's commands."""
    parser = add_command(commands, "fit-image", _fit_image, "Fit a picture with 2D Gaussians.")
    parser.add_argument("picture", type=Path, nargs="?", help="PNG, JPEG ...; or --example")
    parser.add_argument("--example", choices=("ring",), help="a built-in picture of 96 x 96 pixels")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the results")
    add_arguments(parser, ImageFitSettings)


def _fit_image(options: argparse.Namespace) -> int:
    if (options.picture is None) == (options.example is None):
        raise UserError("fit-image wants a picture or an example.", "Name a picture, or give --example ring.")
    settings = from_arguments(ImageFitSettings, options)
    start_device()
    from splat_engine.fit.image2d_report import run_image_fit

    metrics = run_image_fit(options.picture, settings, options.out)
    write_json(options.out / "metrics.json", metrics)
    report.say_table({"result": options.out, **metrics})
    return EXIT_OK
