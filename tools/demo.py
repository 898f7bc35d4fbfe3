"""The demo: build a scene, capture it, fit it, bring the splats back, and compare.

``make demo`` runs it. Any Python 3.10 or newer will do: each stage runs in the environment that
``make setup`` made for it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from pipeline import ROOT, Layout, StageError, compare_scene, fit_scene, python_of, run_stage  # noqa: E402


@dataclass(frozen=True)
class Plan:
    """How large a demo is."""

    views: int
    hold_out: int
    resolution_px: int
    samples: int
    test_samples: int
    steps: int
    blender_samples: int


FULL = Plan(
    views=48,
    hold_out=16,
    resolution_px=320,
    samples=40,
    test_samples=128,
    steps=2000,
    blender_samples=40,
)
SHORT = Plan(
    views=16, hold_out=8, resolution_px=128, samples=8, test_samples=32, steps=400, blender_samples=32
)
METRICS = ("engine.psnr", "engine.ssim", "blender.psnr_linear", "blender.psnr_view", "splats")
METRICS += ("seconds.capture", "seconds.fit", "seconds.import")


def options(plan: Plan) -> list[str]:
    """Returns the command-line options of ``python -m addon fit`` for a plan."""
    values = {
        "--rig": "dome",
        "--views": plan.views,
        "--hold-out": plan.hold_out,
        "--resolution": plan.resolution_px,
        "--samples": plan.samples,
        "--test-samples": plan.test_samples,
        "--steps": plan.steps,
    }
    return [str(word) for pair in values.items() for word in pair]


def show(metrics: dict[str, Any], layout: Layout, seconds: float) -> None:
    """Prints the figures and where to look."""
    print("\nResult (held-out views)")
    print(f"  engine   {metrics['engine.psnr']:6.2f} dB   SSIM {metrics['engine.ssim']:.4f}")
    print(
        f"  Blender  {metrics['blender.psnr_view']:6.2f} dB through the scene's look, {metrics['blender.psnr_linear']:.2f} dB linear"
    )
    times = ", ".join(f"{name} {metrics[f'seconds.{name}']:.1f} s" for name in ("capture", "fit", "import"))
    print(f"  {metrics['splats']} splats; {times}; everything {seconds:.0f} s\n")
    for path, what in (
        (layout.sheet, "look at this first: original, engine, Blender, difference"),
        (layout.result, "open in Blender 5.3: the splats stand in the scene"),
        (layout.splats, "the splats for any 3DGS viewer"),
        (layout.metrics, "these figures"),
    ):
        print(f"  {os.path.relpath(path):34} {what}")


def run_demo(plan: Plan, layout: Layout) -> dict[str, Any]:
    """Runs all stages into an empty folder; returns the metrics.

    Raises:
        StageError: A stage failed.
    """
    shutil.rmtree(layout.root, ignore_errors=True)
    layout.root.mkdir(parents=True)
    run_stage(
        "build the scene", [python_of("blender"), ROOT / "tools" / "demo_scene.py", layout.scene], layout.log
    )
    report = fit_scene(layout.scene, layout, options(plan))
    shutil.copyfile(layout.run / "splats.ply", layout.splats)
    metrics = json.loads((layout.run / "metrics.json").read_text()) | report
    layout.metrics.write_text(json.dumps(metrics, indent=2) + "\n")
    title = "Splatfit demo: a Blender scene, fitted on the CPU"
    metrics = compare_scene(layout.scene, layout, title, blender_samples=plan.blender_samples)
    missing = [name for name in METRICS if name not in metrics]
    if missing:
        raise StageError(f"metrics.json lacks {', '.join(missing)}")
    return metrics


def main() -> int:
    """Reads the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "demo", help="folder of the result, emptied first"
    )
    parser.add_argument("--short", action="store_true", help="small and rough, for CI")
    arguments = parser.parse_args()
    layout, start = Layout(arguments.out), time.monotonic()
    try:
        metrics = run_demo(SHORT if arguments.short else FULL, layout)
    except StageError as error:
        print(error, file=sys.stderr)
        return 1
    show(metrics, layout, time.monotonic() - start)
    return 0


if __name__ == "__main__":
    sys.exit(main())
