"""The benchmark's stages: build a scene, capture it, fit it, draw the result by Blender. Each is a process of its own."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_engine.formats.files import read_json
from tools.bench.quality.plan import DATASET, DATASET_START, SETTINGS, Subject
from tools.bench.quality.records import (
    Record,
    capture_digest,
    digest_of,
    fit_digest,
    read_current,
    scene_scripts,
    write_record,
)
from tools.pipeline import python_of, run_stage

BLENDER_SAMPLES = 64
"""Of each of the two renders of a fit."""


@dataclass(frozen=True)
class Layout:
    """Where the benchmark leaves its files, below one folder; creates nothing."""

    root: Path

    @property
    def log(self) -> Path:
        """What the stages said."""
        return self.root / "log.txt"

    def blend(self, subject: Subject) -> Path:
        """The scene."""
        return self.root / "blend" / f"{subject.scene}.blend"

    def capture(self, subject: Subject) -> Path:
        """Folder of the views."""
        return self.root / "captures" / subject.name if subject.scene else DATASET

    def run(self, subject: Subject, setting: str) -> Path:
        """Folder of the fit."""
        return self.root / "runs" / f"{subject.name}.{setting}"

    def record(self, name: str) -> Path:
        """The JSON file of a finished capture ("scene") or fit ("scene.setting")."""
        return self.root / "records" / f"{name}.json"


def timed(work: Callable[[], Any]) -> Record:
    """Runs child processes; returns their seconds by the clock and, summed over the cores, of the processor."""
    before, since_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    work()
    after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - since_s
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"wall_s": round(wall_s, 1), "cpu_s": round(cpu_s, 1)}


def ensure_blend(layout: Layout, subject: Subject) -> None:
    """Builds the scene's .blend file, unless it is there, of these scripts.

    Blender numbers the corners of some meshes otherwise in each run: of a file that was built again every view would have to
    be rendered again.

    Raises:
        StageError: Building failed.
    """
    digest, path = digest_of(scene_scripts(subject)), layout.record(f"{subject.scene}.blend")
    if read_current(path, digest) is not None and layout.blend(subject).is_file():
        return
    command: list[str | Path] = [python_of("blender"), "-m", "tools.bench.quality.scenes", subject.scene]
    run_stage(f"build {subject.scene}", [*command, layout.blend(subject)], layout.log)
    write_record(path, digest, {})


def ensure_capture(layout: Layout, subject: Subject) -> Record:
    """Returns the record of the capture; renders it first if it is missing or of other inputs.

    Views that would be rendered the same are kept. If all of them are, the record keeps the seconds that they took; of a
    capture that was interrupted it has those of the call that finished it.

    Raises:
        StageError: Building or rendering failed.
    """
    if not subject.scene:
        views = [*DATASET.glob("transforms*.json"), DATASET_START]
        return {"inputs": digest_of(views), "wall_s": 0.0, "cpu_s": 0.0}
    digest, path = capture_digest(subject), layout.record(subject.name)
    folder = layout.capture(subject)
    record = read_current(path, digest)
    if record is not None and (folder / "transforms.json").is_file():
        return record
    ensure_blend(layout, subject)
    command: list[str | Path] = [python_of("blender"), "-m", "addon", "capture", layout.blend(subject)]
    command += ["--out", folder, *subject.capture_options()]
    before = rendered(folder)
    seconds = timed(lambda: run_stage(f"capture {subject.name}", command, layout.log, quiet=False))
    if before and rendered(folder) == before and path.is_file():
        seconds = {name: read_json(path, "record")[name] for name in seconds}
    return write_record(path, digest, seconds)


def rendered(capture: Path) -> bytes:
    """Returns what a capture's folder says of the views rendered so far: the same, if all of them were kept."""
    state = capture / "views" / "captured.jsonl"
    return state.read_bytes() if state.is_file() else b""


def fit_options(subject: Subject, setting: str, threads: int) -> list[str]:
    """Returns the options of ``splat-engine train``."""
    start = [] if subject.scene else ["--start", str(DATASET_START)]
    return [*start, "--threads", str(threads), "--progress", "none", *SETTINGS[setting]]


def fit(layout: Layout, subject: Subject, setting: str, threads: int) -> Record:
    """Fits a scene with a setting; returns its figures.

    Raises:
        StageError: The fit failed.
    """
    run = layout.run(subject, setting)
    command: list[str | Path] = [python_of("engine"), "-m", "splat_engine", "train", layout.capture(subject)]
    command += ["--out", run, *fit_options(subject, setting, threads)]
    seconds = timed(lambda: run_stage(f"fit {run.name}", command, layout.log))
    metrics = json.loads((run / "metrics.json").read_text())
    return {
        "scene": subject.name,
        "setting": setting,
        "size_px": subject.size_px,
        "steps": metrics["steps"],
        "splats": metrics["splats"],
        "psnr_db": metrics["engine.psnr"],
        "ssim": metrics["engine.ssim"],
        "fit_wall_s": seconds["wall_s"],
        "fit_cpu_s": seconds["cpu_s"],
        "ply_bytes": (run / "splats.ply").stat().st_size,
    }


def draw_by_blender(layout: Layout, subject: Subject, setting: str) -> list[Path]:
    """Imports a fit's splats and renders the held-out views by Cycles, twice with other noise; returns the two folders.

    Raises:
        StageError: Blender failed.
    """
    run = layout.run(subject, setting)
    result = run / "result.blend"
    addon: list[str | Path] = [python_of("blender"), "-m", "addon"]
    run_stage(f"import {run.name}", [*addon, "import", run / "splats.ply", "--out", result], layout.log)
    folders = [run / f"blender{seed}" for seed in range(2)]
    for seed, pictures in enumerate(folders):
        options: list[str | Path] = ["--cameras", layout.capture(subject), "--split", "test"]
        options += ["--samples", str(BLENDER_SAMPLES), "--seed", str(seed), "--out", pictures]
        run_stage(f"Blender draws {run.name}", [*addon, "render", result, *options], layout.log)
    return folders


def ensure_fit(
    layout: Layout, subject: Subject, setting: str, *, threads: int = 0, blender: bool = False
) -> Record:
    """Returns the record of a (scene, setting); captures and fits first what is missing or of other inputs.

    Raises:
        StageError: A stage failed.
    """
    from tools.bench.quality.pictures import blender_scores, write_rows

    captured = ensure_capture(layout, subject)
    digest = fit_digest(captured["inputs"], fit_options(subject, setting, threads))
    path = layout.record(f"{subject.name}.{setting}")
    record = read_current(path, digest)
    if record is None:
        figures = fit(layout, subject, setting, threads)
        figures |= {"capture_wall_s": captured["wall_s"], "capture_cpu_s": captured["cpu_s"]}
        write_rows(layout.capture(subject), layout.run(subject, setting))
        record = write_record(path, digest, figures)
    if blender and "blender_psnr_db" not in record:
        folders = draw_by_blender(layout, subject, setting)
        scores = blender_scores(layout.capture(subject), *folders)
        record = write_record(path, digest, {**record, **scores})
    return record
