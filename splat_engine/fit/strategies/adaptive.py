"""Adaptive density control: the gradient of the centres on the screen says where splats are too few."""

from __future__ import annotations

import math

import torch

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.base import Surroundings
from splat_engine.fit.strategies.children import highest
from splat_engine.fit.strategies.gradient import GRADIENT_SUM, GradientGrowth, forget_gradient, mean_gradient
from splat_engine.formats.settings import DensifySettings

RESET_OPACITY = 0.01
"""An opacity reset leaves no splat stronger than this (Kerbl et al. 2023)."""


class AdaptiveDensity(GradientGrowth):
    """Clones small splats and splits large ones where the screen-space gradient is high, prunes transparent and huge ones,
    resets opacities now and then.

    Args:
        settings: When and how.
        fit: The fit around it.
        absolute: Take sums over pixels of the gradient's absolute values: they do not cancel where a splat's two ends are
            pulled in opposite directions, which is where a large one hides fine detail.

    Source: Kerbl et al. 2023, section 5.2; Ye et al. 2024, AbsGS.
    """

    def __init__(self, settings: DensifySettings, fit: Surroundings, *, absolute: bool = False) -> None:
        super().__init__(settings, fit)
        self.absolute = absolute
        self.threshold = settings.absolute_gradient if absolute else settings.gradient

    @torch.no_grad()
    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Densifies, prunes, sorts and resets when it is time; see ``Strategy``."""
        settings = self.settings
        if self.moments.is_over(step) or GRADIENT_SUM not in state.buffers:
            return False
        changed = False
        if self.moments.is_now(step):
            changed = self._densify(state, generator)
            if settings.sort_interval and step // settings.interval % settings.sort_interval == 0:
                state.sort_by_place()
                changed = True
            forget_gradient(state)
        if settings.reset_interval and step % settings.reset_interval == 0 and step < self.moments.last_step:
            ceiling = math.log(RESET_OPACITY / (1 - RESET_OPACITY))
            state.overwrite("opacity_logits", state.params["opacity_logits"].clamp_max(ceiling))
        return changed

    def _densify(self, state: SplatState, generator: torch.Generator) -> bool:
        stays = ~self.hopeless(state)
        gradient = mean_gradient(state).masked_fill_(~stays, 0.0)
        room = self.fit.max_splats - int(stays.sum())
        return self.grow(state, stays, highest(gradient, self.threshold, room), generator)
