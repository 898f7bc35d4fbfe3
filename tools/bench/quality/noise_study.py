"""What few samples cost at equal render time: ``python -m tools.bench.quality.noise_study [--scenes ...]``.

For each scene ``noise_pools`` renders 4, 16 and 64 samples a pixel, with and without denoising, each with as many views as
the same processor time pays for. Every pool is fitted with both losses and measured on clean views of other cameras.
Resumable: a finished fit is a record. Leaves noise.md, noise.json and noise.png.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.metrics import mean_scores, score_views
from splat_engine.fit.model import SplatState
from splat_engine.fit.start import start_splats
from splat_engine.fit.trainer import Trainer
from splat_engine.formats.capture import read_capture
from splat_engine.formats.files import read_json, write_bytes, write_json
from splat_engine.formats.settings import FitSettings, LossSettings, LossSpace, RunSettings
from tools.bench.chart import Line, Panel, draw_chart
from tools.bench.quality.plan import ROOT
from tools.bench.quality.records import ENGINE_SOURCES, Record, digest_of, read_current, sources, write_record
from tools.pipeline import StageError, python_of, run_stage

LOSSES: tuple[LossSpace, ...] = ("encoded", "linear")
COLORS = {4: (213, 94, 0), 16: (0, 114, 178), 64: (0, 158, 115)}
"""Okabe and Ito's vermilion, blue and green, which differ for every kind of colour vision."""
SETTINGS_WORDS = "defaults, {steps} steps"


def fitted(pool: Path, test: Path, loss: LossSpace, steps: int) -> dict[str, float]:
    """Fits a capture and returns PSNR and SSIM on the test capture, and the number of splats."""
    capture = read_capture(pool)
    settings = RunSettings(fit=FitSettings(steps=steps), loss=LossSettings(loss_space=loss))
    splats, extent, _ = start_splats(capture, settings, np.random.default_rng(0), print)
    formation = ImageFormation.of("blender", capture.info)
    images = CaptureImages(capture, "train", formation)
    state = SplatState.from_splats(splats)
    trainer = Trainer(settings, images, state, extent=extent, warn=print, formation=formation)
    for _ in range(steps):
        trainer.train_step()
    # Test views are the training views of a capture of their own: through the same filter.
    clean = CaptureImages(read_capture(test), "train", formation)
    scores = mean_scores(list(score_views(trainer.state.params, clean, formation)))
    return {
        "psnr_db": scores["engine.psnr"],
        "ssim": scores["engine.ssim"],
        "splats": len(trainer.state),
    }


def study_scene(out: Path, scene: str, budgets: list[float], size_px: int, steps: int) -> list[Record]:
    """Renders and fits what is missing of one scene; returns its records.

    Raises:
        StageError: Blender failed.
    """
    folder = out / scene
    words = ["--size", str(size_px), "--budgets", *map(str, budgets)]
    command: list[str | Path] = [python_of("blender"), "-m", "tools.bench.quality.noise_pools", scene, folder]
    run_stage(f"views of {scene}", [*command, *words], out / "log.txt")
    records = []
    for pool in read_json(folder / "pools.json"):
        for loss in LOSSES if pool["budget_s"] in budgets else ():
            cameras = folder / pool["folder"] / "transforms.json"
            digest = digest_of([cameras, *sources(ENGINE_SOURCES)], loss, str(steps))
            path = out / "records" / f"{scene}.{pool['folder']}.{loss}.json"
            record = read_current(path, digest)
            if record is None:
                figures = fitted(folder / pool["folder"], folder / "test", loss, steps)
                record = write_record(path, digest, {"scene": scene, **pool, "loss": loss, **figures})
                print(f"{path.stem:32} {record['views']:4d} views {record['psnr_db']:6.2f} dB", flush=True)
            records.append(record)
    return records


def markdown(records: list[Record]) -> str:
    """Returns one line for each (scene, budget, samples, denoised), both losses beside each other."""
    lines = [
        "| scene | render CPU s | samples | OIDN | views | encoded dB | linear dB |",
        "|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[Any, ...], dict[str, float]] = {}
    for record in records:
        key = tuple(record[name] for name in ("scene", "cpu_s", "samples", "denoised", "views"))
        rows.setdefault(key, {})[record["loss"]] = record["psnr_db"]
    for (scene, cpu_s, samples, denoised, views), db in rows.items():
        figures = " | ".join(f"{db[loss]:.2f}" if loss in db else "" for loss in LOSSES)
        lines.append(
            f"| {scene} | {cpu_s:.1f} | {samples} | {'yes' if denoised else 'no'} | {views} | {figures} |"
        )
    return "\n".join(lines) + "\n"


def chart(records: list[Record], steps: int) -> Any:
    """Draws PSNR against render time, a panel for each scene and loss; denoised lines are dashed."""
    values = [record["psnr_db"] for record in records]
    low, high = int(min(values)) - 1, int(max(values)) + 2
    times = [record["cpu_s"] for record in records]
    ends = (min(times) / 1.3, max(times) * 1.3)
    panels = []
    for scene in dict.fromkeys(record["scene"] for record in records):
        for loss in LOSSES:
            chosen = [r for r in records if r["scene"] == scene and r["loss"] == loss]
            panels.append(
                Panel(
                    f"{scene}, {loss} loss",
                    "render time, CPU seconds",
                    "PSNR of clean views, dB",
                    ends,
                    (low, high),
                    lines_of(chosen),
                    sorted({r["budget_s"] for r in records}),
                    list(map(float, range(low, high + 1, 2))),
                )
            )
    title = f"Few samples and many views, or many samples and few ({SETTINGS_WORDS.format(steps=steps)})"
    return draw_chart(title, panels, panel_px=(430, 460))


def lines_of(records: list[Record]) -> list[Line]:
    """Returns a line for each number of samples, with and without denoising."""
    lines = []
    for samples, color in COLORS.items():
        for denoised in (False, True):
            points = sorted(
                (r["cpu_s"], r["psnr_db"])
                for r in records
                if r["samples"] == samples and r["denoised"] == denoised
            )
            if points:
                label = f"{samples} samples{', OIDN' if denoised else ''}"
                lines.append(Line(label, points, color, dashed=denoised))
    return lines


def main() -> int:
    """Reads the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", nargs="+", default=["matte", "interior"])
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[5.0, 15.0], help="CPU seconds of rendering"
    )
    parser.add_argument("--size", type=int, default=128, help="px of a view")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "noise")
    options = parser.parse_args()
    records: list[Record] = []
    try:
        for scene in options.scenes:
            records += study_scene(options.out, scene, options.budgets, options.size, options.steps)
    except StageError as error:
        print(error, file=sys.stderr)
        return 1
    write_json(options.out / "noise.json", records)
    write_bytes(options.out / "noise.md", markdown(records).encode())
    chart(records, options.steps).save(options.out / "noise.png")
    print(markdown(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
