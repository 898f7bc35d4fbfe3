"""One scene through the whole loop, each stage in the Python it belongs to. Standard library only.

``make demo`` and ``tools/bench/scenes`` are built on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = Path("Scripts/python.exe") if os.name == "nt" else Path("bin/python")


def python_of(environment: str) -> Path:
    """Returns the Python of ``.venv/ENVIRONMENT``; exits with words if it is not there."""
    python = ROOT / ".venv" / environment / SUFFIX
    if not python.is_file():
        sys.exit(f"There is no {python}.\nRun `make setup` first.")
    return python


class StageError(RuntimeError):
    """A stage ended with another exit code than 0; the message is the end of what it said."""


@dataclass(frozen=True)
class Stage:
    """One finished command: what it took, and what it said."""

    seconds: float
    output: str


def run_stage(name: str, command: list[str | Path], log: Path, *, quiet: bool = True) -> Stage:
    """Runs one command in the repository, its output into a log file.

    Args:
        name: What the person is told.
        command: Program and arguments.
        log: Where stdout and stderr go, appended.
        quiet: False lets the command's stderr reach the terminal.

    Raises:
        StageError: The exit code is not 0.
    """
    print(f"-- {name}", flush=True)
    start = time.monotonic()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONUNBUFFERED": "1",
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ {' '.join(map(str, command))}\n")
        stream.flush()
        done = subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            errors="replace",
        )
        stream.write(done.stdout)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise StageError(f"{name} failed (exit code {done.returncode}, see {log}):\n{done.stdout[-2000:]}")
    print(f"   {seconds:.1f} s", flush=True)
    return Stage(seconds, done.stdout)


class Layout:
    """Where one scene's loop leaves its files."""

    def __init__(self, root: Path) -> None:
        """Names everything below ``root``; creates nothing."""
        self.root = root
        self.scene = root / "scene.blend"
        self.capture = root / "capture"
        self.run = root / "run"
        self.result = root / "result.blend"
        self.splats = root / "splats.ply"
        self.report = root / "fit.json"
        self.metrics = root / "metrics.json"
        self.sheet = root / "compare.png"
        self.engine = root / "renders" / "engine"
        self.blender = root / "renders" / "blender"
        self.work = root / "renders" / "work"
        self.log = root / "log.txt"


def scene_options(scene: str) -> list[str]:
    """Returns the options that choose a scene of the file; "" leaves the active one."""
    return ["--scene", scene] if scene else []


def fit_scene(blend: Path, layout: Layout, options: list[str], scene: str = "") -> dict[str, Any]:
    """Captures, fits and imports a scene headless; returns the command's JSON report."""
    command: list[str | Path] = [python_of("blender"), "-m", "addon", "fit", blend, "--out", layout.result]
    command += ["--capture", layout.capture, "--run", layout.run, "--json", layout.report]
    command += [*scene_options(scene), *options]
    run_stage(f"capture, fit and import {blend.name}", command, layout.log, quiet=False)
    report: dict[str, Any] = json.loads(layout.report.read_text())
    return report


def compare_scene(
    blend: Path, layout: Layout, title: str, *, blender_samples: int, scene: str = ""
) -> dict[str, Any]:
    """Renders the held-out views by engine and Blender, measures them, draws the sheet; returns the metrics."""
    engine, blender = python_of("engine"), python_of("blender")
    by_engine: list[str | Path] = [engine, "-m", "splat_engine", "render", layout.run]
    by_engine += ["--cameras", layout.capture, "--split", "test", "--exr", "--out", layout.engine]
    run_stage("held-out views by the engine", by_engine, layout.log)
    by_blender: list[str | Path] = [blender, "-m", "addon", "render", layout.result]
    by_blender += ["--cameras", layout.capture, "--split", "test", "--samples", str(blender_samples)]
    by_blender += ["--out", layout.blender, *scene_options(scene)]
    run_stage(
        f"held-out views of the imported splats by Blender (Cycles, {blender_samples} samples)",
        by_blender,
        layout.log,
    )
    compare = ROOT / "tools" / "compare.py"
    run_stage(
        "figures",
        [engine, compare, "extract", layout.capture, layout.engine, layout.blender, layout.work],
        layout.log,
    )
    folders = [
        layout.work / kind / source
        for kind in ("figures", "shown")
        for source in ("original", "engine", "blender")
    ]
    run_stage(
        "view transform",
        [blender, ROOT / "tools" / "view_transform.py", blend, *folders, *scene_options(scene)],
        layout.log,
    )
    run_stage(
        "comparison",
        [engine, compare, "sheet", layout.work, layout.sheet, layout.metrics, "--title", title],
        layout.log,
    )
    metrics: dict[str, Any] = json.loads(layout.metrics.read_text())
    return metrics
