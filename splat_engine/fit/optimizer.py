"""Adam with a learning rate for each parameter group, and the schedule of the positions.

Source: Kerbl et al. 2023; Kingma and Ba 2015.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.formats.settings import OptimizerSettings
from splat_engine.ops import adam_step


def exponential(first: float, last: float, share: float) -> float:
    """Returns the value at ``share`` (0 to 1) of a geometric run from ``first`` to ``last``; linear if either is 0."""
    if first <= 0 or last <= 0:
        return first + (last - first) * share
    return float(first * (last / first) ** share)


class Adam:
    """Updates a ``SplatState`` in place.

    The constant SH coefficient has a rate of its own. It is optimised as the group ``sh_dc`` with its own moments, and
    then written over what the common step made of it: a little work twice, no second copy of the update's formula.

    Args:
        settings: The rates; those of the means are multiplied by ``extent``.
        extent: The scene's, scene units.
        steps: Length of the position schedule.
        backend: "cpu" or "reference".
    """

    def __init__(
        self, settings: OptimizerSettings, *, extent: float, steps: int, backend: str = "cpu"
    ) -> None:
        self.settings = settings
        self.extent = extent
        self.steps = steps
        self.backend = backend

    def rates(self, step: int) -> dict[str, float]:
        """Returns the learning rate of each group at a step, counted from 1."""
        share = min(1.0, (step - 1) / max(1, self.steps - 1))
        settings = self.settings
        fading = exponential(1.0, settings.final_share, share)
        return {
            "means": exponential(settings.means, settings.means_final, share) * self.extent,
            "log_scales": settings.log_scales * fading,
            "quats_wxyz": settings.quats * fading,
            "opacity_logits": settings.opacity_logits * fading,
            "sh_dc": settings.sh_dc * fading,
            "sh": settings.sh_rest * fading,
        }

    @torch.no_grad()
    def step(self, state: SplatState, gradients: Mapping[str, Tensor], step: int) -> None:
        """Makes one update.

        Args:
            state: Parameters and moments, changed in place.
            gradients: Group name to the parameter's gradient.
            step: Number of this update, from 1, for Adam's bias correction.
        """
        rates = self.rates(step)
        for name in ("means", "log_scales", "quats_wxyz", "opacity_logits"):
            self._update(state, name, state.params[name].detach(), gradients[name], rates[name], step)
        sh, gradient = state.params["sh"].detach(), gradients["sh"]
        constant = sh[:, 0].contiguous()
        self._update(state, "sh_dc", constant, gradient[:, 0].contiguous(), rates["sh_dc"], step)
        if sh.shape[1] > 1:
            self._update(state, "sh", sh, gradient, rates["sh"], step)
        sh[:, 0] = constant

    def _update(
        self, state: SplatState, name: str, values: Tensor, gradient: Tensor, rate: float, step: int
    ) -> None:
        first, second = state.add_moments(name, values)
        adam_step(values, gradient.contiguous(), first, second, lr=rate, step=step, backend=self.backend)
