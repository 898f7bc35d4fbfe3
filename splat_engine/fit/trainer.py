"""The optimisation itself: one step after another, with no files, clocks or messages.

Everything that a step depends on is in ``Trainer.state_dict``, or follows from the seed and the step's number: a
trainer that was saved and loaded goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.guard import log_scale_floors
from splat_engine.fit.metrics import psnr_db
from splat_engine.fit.model import SplatState
from splat_engine.fit.optimizer import Adam
from splat_engine.fit.steps import take_step
from splat_engine.fit.strategies import make_strategy
from splat_engine.formats.conventions import linear_from_srgb
from splat_engine.formats.settings import RunSettings

FLOOR = "log_scale_floor"
GUARD_INTERVAL = 100
"""Steps between two looks at which view is nearest to each splat."""
LEARNING_CHECK_STEP = 100
"""The step after which every parameter group must have moved."""
PSNR_INTERVAL = 10
"""Steps between two that measure their PSNR, which is for the eye alone."""
GEOMETRY_FULL_SHARE = 0.5
"""Share of the steps with full weight on depth and normals; then it falls linearly to 0 (FACTS.md section 8)."""


class StepResult(NamedTuple):
    """What a step tells: the loss, and now and then the PSNR of its view in dB over the step's background."""

    loss: float
    psnr: float | None


class Trainer:
    """Optimises splats against the views of a capture.

    Args:
        settings: All settings; ``fit.steps`` sets the schedules.
        images: The training views, at least one.
        state: The first splats; owned by the trainer from here on.
        extent: The scene's, scene units.
        warn: Told in a sentence what is not as it should be.
        backend: "cpu" or "reference".
    """

    def __init__(
        self,
        settings: RunSettings,
        images: CaptureImages,
        state: SplatState,
        *,
        extent: float,
        warn: Callable[[str], None],
        backend: str = "cpu",
    ) -> None:
        fit = settings.fit
        self.settings = settings
        self.images = images
        self.state = state
        self.extent = extent
        self.formation = ImageFormation(fit.formation)
        self.step = 0
        self._warn = warn
        self._optimizer = Adam(
            settings.optimizer, self.formation, extent=extent, steps=fit.steps, backend=backend
        )
        self._strategy = make_strategy(
            fit.strategy, settings.densify, extent=extent, steps=fit.steps, max_splats=fit.max_splats
        )
        self._generator = torch.Generator().manual_seed(fit.seed)
        self._order: tuple[int, list[int]] = (-1, [])
        self._guards = self.formation.is_linear and fit.min_sigma_px > 0

    def train_step(self) -> StepResult:
        """Makes one step: draw a view, compare, differentiate, update, densify.

        Raises:
            UserError: The loss is no longer finite, or a view's file cannot be read.
        """
        fit = self.settings.fit
        step = self.step + 1
        if step % fit.sh_interval == 0:
            self.state.raise_sh_degree(min(fit.sh_degree, self.state.sh_degree + 1))
        if self._guards and (step % GUARD_INTERVAL == 1 or FLOOR not in self.state.buffers):
            self._refresh_floors()
        result = self._learn(step)
        self._strategy.after_step(step, self.state, self._generator)
        self.step = step
        if step == min(LEARNING_CHECK_STEP, fit.steps):
            self._check_learning(step)
        return result

    def _learn(self, step: int) -> StepResult:
        """Draws and compares one view and updates the splats; the strategy sees what the screen says of each."""
        fit = self.settings.fit
        view = self.images[self._view_of(step)]
        share = min(1.0, (1.0 - (step - 1) / max(1, fit.steps)) / (1.0 - GEOMETRY_FULL_SHARE))
        taken = take_step(
            self.state,
            view,
            self._background(),
            self._optimizer,
            fit,
            step,
            extent=self.extent,
            geometry_share=share,
            log_scale_floors=self.state.buffers.get(FLOOR),
        )
        size = (view.camera.width, view.camera.height)
        self._strategy.after_backward(step, self.state, taken.means2d, taken.radii, size)
        told = step % PSNR_INTERVAL == 1 or step == fit.steps
        return StepResult(taken.loss, psnr_db(taken.squared.item()) if told else None)

    def _view_of(self, step: int) -> int:
        """Views come in a new order each epoch; the order follows from the seed and the epoch alone."""
        epoch, place = divmod(step - 1, len(self.images))
        if self._order[0] != epoch:
            generator = torch.Generator().manual_seed(self.settings.fit.seed * 1_000_003 + epoch)
            self._order = (epoch, torch.randperm(len(self.images), generator=generator).tolist())
        return self._order[1][place]

    def _background(self) -> Tensor:
        """[3] in the blending space: random in encoded values, or black."""
        if not self.settings.fit.random_background:
            return torch.zeros(3)
        encoded = torch.rand(3, generator=self._generator)
        if not self.formation.is_linear:
            return encoded
        # By numpy, whose functions cost a fifth of torch's on three numbers.
        return torch.from_numpy(linear_from_srgb(encoded.numpy()).astype(np.float32))

    def _refresh_floors(self) -> None:
        cameras = [view.camera for view in self.images.views]
        means = self.state.params["means"]
        self.state.buffers[FLOOR] = log_scale_floors(means, cameras, self.settings.fit.min_sigma_px)

    def _check_learning(self, step: int) -> None:
        """Warns of a parameter group whose gradient has been zero in every step: it cannot learn."""
        if not len(self.state):
            return
        sh = self.state.moments["sh"][1]
        second = {name: pair[1] for name, pair in self.state.moments.items()} | {
            "sh_dc": sh[:, 0],
            "sh": sh[:, 1:],
        }
        for name, rate in self._optimizer.rates(step).items():
            if rate > 0 and second[name].numel() and not bool(second[name].any()):
                self._warn(
                    f"Nothing has moved the splats' {name} in {step} steps: the views do not see them, or their "
                    "gradients vanish."
                )

    def state_dict(self) -> dict[str, Any]:
        """Returns all that a resume needs."""
        return {
            "step": self.step,
            "extent": self.extent,
            "splats": self.state.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Goes back to what ``state_dict`` returned, in a trainer of the same settings, views and extent."""
        self.step = int(values["step"])
        self.state = SplatState.from_state_dict(values["splats"])
        self._generator.set_state(values["generator"])
