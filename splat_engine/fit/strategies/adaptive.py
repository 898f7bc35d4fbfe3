"""Adaptive density control: the gradient of the centres on the screen says where splats are too few."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.base import Moments, Surroundings
from splat_engine.fit.strategies.children import clone_and_split, highest
from splat_engine.formats.settings import DensifySettings

GRADIENT_SUM, SEEN_COUNT = "gradient_sum", "seen_count"
RESET_OPACITY = 0.01
"""An opacity reset leaves no splat stronger than this (Kerbl et al. 2023)."""


class AdaptiveDensity:
    """Clones small splats and splits large ones where the screen-space gradient is high, prunes transparent and huge ones,
    resets opacities now and then.

    Args:
        settings: When and how.
        fit: The fit around it.
        absolute: Take sums over pixels of the gradient's absolute values: they do not cancel where a splat's two ends are
            pulled in opposite directions, which is where a large one hides fine detail.

    Source: Kerbl et al. 2023, section 5.2. The gradient is taken per half image size, as there. Ye et al. 2024, AbsGS.
    """

    def __init__(self, settings: DensifySettings, fit: Surroundings, *, absolute: bool = False) -> None:
        self.settings = settings
        self.absolute = absolute
        self.extent = fit.extent
        self.max_splats = fit.max_splats
        self.moments = Moments(settings, steps=fit.steps, max_splats=fit.max_splats)
        self.threshold = settings.absolute_gradient if absolute else settings.gradient

    @torch.no_grad()
    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Adds up the gradients' lengths; see ``Strategy``."""
        if not self.moments.is_over(step):
            add_gradient(state, means2d_gradient, radii, size)

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
        size = state.params["log_scales"].exp().amax(dim=1)
        opacity = torch.sigmoid(state.params["opacity_logits"])
        pruned = (opacity < self.settings.prune_opacity) | (size > self.settings.prune_size * self.extent)
        gradient = mean_gradient(state).masked_fill_(pruned, 0.0)
        room = self.max_splats - int((~pruned).sum())
        chosen = highest(gradient, self.threshold, room)
        is_large = size[chosen] > self.settings.split_size * self.extent
        if not len(chosen) and not pruned.any():
            return False
        clone_and_split(state, ~pruned, chosen[~is_large], chosen[is_large], generator)
        return True


def add_gradient(state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]) -> None:
    """Adds a step's gradients [N, 2], per px, to the state's sums; where a splat was culled, it does not count."""
    if GRADIENT_SUM not in state.buffers:
        forget_gradient(state)
    by_x, by_y = means2d_gradient.unbind(dim=1)
    state.buffers[GRADIENT_SUM] += torch.hypot(by_x * (0.5 * size[0]), by_y * (0.5 * size[1]))
    state.buffers[SEEN_COUNT] += radii[:, 0] > 0


def mean_gradient(state: SplatState) -> Tensor:
    """Returns [N] mean lengths since the last ``forget_gradient``, per half image size."""
    return state.buffers[GRADIENT_SUM] / state.buffers[SEEN_COUNT].clamp_min(1)


def forget_gradient(state: SplatState) -> None:
    """Sets the sums to zero."""
    for name in (GRADIENT_SUM, SEEN_COUNT):
        state.buffers[name] = torch.zeros(len(state), device=state.device)
