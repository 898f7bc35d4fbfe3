"""``eval``: compares splats with the views of a capture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from splat_engine import report
from splat_engine.commands.common import EXIT_OK, add_command
from splat_engine.commands.device import start_device
from splat_engine.commands.sources import add_source, capture_of, load_splats
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import FitSettings, from_arguments


def add_eval(commands: Any) -> None:
    """Adds ``eval`` to a parser's commands."""
    parser = add_command(
        commands, "eval", _eval, "Compare splats with a capture's views: PSNR and SSIM over black."
    )
    add_source(parser)
    parser.add_argument("--capture", type=Path, help="default: the capture the splats were fitted to")
    parser.add_argument(
        "--split", choices=("train", "test"), default="test", help="default: the held-out views"
    )
    parser.add_argument(
        "--target", choices=("auto", "linear", "display"), default="auto", help="which colours"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _eval(options: argparse.Namespace) -> int:
    place = start_device(from_arguments(FitSettings, options).device)
    from splat_engine.fit.data import CaptureImages
    from splat_engine.fit.formation import ImageFormation
    from splat_engine.fit.metrics import mean_scores, score_views
    from splat_engine.fit.model import SplatState

    splats, name = load_splats(options.splats, options.formation)
    capture = capture_of(splats, options.capture, "--capture")
    formation = ImageFormation.of(name, capture.info)
    images = CaptureImages(
        capture, options.split, formation, target=options.target, budget_bytes=0, device=place.device
    )
    if not len(images):
        raise UserError(f"{capture.root} has no {options.split} view.", "Choose the other --split.")
    params = SplatState.from_splats(splats).to(place.device).params
    filtered = formation.is_filtered_anew(options.split)
    scores = list(score_views(params, images, formation, place.backend, through_filter=filtered))
    means = {**mean_scores(scores), "formation": name, "splats": len(splats)}
    if options.json:
        report.say_json({**means, "views": {s.name: {"psnr": s.psnr, "ssim": s.ssim} for s in scores}})
        return EXIT_OK
    report.say_table({score.name: f"{score.psnr:6.2f} dB   SSIM {score.ssim:.4f}" for score in scores})
    report.say(
        f"mean of {len(scores)}: {means['engine.psnr']:.2f} dB, SSIM {means['engine.ssim']:.4f} ({name})"
    )
    return EXIT_OK
