"""Renders what the noise study fits: a scene at several samples, with and without denoising, for equal processor time.

Blender's Python: ``python -m tools.bench.quality.noise_pools SCENE OUT --budgets 5 15``. Each capture has as many views as
its budget pays for; the cost of a view is measured on a few first. Leaves OUT/pools.json, and OUT/test, which is clean.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from addon.capture.capture import CaptureProgress, capture_scene
from splat_engine.formats.files import read_json, write_json
from splat_engine.formats.settings import CaptureSettings
from tools.bench.quality.scenes.__main__ import make_scene

ROOMS = ("interior", "emitter")
TEST_VIEWS, TEST_SAMPLES = 8, 64
TEST_FIRST = 1000
"""Number of the first test camera in a room, and seed of the rig's turn elsewhere: no view of a pool."""
PROBE_VIEWS = 4
SAMPLES = (4, 16, 64)
POINTS = 20_000


@dataclass(frozen=True)
class Job:
    """A scene, and how large its views are."""

    scene: str
    size_px: int
    out: Path

    def capture(
        self, folder: str, views: int, samples: int, denoise: bool, *, test: bool = False
    ) -> list[float]:
        """Captures views; returns the processor seconds of each, summed over the cores."""
        room = self.scene in ROOMS
        make_scene(self.scene, **({"cameras": views, "first": TEST_FIRST if test else 0} if room else {}))
        scene: Any = bpy.context.scene
        scene.render.threads_mode, scene.render.threads = "FIXED", 1
        settings = CaptureSettings(
            rig="scene" if room else "dome",
            views=views,
            hold_out=0,
            resolution=self.size_px,
            samples=samples,
            denoise=denoise,
            points=POINTS,
            seed=TEST_FIRST if test else 0,
        )
        clock = Clock()
        capture_scene(scene, settings, self.out / folder, progress=clock)
        return clock.seconds()


class Clock:
    """Notes the processor time at each step of a capture."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def __call__(self, state: CaptureProgress) -> None:
        """Called before each view, and once after the last."""
        self.marks.append(time.process_time())

    def seconds(self) -> list[float]:
        """Returns what each step took; the first, which looks at the scene, and the first view are left out."""
        return [later - sooner for sooner, later in zip(self.marks[2:], self.marks[3:], strict=False)]


def name_of(samples: int, denoise: bool) -> str:
    """Returns the first part of a pool's folder."""
    return f"s{samples}{'_oidn' if denoise else ''}"


def render_pool(job: Job, samples: int, denoise: bool, budget_s: float, view_s: float) -> dict[str, Any]:
    """Captures as many views as the budget pays for at ``view_s`` each; returns what they did cost."""
    views = max(2, round(budget_s / view_s))
    folder = f"{name_of(samples, denoise)}_{budget_s:g}s"
    seconds = job.capture(folder, views, samples, denoise)
    per_view = statistics.fmean(seconds) if seconds else view_s
    return {
        "folder": folder,
        "samples": samples,
        "denoised": denoise,
        "budget_s": budget_s,
        "views": views,
        "cpu_s": round(per_view * views, 2),
    }


def render_all(job: Job, budgets: list[float]) -> None:
    """Renders the test views and every pool that pools.json does not list yet."""
    path = job.out / "pools.json"
    pools: list[dict[str, Any]] = read_json(path) if path.is_file() else []
    done = {(pool["samples"], pool["denoised"], pool["budget_s"]) for pool in pools}
    if not (job.out / "test" / "transforms.json").is_file():
        job.capture("test", TEST_VIEWS, TEST_SAMPLES, True, test=True)
    for samples in SAMPLES:
        for denoise in (False, True):
            missing = [budget_s for budget_s in budgets if (samples, denoise, budget_s) not in done]
            if not missing:
                continue
            probe = job.capture(f"probe_{name_of(samples, denoise)}", PROBE_VIEWS, samples, denoise)
            for budget_s in missing:
                pools.append(render_pool(job, samples, denoise, budget_s, statistics.median(probe)))
                write_json(path, pools)
                print(pools[-1], flush=True)


def main() -> int:
    """Reads the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene")
    parser.add_argument("out", type=Path)
    parser.add_argument("--budgets", type=float, nargs="+", default=[5.0, 15.0], help="processor seconds")
    parser.add_argument("--size", type=int, default=128, help="px")
    options = parser.parse_args()
    render_all(Job(options.scene, options.size, options.out), options.budgets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
