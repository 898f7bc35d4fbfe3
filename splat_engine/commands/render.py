"""``render``: draws splats from the cameras of a capture."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from splat_engine.commands.common import EXIT_OK, add_command
from splat_engine.commands.device import start_device
from splat_engine.commands.sources import add_source, capture_of, load_splats
from splat_engine.formats.capture import View
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import FitSettings, from_arguments


def add_render(commands: Any) -> None:
    """Adds ``render`` to a parser's commands."""
    parser = add_command(commands, "render", _render, "Draw splats from the cameras of a capture.")
    add_source(parser)
    parser.add_argument(
        "--cameras", type=Path, metavar="CAPTURE", help="default: the capture the splats were fitted to"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the pictures")
    parser.add_argument(
        "--split", choices=("all", "train", "test"), default="all", help="which views; default: all"
    )
    parser.add_argument(
        "--exr", action="store_true", help="also write scene-linear EXR with depth and normals, premultiplied"
    )
    parser.add_argument(
        "--background",
        choices=("transparent", "black", "white"),
        default="transparent",
        help="of the PNG files",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the resolution; default: 1")


def _render(options: argparse.Namespace) -> int:
    place = start_device(from_arguments(FitSettings, options).device)
    import torch
    from tqdm import tqdm

    from splat_engine.fit.formation import ImageFormation
    from splat_engine.fit.model import SplatState
    from splat_engine.fit.pictures import draw_view, rgba8, write_exr, write_png

    splats, name = load_splats(options.splats, options.formation)
    capture = capture_of(splats, options.cameras, "--cameras")
    views = [view for view in capture.views if options.split in ("all", view.split)]
    if not views:
        raise UserError(f"{capture.root} has no {options.split} view.", "Choose another --split.")
    if not options.scale > 0:
        raise UserError(f"--scale is {options.scale}.", "It must be above 0.")
    formation, params = ImageFormation(name), SplatState.from_splats(splats).to(place.device).params
    background = {"black": torch.zeros(3), "white": torch.ones(3)}.get(options.background)
    for stem, view in tqdm(list(zip(_stems(views), views, strict=True)), unit="view", disable=None):
        camera = view.camera.scaled(options.scale)
        drawn = draw_view(
            params,
            camera,
            formation,
            with_geometry=options.exr,
            through_filter=formation.is_linear,
            backend=place.backend,
        )
        write_png(options.out / f"{stem}.png", rgba8(drawn, formation, background))
        if options.exr:
            write_exr(options.out / f"{stem}.exr", drawn, formation)
    return EXIT_OK


def _stems(views: list[View]) -> list[str]:
    """Names of the pictures: those of the views' own files, made different by the split or a number if need be."""
    stems = [Path(view.exr or view.image or f"{number:04d}").stem for number, view in enumerate(views)]
    if len(set(stems)) < len(stems):
        stems = [f"{view.split}_{stem}" for view, stem in zip(views, stems, strict=True)]
    if len(set(stems)) < len(stems):
        stems = [f"{number:04d}_{stem}" for number, stem in enumerate(stems)]
    return stems
