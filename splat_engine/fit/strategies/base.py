"""The interface of a strategy, what it knows of the fit around it, and when it acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.views import Views
from splat_engine.formats.settings import DensifySettings


@dataclass(frozen=True)
class Surroundings:
    """The fit that a strategy works in.

    Attributes:
        images: The training views; a strategy sees no others.
        formation: How they are drawn.
        extent: The scene's, scene units.
        steps: Of the whole fit.
        max_splats: No strategy goes beyond this.
        rates: Learning rate of each parameter group at a step.
        backend: "cpu", "cuda" or "reference".
    """

    images: Views
    formation: ImageFormation
    extent: float
    steps: int
    max_splats: int
    rates: Callable[[int], Mapping[str, float]]
    backend: str = "cpu"


class Strategy(Protocol):
    """What the fit asks of a strategy."""

    @property
    def absolute(self) -> bool:
        """Whether ``after_backward`` wants the absolute gradients in place of the gradients."""

    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Looks at one step's gradients.

        Args:
            step: Number of the step, from 1.
            state: The splats the gradients belong to; only its buffers may change.
            means2d_gradient: [N, 2] gradient of the loss by the centres, per px, or sums of its absolute values.
            radii: [N, 2] px, 0 where the splat was culled.
            size: (width, height) of the view, px.
        """

    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Changes splats after the optimiser's update; returns whether rows came, went or changed places.

        Args:
            step: Number of the step, from 1.
            state: Changed.
            generator: On the processor, wherever the splats lie.
        """


class KeepAll:
    """The number of splats stays."""

    absolute = False

    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Looks at nothing."""

    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Changes nothing."""
        return False


class Moments:
    """The steps at which the number of splats may change, and the number that is due at each of them.

    Args:
        settings: First step, interval, and the share of all steps after which the number stays.
        steps: Of the whole fit.
        max_splats: The number after the last moment.
    """

    def __init__(self, settings: DensifySettings, *, steps: int, max_splats: int) -> None:
        self.interval = settings.interval
        self.last_step = int(settings.stop_share * steps)
        self.max_splats = max_splats
        self._first = -(-max(1, settings.start) // settings.interval)  # in intervals, as the next one
        self._last = self.last_step // settings.interval

    def is_over(self, step: int) -> bool:
        """Whether nothing changes any more."""
        return step > self.last_step

    def is_now(self, step: int) -> bool:
        """Whether this is such a step."""
        number, rest = divmod(step, self.interval)
        return rest == 0 and self._first <= number <= self._last

    def due(self, step: int, count: int) -> int:
        """Returns how many splats there are to be after this moment, of ``count`` that there are.

        The curve is N(t) = N_max - (N_max - N_0) (1 - t)^2, t from 0 before the first moment to 1 at the last. Each moment
        closes its part of the gap that is left, so nothing has to be remembered, and what was pruned meanwhile comes again.

        Source: Mallick et al. 2024, Taming 3DGS, section 4, whose parabola starts flat where this one ends so: over a few
        thousand steps splats that come late have no time to learn.
        """
        left = self._last - step // self.interval
        return self.max_splats - int((self.max_splats - count) * (left / (left + 1)) ** 2)


class Scheduled:
    """What strategies share that act at ``Moments``, and look at no gradients unless they say so.

    Args:
        settings: When and how.
        fit: The fit around it.
    """

    absolute = False

    def __init__(self, settings: DensifySettings, fit: Surroundings) -> None:
        self.settings = settings
        self.fit = fit
        self.moments = Moments(settings, steps=fit.steps, max_splats=fit.max_splats)

    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Looks at nothing."""
