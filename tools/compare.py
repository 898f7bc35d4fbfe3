"""Compares held-out views: original, engine's render, Blender's render of the imported splats.

Run with the engine's Python, in two steps around ``tools/view_transform.py``::

    compare.py extract CAPTURE ENGINE BLENDER WORK    linear pictures as .npy, over black and over grey
    compare.py sheet WORK OUT.png METRICS.json        figures, and the picture a person looks at
    compare.py contact OUT.png FOLDER [FOLDER ...]    one row for each of several finished scenes
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from splat_engine.fit.exr import read_layers
from splat_engine.formats.capture import read_capture
from splat_engine.formats.files import read_json, write_json

SOURCES = ("original", "engine", "blender")
BACKDROP_LINEAR = 0.14
"""What transparent pixels show in the picture; figures are measured over black."""
DIFFERENCE_GAIN = 4.0
ROWS_MAX = 4
CELL_LEAST_PX = 200
"""Smaller pictures are shown as whole multiples, so that the words above them have room."""
MARGIN_PX, HEADER_PX, CAPTION_PX = 10, 74, 24
INK, PAPER, FAINT = (232, 232, 232), (24, 25, 28), (150, 152, 158)


def composed(rgba: NDArray[np.float32], backdrop: float) -> NDArray[np.float32]:
    """Returns [H, W, 3]: premultiplied [H, W, 4] over a grey."""
    return rgba[..., :3] + (1 - rgba[..., 3:]) * np.float32(backdrop)


def extract(capture_dir: Path, engine_dir: Path, blender_dir: Path, work: Path) -> None:
    """Writes every held-out view of the three sources as linear .npy, over black and over the backdrop."""
    capture = read_capture(capture_dir)
    for view in capture.of_split("test"):
        assert view.exr is not None
        name = Path(view.exr).stem
        paths = (capture.root / view.exr, engine_dir / f"{name}.exr", blender_dir / f"{name}.exr")
        for source, path in zip(SOURCES, paths, strict=True):
            if not path.is_file():
                continue
            size = (view.camera.width, view.camera.height)
            rgba = read_layers(path, ("Combined",), size)["Combined"].astype(np.float32)
            for kind, backdrop in (("figures", 0.0), ("shown", BACKDROP_LINEAR)):
                folder = work / kind / source
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / f"{name}.npy", composed(rgba, backdrop))


def psnr(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Returns 10 log10(1 / MSE) of values clipped to 0 to 1."""
    error = float(np.mean((np.clip(a, 0, 1).astype(np.float64) - np.clip(b, 0, 1)) ** 2))
    return float("inf") if error == 0 else -10 * np.log10(error)


@dataclass(frozen=True)
class Compared:
    """One source against the original, a figure a view."""

    linear: dict[str, float]
    view: dict[str, float]


def picture(work: Path, kind: str, source: str, name: str) -> NDArray[np.float32]:
    """Returns the picture through the view transform, [H, W, 3] in 0 to 1."""
    return np.asarray(Image.open(work / kind / source / f"{name}.png").convert("RGB"), np.float32) / 255


def compare(work: Path, source: str, names: list[str]) -> Compared:
    """Measures one source over black."""
    figures = work / "figures"
    linear = {
        name: psnr(np.load(figures / source / f"{name}.npy"), np.load(figures / "original" / f"{name}.npy"))
        for name in names
    }
    view = {
        name: psnr(picture(work, "figures", source, name), picture(work, "figures", "original", name))
        for name in names
    }
    return Compared(linear, view)


def font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """Returns Pillow's built-in scalable font."""
    return ImageFont.load_default(size)


def draw_sheet(
    work: Path, names: list[str], compared: dict[str, Compared], title: str, note: str
) -> Image.Image:
    """Draws rows of original, engine, Blender and the difference of the last and the first."""
    first = picture(work, "shown", "original", names[0])
    enlarged = -(-CELL_LEAST_PX // first.shape[1])
    height, width = (enlarged * side for side in first.shape[:2])
    columns = ["original", *compared]
    labels = {"original": "Original (Cycles)", "engine": "Engine", "blender": "Splats in Blender (Cycles)"}
    last = columns[-1]
    sheet_width = MARGIN_PX + (len(columns) + 1) * (width + MARGIN_PX)
    sheet_height = HEADER_PX + len(names) * (height + CAPTION_PX + MARGIN_PX)
    sheet = Image.new("RGB", (sheet_width, sheet_height), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN_PX, 8), title, INK, font(18))
    draw.text((MARGIN_PX, 32), note, FAINT, font(12))
    for row, name in enumerate(names):
        top = HEADER_PX + row * (height + CAPTION_PX + MARGIN_PX)
        original = picture(work, "shown", "original", name)
        cells = [
            (labels[c], picture(work, "shown", c, name), compared[c].view[name] if c in compared else None)
            for c in columns
        ]
        difference = np.clip(np.abs(cells[-1][1] - original) * DIFFERENCE_GAIN, 0, 1)
        cells.append((f"|{labels[last].split(' (')[0]} - original| x {DIFFERENCE_GAIN:g}", difference, None))
        for column, (label, pixels, figure) in enumerate(cells):
            left = MARGIN_PX + column * (width + MARGIN_PX)
            cell = Image.fromarray((pixels * 255 + 0.5).astype(np.uint8))
            sheet.paste(cell.resize((width, height), Image.Resampling.NEAREST), (left, top))
            if row == 0:
                draw.text((left, HEADER_PX - 20), label, INK, font(13))
            caption = f"view {name}" if column == 0 else ("" if figure is None else f"{figure:.2f} dB")
            draw.text((left, top + height + 4), caption, FAINT, font(12))
    return sheet


def make_sheet(work: Path, out: Path, metrics_path: Path, title: str) -> None:
    """Measures, adds the figures to metrics.json, and draws the sheet."""
    names = sorted(path.stem for path in (work / "figures" / "original").glob("*.npy"))
    compared = {
        source: compare(work, source, names) for source in SOURCES[1:] if (work / "figures" / source).is_dir()
    }
    metrics = read_json(metrics_path, "metrics file") if metrics_path.is_file() else {}
    for source, figures in compared.items():
        metrics[f"{source}.psnr_linear"] = float(np.mean(list(figures.linear.values())))
        metrics[f"{source}.psnr_view"] = float(np.mean(list(figures.view.values())))
    write_json(metrics_path, metrics)
    means = ", ".join(f"{source} {metrics[f'{source}.psnr_view']:.2f} dB" for source in compared)
    note = f"{len(names)} held-out views through the scene's view transform, mean PSNR: {means}"
    shown = names[:: max(1, len(names) // ROWS_MAX)][:ROWS_MAX]
    out.parent.mkdir(parents=True, exist_ok=True)
    draw_sheet(work, shown, compared, title, note).save(out)


def contact_row(folder: Path, size_px: int) -> list[tuple[str, Image.Image]]:
    """Returns label and picture of the first two held-out views of a finished scene, each source in turn."""
    work = folder / "renders" / "work" / "shown"
    names = sorted(path.stem for path in (work / "original").glob("*.png"))[:2]
    cells = []
    for name in names:
        for source in SOURCES:
            image = Image.open(work / source / f"{name}.png").convert("RGB")
            image.thumbnail((size_px, size_px))
            cells.append((f"{source} {name}", image))
    return cells


def draw_contact(out: Path, folders: list[Path], size_px: int = 200) -> None:
    """Draws a sheet with a row a scene: original, engine, Blender of two held-out views."""
    step_x, step_y = size_px + MARGIN_PX, size_px + CAPTION_PX + CAPTION_PX
    sheet = Image.new("RGB", (MARGIN_PX + 6 * step_x, MARGIN_PX + len(folders) * step_y), PAPER)
    draw = ImageDraw.Draw(sheet)
    for row, folder in enumerate(folders):
        top = MARGIN_PX + row * step_y
        metrics = read_json(folder / "metrics.json", "metrics file")
        title = f"{folder.name}: engine {metrics['engine.psnr']:.2f} dB, {metrics['splats']} splats"
        draw.text((MARGIN_PX, top), title, INK, font(13))
        for column, (label, image) in enumerate(contact_row(folder, size_px)):
            left = MARGIN_PX + column * step_x
            sheet.paste(image, (left, top + CAPTION_PX - 4))
            draw.text((left, top + CAPTION_PX + image.height - 3), label, FAINT, font(11))
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    extracting = commands.add_parser("extract", help="write linear pictures")
    for name in ("capture", "engine", "blender", "work"):
        extracting.add_argument(name, type=Path)
    drawing = commands.add_parser("sheet", help="measure, and draw the sheet")
    for name in ("work", "out", "metrics"):
        drawing.add_argument(name, type=Path)
    drawing.add_argument("--title", default="Splatfit")
    contacting = commands.add_parser("contact", help="draw one sheet of several scenes")
    contacting.add_argument("out", type=Path)
    contacting.add_argument("folders", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "contact":
        draw_contact(arguments.out, arguments.folders)
    elif arguments.command == "extract":
        extract(arguments.capture, arguments.engine, arguments.blender, arguments.work)
    else:
        make_sheet(arguments.work, arguments.out, arguments.metrics, arguments.title)


if __name__ == "__main__":
    sys.exit(main())
