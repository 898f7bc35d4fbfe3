"""The optimisation itself: one step after another, with no files, clocks or messages.

It is where its splats are. On a card the processor runs ahead of it: nothing in a step waits for the card but the reading
of one number, how many tiles the splats touch (splat_engine/ops/_cuda); so the loss too is looked at only now and then.

Everything that a step depends on is in ``Trainer.state_dict``, or follows from the seed and the step's number: a
trainer that was saved and loaded goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from splat_engine.fit.coarse import CoarseViews, coarse_cost, coarse_factor
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.guard import log_scale_floors
from splat_engine.fit.metrics import psnr_db, view_psnr_db
from splat_engine.fit.model import SplatState
from splat_engine.fit.optimizer import Adam
from splat_engine.fit.place import send
from splat_engine.fit.schedule import Schedule, views_aside
from splat_engine.fit.steps import take_step
from splat_engine.fit.strategies import Surroundings, make_strategy
from splat_engine.fit.tidy import Tidy
from splat_engine.fit.views import SomeViews, Views, ViewTensors
from splat_engine.formats.conventions import linear_number_from_srgb
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import RunSettings

FLOOR = "log_scale_floor"
GUARD_INTERVAL = 100
"""Steps between two looks at which view is nearest to each splat."""
LEARNING_CHECK_STEP = 100
"""The step after which every parameter group must have moved."""
PSNR_INTERVAL = 10
"""Steps between two that measure their PSNR, which is for the eye alone. On a card also between two looks at the loss."""
GEOMETRY_FULL_SHARE = 0.5
"""Share of the steps with full weight on depth and normals; then it falls linearly to 0 (FACTS.md section 8)."""


class StepResult(NamedTuple):
    """What a step tells.

    Attributes:
        loss: Mean over the steps since the last one that told it: on the processor always this step's own. None where
            it was not looked at.
        psnr: Now and then, of this step's view in dB over the step's background.
    """

    loss: float | None
    psnr: float | None


class Trainer:
    """Optimises splats against the views of a capture.

    Args:
        settings: All settings; ``fit.steps`` sets the schedules.
        images: The training views, at least one.
        state: The first splats, where the views are; owned by the trainer from here on.
        extent: The scene's, scene units.
        warn: Told in a sentence what is not as it should be.
        backend: "cpu", "cuda" or "reference".
        formation: How the views are drawn; None: as the settings' look draws filtered ones.
    """

    def __init__(
        self,
        settings: RunSettings,
        images: Views,
        state: SplatState,
        *,
        extent: float,
        warn: Callable[[str], None],
        backend: str = "cpu",
        formation: ImageFormation | None = None,
    ) -> None:
        fit = settings.fit
        self.settings = settings
        self.images = images
        self.state = state
        self.extent = extent
        self.formation = formation or ImageFormation(fit.formation)
        self.step = 0
        self._warn = warn
        self._aside = self._views_aside()
        self._looks_db: list[float] = []
        self.schedule = Schedule(fit.steps, in_stages=bool(self._aside))
        self._optimizer = Adam(
            settings.optimizer, self.formation, extent=extent, schedule=self.schedule, backend=backend
        )
        around = Surroundings(
            images=images,
            formation=self.formation,
            extent=extent,
            steps=fit.steps,
            max_splats=fit.max_splats,
            rates=self._optimizer.rates,
            backend=backend,
        )
        learned = SomeViews(images, [number for number in range(len(images)) if number not in self._aside])
        self._strategy = make_strategy(fit.strategy, settings.densify, replace(around, images=learned))
        self._tidy = Tidy(settings.tidy, around)
        self._generator = torch.Generator().manual_seed(fit.seed)
        self._order: tuple[tuple[int, int], list[int]] = ((0, 0), [])
        self._guards = self.formation.is_linear and fit.min_sigma_px > 0
        self._losses = _LossWatch(1 if backend != "cuda" else PSNR_INTERVAL)

    def train_step(self) -> StepResult:
        """Makes one step: draw a view, compare, differentiate, update, densify.

        Raises:
            UserError: The loss is no longer finite, or a view's file cannot be read.
        """
        fit = self.settings.fit
        step = self.step + 1
        if step % fit.sh_interval == 0:
            self.state.raise_sh_degree(min(fit.sh_degree, self.state.sh_degree + 1))
        views, is_new = self._views_at(step)
        if self._guards and (step % GUARD_INTERVAL == 1 or is_new or FLOOR not in self.state.buffers):
            self._refresh_floors(views)
        result = self._learn(step, views[self._view_of(step)])
        self.step = step  # first, so that the splats are those of the step if memory runs out in what follows
        if self.schedule.may_densify(step):
            self._strategy.after_step(step, self.state, self._generator)
        self._look_at_views_aside(step)
        self._tidy.after_step(step, self.state, is_last=step == self.schedule.last_step)
        if step == min(LEARNING_CHECK_STEP, fit.steps):
            self._check_learning(step)
        return result

    def work_until(self, step: int) -> float:
        """Returns how much time the steps until ``step`` take, in steps at full resolution: for the time that is left."""
        first_stage = max(1, self.schedule.stage_ends[0])
        share = min(1.0, step / first_stage)
        cost = first_stage * coarse_cost(share, self.settings.schedule.coarse_share)
        return cost + max(0, step - first_stage)

    def _views_at(self, step: int) -> tuple[Views, bool]:
        """The training views at a step's resolution, and whether that is another than the step's before."""
        until = self.settings.schedule.coarse_share
        before, factor = (coarse_factor(self.schedule.share(which), until) for which in (step - 1, step))
        return (self.images if factor == 1 else CoarseViews(self.images, factor)), factor != before

    def _learn(self, step: int, view: ViewTensors) -> StepResult:
        """Draws and compares a view and updates the splats; the strategy sees what the screen says of each."""
        share = min(1.0, (1.0 - self.schedule.share(step)) / (1.0 - GEOMETRY_FULL_SHARE))
        told = step % PSNR_INTERVAL == 1 or step == self.schedule.last_step
        taken = take_step(
            self.state,
            view,
            self._background(),
            self._optimizer,
            self._formation_at(step),
            self.settings.loss,
            step,
            extent=self.extent,
            geometry_share=share,
            log_scale_floors=self.state.buffers.get(FLOOR),
            absolute=self._strategy.absolute,
            check_loss=lambda loss: self._losses.add(step, loss, is_last=told),
        )
        size = (view.camera.width, view.camera.height)
        if self.schedule.may_densify(step):
            self._strategy.after_backward(step, self.state, taken.means2d, taken.radii, size)
        return StepResult(taken.loss, psnr_db(taken.squared.item()) if told else None)

    def _formation_at(self, step: int) -> ImageFormation:
        """How a step draws: in each pixel's own order only when the splats are nearly in place, since that takes longer."""
        in_place = self.schedule.share(step) > self.settings.schedule.own_order_from
        return replace(self.formation, own_order=self.formation.own_order and in_place)

    def _view_of(self, step: int) -> int:
        """Views come in a new order each epoch; the order follows from the seed and the epoch alone."""
        first = self.schedule.all_views_from if self._aside else 0
        aside = self._aside if step <= first else []
        count = len(self.images) - len(aside)
        epoch, place = divmod(step - 1 - (0 if aside else first), count)
        if self._order[0] != (count, epoch):
            generator = torch.Generator().manual_seed(self.settings.fit.seed * 1_000_003 + epoch)
            order = torch.randperm(count, generator=generator).tolist()
            numbers = [number for number in range(len(self.images)) if number not in aside]
            self._order = ((count, epoch), [numbers[chosen] for chosen in order])
        return self._order[1][place]

    def _views_aside(self) -> list[int]:
        """Which views the fit is watched by until it is being finished; none where it shall not end early."""
        chosen = self.settings.schedule
        if not chosen.early_stop:
            return []
        aside = views_aside(len(self.images), chosen.stop_share)
        if not aside:
            self._warn(
                f"{len(self.images)} training views are too few to keep some aside: the fit takes all its steps."
            )
        return aside

    def _look_at_views_aside(self, step: int) -> None:
        """At the end of a stage: decides whether the fit has gained enough since the stage before to go on."""
        if not self.schedule.is_stage_end(step):
            return
        backend = self._optimizer.backend
        seen_db = [
            view_psnr_db(self.state.params, self.images[number], self.formation, backend)
            for number in self._aside
        ]
        self._looks_db.append(sum(seen_db) / len(seen_db))
        if len(self._looks_db) > 1:
            gain_db = self._looks_db[-1] - self._looks_db[-2]
            if gain_db < self.settings.schedule.stop_gain_db:
                self.schedule.plateau_step = step

    def _background(self) -> Tensor:
        """[3] in the blending space: random in encoded values, or black."""
        if not self.settings.loss.random_background:
            return torch.zeros(3, device=self.state.device)
        color = torch.rand(3, generator=self._generator)
        if self.formation.is_linear:
            # Number by number: whole arrays cost ten times as much here.
            color = torch.tensor([linear_number_from_srgb(value) for value in color.tolist()])
        return send(color, self.state.device)

    def _refresh_floors(self, views: Views) -> None:
        means, cameras = self.state.params["means"], views.cameras
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
        """Returns all that a resume needs, in the processor's memory.

        Raises:
            UserError: The loss of a step that was not looked at yet is not finite.
        """
        self._losses.look(self.step)
        return {
            "step": self.step,
            "extent": self.extent,
            "splats": self.state.state_dict(),
            "generator": self._generator.get_state(),
            "schedule": {"plateau_step": self.schedule.plateau_step, "looks_db": list(self._looks_db)},
        }

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Goes back to what ``state_dict`` returned, in a trainer of the same settings, views and extent.

        It may have been returned by a trainer elsewhere: the splats come to where this one's are.
        """
        self.step = int(values["step"])
        self.state = SplatState.from_state_dict(values["splats"]).to(self.state.device)
        self._generator.set_state(values["generator"])
        self.schedule.plateau_step = values["schedule"]["plateau_step"]
        self._looks_db = list(values["schedule"]["looks_db"])


class _LossWatch:
    """Sums losses where they are made and reads the sum now and then: what is not finite stays so in a sum.

    Args:
        interval: Steps from one look to the next, at most.
    """

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._sum: Tensor | None = None
        self._count = 0

    def add(self, step: int, loss: Tensor, *, is_last: bool) -> float | None:
        """Takes in a step's loss, a scalar; returns the mean if it is time to look, or if this is the last step for now.

        Raises:
            UserError: It is not finite.
        """
        self._sum = loss if self._sum is None else self._sum + loss
        self._count += 1
        return self.look(step) if is_last or self._count >= self._interval else None

    def look(self, step: int) -> float | None:
        """Returns the mean since the last look, None if there was no step; see ``add``."""
        if self._sum is None:
            return None
        value, first = self._sum.item() / self._count, step + 1 - self._count
        self._sum, self._count = None, 0
        if not math.isfinite(value):
            when = f"at step {step}" if first == step else f"at one of the steps {first} to {step}"
            raise UserError(
                f"The loss is not finite {when}: the fit has diverged.",
                "Lower the learning rates, or start again from other points.",
            )
        return value
