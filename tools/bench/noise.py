"""What noise in the views costs each loss: `python -m tools.bench.noise`, one line a fit.

The views of shared/data/dataset/suzanne256 are multiplied, pixel by pixel and each view once, by gamma noise of mean 1, which
is how few samples of a path tracer look: independent pixels, never negative, as strong as a share of the value. Held-out
views stay clean.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.metrics import mean_scores, score_views
from splat_engine.fit.model import SplatState
from splat_engine.fit.start import start_splats
from splat_engine.fit.trainer import Trainer
from splat_engine.fit.views import ViewTensors
from splat_engine.formats.capture import Capture, read_capture
from splat_engine.formats.settings import FitSettings, LossSettings, LossSpace, RunSettings, StartSettings

DATASET = Path(__file__).resolve().parents[3] / "shared" / "data" / "dataset" / "suzanne256"
FORMATION = ImageFormation("blender")


class NoisyImages(CaptureImages):
    """Training views with noise of a share of the value in linear light, the same each time a view is asked for.

    Args:
        capture: The clean views.
        share: Standard deviation over mean; 0: clean.
    """

    def __init__(self, capture: Capture, share: float) -> None:
        super().__init__(capture, "train", FORMATION)
        self._noisy = [self._with_noise(number, share) for number in range(len(self))]

    def _with_noise(self, number: int, share: float) -> ViewTensors:
        view = super().__getitem__(number)
        if share == 0:
            return view
        shape = 1 / share**2
        factors = np.random.default_rng(number).gamma(shape, 1 / shape, view.color.shape[:2])
        return replace(view, color=view.color * torch.from_numpy(factors).float()[..., None])

    def __getitem__(self, number: int) -> ViewTensors:
        """Returns a view with its noise."""
        return self._noisy[number]


def fitted(capture: Capture, share: float, space: LossSpace, steps: int) -> str:
    """Fits and returns the line: noise, loss, held-out PSNR and SSIM, number of splats, seconds."""
    settings = RunSettings(
        fit=FitSettings(steps=steps),
        start=StartSettings(start=str(capture.root / "points3d_5k.ply")),
        loss=LossSettings(loss_space=space),
    )
    images = NoisyImages(capture, share)
    splats, extent, _ = start_splats(capture, settings, np.random.default_rng(0), print)
    state = SplatState.from_splats(splats)
    trainer = Trainer(settings, images, state, extent=extent, warn=print)
    began_s = time.monotonic()
    for _ in range(steps):
        trainer.train_step()
    seconds = time.monotonic() - began_s
    clean = CaptureImages(capture, "test", FORMATION)
    scores = mean_scores(list(score_views(trainer.state.params, clean, FORMATION)))
    figures = f"{scores['engine.psnr']:6.2f} dB  SSIM {scores['engine.ssim']:.4f}"
    return f"noise {share:4.2f}  {space:8s}{figures}  {len(trainer.state):6d} splats  {seconds:4.0f} s"


def main() -> None:
    """Fits once for each noise and loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--noise", type=float, nargs="+", default=[0.0, 0.12, 0.25, 0.7], help="shares of the value"
    )
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--capture", type=Path, default=DATASET)
    options = parser.parse_args()
    capture = read_capture(options.capture)
    spaces: tuple[LossSpace, ...] = ("encoded", "linear")
    for share in options.noise:
        for space in spaces:
            print(fitted(capture, share, space, options.steps), flush=True)


if __name__ == "__main__":
    main()
