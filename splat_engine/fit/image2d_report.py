"""The files of a 2D fit: the picture, the curve of its PSNR, and a montage."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from splat_engine.fit.decoding import read_picture
from splat_engine.fit.image2d import ImageFit, fit_image, ring_example
from splat_engine.fit.pictures import to_8bit, write_png
from splat_engine.formats.settings import ImageFitSettings

INK, GRID, CURVE = (40, 40, 40), (215, 215, 215), (30, 90, 200)
PANEL_PX = 288
"""Least height of a picture in the montage: small ones are enlarged by a whole factor."""
DIFFERENCE_GAIN = 8


def run_image_fit(picture: Path | None, settings: ImageFitSettings, out: Path) -> dict[str, Any]:
    """Fits a picture and writes picture.png, curve.png, montage.png.

    Args:
        picture: The file; None takes the ring example.
        settings: Number, steps, rates, seed.
        out: The folder.

    Returns:
        The figures: PSNR before, on the way and after, seconds, number, size.

    Raises:
        UserError: The picture cannot be read or a result not be written.
    """
    target = ring_example() if picture is None else load_target(picture, settings.longest_px)
    start_s = time.monotonic()
    fit = fit_image(target, settings)
    seconds = time.monotonic() - start_s
    write_png(out / "picture.png", to_8bit(fit.picture))
    write_png(out / "curve.png", draw_curve(fit.psnr))
    write_png(out / "montage.png", draw_montage(target, fit))
    stops = {step for step in (100, 200, 300) if step < settings.steps}
    return {
        "psnr.start": fit.psnr[0],
        **{f"psnr.{step}": fit.psnr[step] for step in sorted(stops)},
        "psnr": fit.psnr[-1],
        "seconds": seconds,
        "gaussians": settings.count,
        "steps": settings.steps,
        "width": target.shape[1],
        "height": target.shape[0],
    }


def load_target(path: Path, longest_px: int) -> Tensor:
    """Reads a picture over black as [H, W, 3] in 0 to 1, shrunk so that its longer side fits; 0 keeps it."""
    colors, alpha = read_picture(path)
    target = torch.from_numpy(colors * alpha[..., None])
    height, width = target.shape[:2]
    factor = longest_px / max(height, width) if longest_px else 1.0
    if factor >= 1.0:
        return target
    size = (max(1, round(height * factor)), max(1, round(width * factor)))
    planes = torch.nn.functional.interpolate(target.permute(2, 0, 1)[None], size=size, mode="area")
    return planes[0].permute(1, 2, 0).contiguous()


def draw_curve(psnr: list[float], size: tuple[int, int] = (720, 400)) -> NDArray[np.uint8]:
    """Draws PSNR in dB over steps, with a grid and labels: [H, W, 3]."""
    width, height = size
    left, right, top, bottom = 64, width - 24, 40, height - 48
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(14)
    spacing = 5 if max(psnr) - min(psnr) > 12 else 1
    low = spacing * int(np.floor(min(psnr) / spacing))
    high = max(low + spacing, spacing * int(np.ceil(max(psnr) / spacing)))
    last = max(1, len(psnr) - 1)

    def place(step: float, value: float) -> tuple[float, float]:
        return (
            left + (right - left) * step / last,
            bottom - (bottom - top) * (value - low) / (high - low),
        )

    for value in range(low, high + 1, spacing):
        draw.line([place(0, value), place(last, value)], fill=GRID)
        draw.text((left - 8, place(0, value)[1]), str(value), fill=INK, font=font, anchor="rm")
    for step in np.unique(np.linspace(0, last, 7).round().astype(int)):
        x = place(step, low)[0]
        draw.line([(x, top), (x, bottom)], fill=GRID)
        draw.text((x, bottom + 8), str(step), fill=INK, font=font, anchor="mt")
    draw.text(((left + right) / 2, height - 8), "step", fill=INK, font=font, anchor="mb")
    draw.text((left, 12), f"PSNR in dB, {psnr[-1]:.2f} at the end", fill=INK, font=font, anchor="lt")
    draw.line([place(step, value) for step, value in enumerate(psnr)], fill=CURVE, width=2)
    return np.asarray(sheet)


def draw_montage(target: Tensor, fit: ImageFit) -> NDArray[np.uint8]:
    """Draws target, first Gaussians, result, and the enlarged difference side by side: [H, W, 3]."""
    difference = (fit.picture - target).abs() * DIFFERENCE_GAIN
    panels = {
        "target": target,
        f"start, {fit.psnr[0]:.2f} dB": fit.first,
        f"result, {fit.psnr[-1]:.2f} dB": fit.picture,
        f"difference x {DIFFERENCE_GAIN}": difference,
    }
    height, width = target.shape[:2]
    factor = max(1, -(-PANEL_PX // height))
    gap, label_px = 8, 24
    cell = (width * factor, height * factor)
    sheet = Image.new("RGB", (4 * cell[0] + 5 * gap, cell[1] + label_px + 2 * gap), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (label, picture) in enumerate(panels.items()):
        x = gap + number * (cell[0] + gap)
        draw.text((x, gap), label, fill=INK, font=ImageFont.load_default(14), anchor="lt")
        panel = Image.fromarray(to_8bit(picture)).resize(cell, Image.Resampling.NEAREST)
        sheet.paste(panel, (x, gap + label_px))
    return np.asarray(sheet)
