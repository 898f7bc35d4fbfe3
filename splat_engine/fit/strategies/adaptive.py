"""How the number of splats changes during a fit.

A strategy watches every step (``after_backward``) and changes splats between steps (``after_step``), always through
``SplatState``. What it keeps for each splat lies in the state's buffers, so it is checkpointed and rearranged with
everything else; a strategy itself holds no state.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.place import send
from splat_engine.formats.settings import DensifySettings, StrategyName

GRADIENT_SUM, SEEN_COUNT = "gradient_sum", "seen_count"
SPLIT_CHILDREN = 2
SPLIT_SHRINK = 0.8 * SPLIT_CHILDREN
"""Children of a split are this much smaller than their parent (Kerbl et al. 2023)."""
RESET_OPACITY = 0.01
"""An opacity reset leaves no splat stronger than this (Kerbl et al. 2023)."""


class Strategy(Protocol):
    """What the fit asks of a strategy."""

    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Looks at one step's gradients.

        Args:
            step: Number of the step, from 1.
            state: The splats the gradients belong to; only its buffers may change.
            means2d_gradient: [N, 2] gradient of the loss by the centres, per px.
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

    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Looks at nothing."""

    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Changes nothing."""
        return False


class AdaptiveDensity:
    """Adaptive density control: clone small splats and split large ones where the screen-space gradient is high,
    prune transparent and huge ones, reset opacities now and then.

    Args:
        settings: When and how.
        extent: The scene's, scene units.
        steps: Of the whole fit.
        max_splats: No more than this.

    Source: Kerbl et al. 2023, section 5.2. The gradient is taken per half image size, as there.
    """

    def __init__(self, settings: DensifySettings, *, extent: float, steps: int, max_splats: int) -> None:
        self.settings = settings
        self.extent = extent
        self.last_step = int(settings.stop_share * steps)
        self.max_splats = max_splats

    @torch.no_grad()
    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Adds up the gradients' lengths; see ``Strategy``."""
        if step > self.last_step:
            return
        if GRADIENT_SUM not in state.buffers:
            _forget(state)
        by_x, by_y = means2d_gradient.unbind(dim=1)
        state.buffers[GRADIENT_SUM] += torch.hypot(by_x * (0.5 * size[0]), by_y * (0.5 * size[1]))
        state.buffers[SEEN_COUNT] += radii[:, 0] > 0

    @torch.no_grad()
    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Densifies, prunes, sorts and resets when it is time; see ``Strategy``."""
        settings = self.settings
        if step > self.last_step or GRADIENT_SUM not in state.buffers:
            return False
        changed = False
        if step >= settings.start and step % settings.interval == 0:
            changed = self._densify(state, generator)
            if settings.sort_interval and step // settings.interval % settings.sort_interval == 0:
                state.sort_by_place()
                changed = True
            _forget(state)
        if settings.reset_interval and step % settings.reset_interval == 0 and step < self.last_step:
            ceiling = math.log(RESET_OPACITY / (1 - RESET_OPACITY))
            state.overwrite("opacity_logits", state.params["opacity_logits"].clamp_max(ceiling))
        return changed

    def _densify(self, state: SplatState, generator: torch.Generator) -> bool:
        size = state.params["log_scales"].exp().amax(dim=1)
        opacity = torch.sigmoid(state.params["opacity_logits"])
        pruned = (opacity < self.settings.prune_opacity) | (size > self.settings.prune_size * self.extent)
        gradient = state.buffers[GRADIENT_SUM] / state.buffers[SEEN_COUNT].clamp_min(1)
        gradient.masked_fill_(pruned, 0.0)
        room = self.max_splats - int((~pruned).sum())
        chosen = _highest(gradient, self.settings.gradient, room)
        is_large = size[chosen] > self.settings.split_size * self.extent
        cloned, split = chosen[~is_large], chosen[is_large]
        if not len(chosen) and not pruned.any():
            return False
        stays = ~pruned
        stays[split] = False
        parents = torch.cat((cloned, split.repeat(SPLIT_CHILDREN)))
        means, log_scales = self._children(state, cloned, split, generator)
        state.rearrange(stays.nonzero()[:, 0], parents, {"means": means, "log_scales": log_scales})
        return True

    @staticmethod
    def _children(
        state: SplatState, cloned: Tensor, split: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Centres and log-scales of the new splats: clones as they are, split ones drawn from their parent."""
        means, log_scales = state.params["means"], state.params["log_scales"]
        parents = split.repeat(SPLIT_CHILDREN)
        normal = send(torch.randn((len(parents), 3), generator=generator), state.device)
        offsets = rotate(state.params["quats_wxyz"][parents], normal * log_scales[parents].exp())
        return (
            torch.cat((means[cloned], means[parents] + offsets)),
            torch.cat((log_scales[cloned], log_scales[parents] - math.log(SPLIT_SHRINK))),
        )


def _forget(state: SplatState) -> None:
    for name in (GRADIENT_SUM, SEEN_COUNT):
        state.buffers[name] = torch.zeros(len(state), device=state.device)


def _highest(values: Tensor, threshold: float, most: int) -> Tensor:
    """Indices, ascending, of values above a threshold; the ``most`` highest if they are too many."""
    above = (values > threshold).nonzero()[:, 0]
    if len(above) > most:
        order = torch.sort(values[above], descending=True, stable=True).indices
        above = above[order[: max(0, most)]].sort().values
    return above


def rotate(quats_wxyz: Tensor, vectors: Tensor) -> Tensor:
    """Turns [N, 3] vectors by [N, 4] quaternions of any norm but zero."""
    unit = torch.nn.functional.normalize(quats_wxyz, dim=1)
    scalar, axis = unit[:, :1], unit[:, 1:]
    twice = 2.0 * torch.linalg.cross(axis, vectors, dim=1)
    turned: Tensor = vectors + scalar * twice + torch.linalg.cross(axis, twice, dim=1)
    return turned


def make_strategy(
    name: StrategyName, settings: DensifySettings, *, extent: float, steps: int, max_splats: int
) -> Strategy:
    """Returns the strategy of that name."""
    if name == "none":
        return KeepAll()
    return AdaptiveDensity(settings, extent=extent, steps=steps, max_splats=max_splats)
