"""Keeps splats such as Blender draws well, whatever the strategy.

Cycles bounds each splat by a sphere of its longest axis, so needles and giants are slow; it cuts directional coefficients
of colours at 1; EEVEE quantises everything over the object's own range, so a stray costs all others precision (FACTS.md
section 2). Limits are kept during the fit, so that the splats learn to live with them; what no training view sees goes
at the end (it costs a drawing of every view, and is 1 to 2 % of the splats: none the faster for going earlier).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.base import Surroundings
from splat_engine.fit.strategies.pixels import seen_area
from splat_engine.formats.settings import TidySettings

LIMIT_INTERVAL = 10
"""Steps between two looks at the limits."""
VIEWS_MIN, VIEWS_SHARE = 64, 0.1
"""All training views are asked what they see, or an even choice where that would last longer than this share of the steps."""
STRAY_SHARE = 0.001
"""Share of the splats at either end of an axis that do not count for the size of all the others."""


class Tidy:
    """Applies the limits and removes what is not seen.

    Args:
        settings: The limits.
        fit: The fit around it.
    """

    def __init__(self, settings: TidySettings, fit: Surroundings) -> None:
        self.settings = settings
        self.fit = fit

    @torch.no_grad()
    def after_step(self, step: int, state: SplatState, *, is_last: bool) -> bool:
        """Does what is due after a step, from 1, and after the fit's last; returns whether splats went."""
        if not len(state):
            return False
        if step % LIMIT_INTERVAL == 0 or is_last:
            limit_shapes(
                state.params["log_scales"], self.settings.aspect, self.settings.largest * self.fit.extent
            )
            if self.settings.sh_limit > 0:
                state.params["sh"][:, 1:].clamp_(-self.settings.sh_limit, self.settings.sh_limit)
        return is_last and self._prune(state)

    def _prune(self, state: SplatState) -> bool:
        gone = torch.zeros(len(state), dtype=torch.bool, device=state.device)
        if self.settings.unseen_px > 0:
            gone |= self._area(state) < self.settings.unseen_px
        if self.settings.stray > 0:
            gone |= strays(state.params["means"], self.settings.stray)
        if not gone.any() or gone.all():  # where nothing is seen, the fit's own warning says so
            return False
        kept = (~gone).nonzero()[:, 0]
        state.rearrange(kept, kept[:0], {})
        return True

    def _area(self, state: SplatState) -> Tensor:
        """[N] the largest area that a splat covers in a training view, px."""
        area = torch.zeros(len(state), device=state.device)
        count = len(self.fit.images)
        most = max(VIEWS_MIN, int(VIEWS_SHARE * self.fit.steps))
        for number in range(0, count, math.ceil(count / most)):
            seen = seen_area(state, self.fit.images[number], self.fit.formation, self.fit.backend)
            area = torch.maximum(area, seen)
        return area


@torch.no_grad()
def limit_shapes(log_scales: Tensor, aspect: float, largest: float) -> None:
    """Shortens axes that are too long.

    Args:
        log_scales: [N, 3], changed in place.
        aspect: The longest axis may be this many times the middle one; discs may be as flat as they like. 0: no limit.
        largest: Scene units; 0: no limit.
    """
    if largest > 0:
        log_scales.clamp_max_(math.log(largest))
    if aspect > 0:
        high, low = log_scales.amax(dim=1), log_scales.amin(dim=1)
        middle = log_scales.sum(dim=1) - high - low
        log_scales.copy_(torch.minimum(log_scales, (middle + math.log(max(1.0, aspect)))[:, None]))


def strays(means: Tensor, factor: float) -> Tensor:
    """Returns [N] bool: which of the means [N, 3] lie ``factor`` times farther out than all others, on any axis.

    The others are what is left without the outermost thousandth at either end of the axis. Fewer than 3: none is a stray.
    """
    count = len(means)
    if count < 3:
        return torch.zeros(count, dtype=torch.bool, device=means.device)
    ordered = torch.sort(means, dim=0).values
    outer = max(1, round(STRAY_SHARE * count))
    low, high = ordered[outer], ordered[count - 1 - outer]
    reach = factor * (high - low).amax()
    return ((means < low - reach) | (means > high + reach) | ~torch.isfinite(means)).any(dim=1)
