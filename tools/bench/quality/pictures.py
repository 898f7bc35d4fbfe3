"""Held-out views side by side, truth, fit and difference, and the scores of what Blender draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.exr import read_layers
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.metrics import compare, mean_scores, psnr_db
from splat_engine.fit.model import SplatState
from splat_engine.fit.pixel_filter import draw_through_filter
from splat_engine.formats.capture import read_capture
from splat_engine.formats.splat_ply import read_splat_ply

FORMATION = ImageFormation("blender")
SHOWN_VIEWS = 2
DIFFERENCE_GAIN = 4.0
BACKDROP_LINEAR = 0.14
"""What transparent pixels show; figures are measured over black."""
PAPER, INK, FAINT = (24, 25, 28), (232, 232, 232), (150, 152, 158)
GAP_PX, CAPTION_PX = 8, 20
CELL_PX = 256


def test_images(capture_dir: Path) -> CaptureImages:
    """Returns the held-out views of a capture."""
    return CaptureImages(read_capture(capture_dir), "test", FORMATION)


def blender_scores(capture_dir: Path, one: Path, other: Path) -> dict[str, float]:
    """Returns PSNR and SSIM of Cycles' renders, as the engine measures its own, and the PSNR without their noise.

    The noise of two renders is independent, so the mean product of their differences from the truth is the squared difference
    that endless samples would have.

    Args:
        capture_dir: Whose held-out views are compared with.
        one, other: Folders of renders (RGBA EXR, named as the views) that differ in their noise.
    """
    images, scores, noiseless_db = test_images(capture_dir), [], []
    for number, view in enumerate(read_capture(capture_dir).of_split("test")):
        target = FORMATION.picture(images[number].color)
        name = Path(view.exr or view.image or f"{number:04d}").stem
        size = (view.camera.width, view.camera.height)
        pictures = [_picture(folder / f"{name}.exr", size) for folder in (one, other)]
        scores += [compare(picture, target, name) for picture in pictures]
        differences = [picture.clamp(0, 1) - target.clamp(0, 1) for picture in pictures]
        noiseless_db.append(psnr_db(max(0.0, float((differences[0] * differences[1]).mean()))))
    means = mean_scores(scores)
    return {
        "blender_psnr_db": means["engine.psnr"],
        "blender_ssim": means["engine.ssim"],
        "blender_noiseless_db": sum(noiseless_db) / len(noiseless_db),
    }


def _picture(path: Path, size: tuple[int, int]) -> torch.Tensor:
    """[H, W, 3] encoded, of a render over black."""
    color = read_layers(path, ("Combined",), size)["Combined"][..., :3]
    return FORMATION.picture(torch.from_numpy(np.ascontiguousarray(color, np.float32)))


@torch.no_grad()
def rows_of(capture_dir: Path, splats: Path) -> NDArray[np.uint8]:
    """Returns held-out views in rows of truth, fit and difference times ``DIFFERENCE_GAIN``; [H, W, 3]."""
    images = test_images(capture_dir)
    params = SplatState.from_splats(read_splat_ply(splats)[0]).params
    backdrop = torch.full((3,), BACKDROP_LINEAR)
    rows = []
    for number in range(0, len(images), max(1, len(images) // SHOWN_VIEWS))[:SHOWN_VIEWS]:
        view = images[number]
        drawn = draw_through_filter(params, view.viewmat, view.camera, background=backdrop)
        fit = FORMATION.picture(drawn.blended).clamp(0, 1)
        truth = FORMATION.picture(view.color + (1 - view.alpha[..., None]) * backdrop).clamp(0, 1)
        difference = ((fit - truth).abs() * DIFFERENCE_GAIN).clamp(0, 1)
        rows.append(torch.cat([truth, fit, difference], dim=1))
    return (torch.cat(rows).numpy() * 255 + 0.5).astype(np.uint8)


def write_rows(capture_dir: Path, run: Path) -> None:
    """Writes ``rows.png`` into a run's folder."""
    Image.fromarray(rows_of(capture_dir, run / "splats.ply")).save(run / "rows.png")


def write_sheet(title: str, runs: list[tuple[str, Path]], out: Path) -> None:
    """Draws a scene's contact sheet: for each setting a caption, and its rows of truth, fit and difference.

    Args:
        title: Above all.
        runs: (caption, folder of the run); those without pictures are left out.
        out: The PNG.
    """
    opened = [(text, Image.open(run / "rows.png")) for text, run in runs if (run / "rows.png").is_file()]
    cells = [
        (text, image.resize((3 * CELL_PX, round(image.height * 3 * CELL_PX / image.width))))
        for text, image in opened
    ]
    height = CAPTION_PX + GAP_PX + sum(image.height + CAPTION_PX + GAP_PX for _, image in cells)
    sheet = Image.new("RGB", (3 * CELL_PX + 2 * GAP_PX, height), PAPER)
    pen, top = ImageDraw.Draw(sheet), CAPTION_PX + GAP_PX
    pen.text((GAP_PX, GAP_PX // 2), title, INK, ImageFont.load_default(15))
    for text, image in cells:
        pen.text((GAP_PX, top), text, FAINT, ImageFont.load_default(13))
        sheet.paste(image, (GAP_PX, top + CAPTION_PX))
        top += image.height + CAPTION_PX + GAP_PX
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)
