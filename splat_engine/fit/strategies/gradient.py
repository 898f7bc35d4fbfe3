"""What strategies share that grow by the gradient of the centres on the screen."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.base import Scheduled
from splat_engine.fit.strategies.children import clone_and_split

GRADIENT_SUM, SEEN_COUNT = "gradient_sum", "seen_count"


class GradientGrowth(Scheduled):
    """Adds the gradients up, and clones small splats and splits large ones.

    Source: Kerbl et al. 2023, section 5.2. The gradient is taken per half image size, as there.
    """

    @torch.no_grad()
    def after_backward(
        self, step: int, state: SplatState, means2d_gradient: Tensor, radii: Tensor, size: tuple[int, int]
    ) -> None:
        """Adds up the gradients' lengths; where a splat was culled, it does not count. See ``Strategy``."""
        if self.moments.is_over(step):
            return
        if GRADIENT_SUM not in state.buffers:
            forget_gradient(state)
        by_x, by_y = means2d_gradient.unbind(dim=1)
        state.buffers[GRADIENT_SUM] += torch.hypot(by_x * (0.5 * size[0]), by_y * (0.5 * size[1]))
        state.buffers[SEEN_COUNT] += radii[:, 0] > 0

    def hopeless(self, state: SplatState) -> Tensor:
        """Returns [N] bool: which splats are transparent or huge."""
        opacity, largest = (
            torch.sigmoid(state.params["opacity_logits"]),
            self.settings.prune_size * self.fit.extent,
        )
        return (opacity < self.settings.prune_opacity) | (_sizes(state) > largest)

    def grow(self, state: SplatState, stays: Tensor, chosen: Tensor, generator: torch.Generator) -> bool:
        """Clones or splits the ``chosen`` and removes what does not stay; returns whether there was anything to do.

        Args:
            state: Changed.
            stays: [N] bool; changed.
            chosen: Indices.
            generator: On the processor.
        """
        if not len(chosen) and stays.all():
            return False
        is_large = _sizes(state)[chosen] > self.settings.split_size * self.fit.extent
        clone_and_split(state, stays, chosen[~is_large], chosen[is_large], generator)
        return True


def _sizes(state: SplatState) -> Tensor:
    """[N] the longest axis, scene units."""
    return state.params["log_scales"].exp().amax(dim=1)


def mean_gradient(state: SplatState) -> Tensor:
    """Returns [N] mean lengths since the last ``forget_gradient``, per half image size."""
    return state.buffers[GRADIENT_SUM] / state.buffers[SEEN_COUNT].clamp_min(1)


def forget_gradient(state: SplatState) -> None:
    """Sets the sums to zero."""
    for name in (GRADIENT_SUM, SEEN_COUNT):
        state.buffers[name] = torch.zeros(len(state), device=state.device)
