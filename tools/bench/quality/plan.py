"""What the benchmark measures: the scenes with their cameras and samples, and the settings of a fit, each by its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DATASET = ROOT.parent / "shared" / "data" / "dataset" / "suzanne256"
DATASET_START = DATASET / "points3d_10k.ply"
SCENES_FOLDER = Path(__file__).resolve().parent / "scenes"


@dataclass(frozen=True)
class Subject:
    """A scene as it is captured.

    Attributes:
        name: In tables and file names.
        scene: Name for ``tools.bench.quality.scenes``; "" for a data set that is there already.
        size_px: Width and height of a view.
        rig: Cameras, as the add-on's ``--rig``; "scene" for those inside a room.
        views: All of them; every ``hold_out``-th is held out. A room has the cameras that its script gives it.
        hold_out: Every how many-th view is held out.
        samples: Of a training view.
        test_samples: Of a held-out view, which is denoised as the training views are.
    """

    name: str
    scene: str
    size_px: int = 256
    rig: str = "dome"
    views: int = 96
    hold_out: int = 12
    samples: int = 16
    test_samples: int = 128

    def capture_options(self) -> list[str]:
        """Returns the options of ``python -m addon capture``."""
        cameras = ["--rig", self.rig, "--hold-out", str(self.hold_out), "--resolution", str(self.size_px)]
        if self.rig != "scene":
            cameras += ["--views", str(self.views)]
        sampling = ["--samples", str(self.samples), "--test-samples", str(self.test_samples)]
        return cameras + sampling


ROOMS = ("interior", "emitter")
SCENES = ("matte", "hair", "glass", "glossy", "interior", "foliage", "emitter")
LARGE = ("matte", "hair")
SUBJECTS: dict[str, Subject] = {
    **{name: Subject(name, name, rig="scene" if name in ROOMS else "dome") for name in SCENES},
    "suzanne256": Subject("suzanne256", ""),
    **{f"{name}800": Subject(f"{name}800", name, size_px=800, views=48, hold_out=12) for name in LARGE},
}
"""``suzanne256`` is the data set on which ``../shared/bench/README.md`` has figures of other programs."""

_SPARSE_START = ("--start", "random", "--random-points", "5000", "--strategy", "adaptive")
"""As other trainers begin: few points, and what adaptive control makes of them."""

SETTINGS: dict[str, tuple[str, ...]] = {
    "default": (),
    **{name: ("--strategy", name) for name in ("none", "adaptive", "absolute", "mcmc", "budget", "error")},
    **{f"random{most // 1000}k": (*_SPARSE_START, "--max-splats", str(most)) for most in (20_000, 50_000)},
    "linear": ("--loss-space", "linear"),
    "draft": ("--preset", "draft"),
    "high": ("--preset", "high"),
    "steps1000": ("--steps", "1000"),
    "steps4000": ("--steps", "4000"),
    "start5k": ("--start-splats", "5000"),
    "start10k": ("--start-splats", "10000"),
    "start25k": ("--start-splats", "25000"),
    "start50k": ("--start-splats", "50000"),
}
"""Name to options of ``splat-engine train``; what they leave out is the engine's default."""
