"""A budget: the number of splats follows a curve, and a score says where they come and where they go."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.strategies.children import highest
from splat_engine.fit.strategies.gradient import GRADIENT_SUM, GradientGrowth, forget_gradient, mean_gradient
from splat_engine.fit.strategies.pixels import judge, shares


class Budget(GradientGrowth):
    """Brings the number of splats to the most splats along a curve, up or down: what is scored highest is cloned or split,
    what has the least share in the pictures goes.

    The score is the product of the mean absolute gradient on the screen and of the square root of the error that the splat
    drew in some training views.

    Args:
        settings: When and how.
        fit: The fit around it.

    Source: Mallick et al. 2024, Taming 3DGS, section 4: the curve, and scores of gradients, shares and errors.
    """

    absolute = True

    @torch.no_grad()
    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Brings the number of splats to the curve; see ``Strategy``."""
        if not self.moments.is_now(step) or GRADIENT_SUM not in state.buffers or not len(state):
            return False
        changed = self._follow(step, state, generator)
        forget_gradient(state)
        return changed

    def _follow(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        due = self.moments.due(step, len(state))
        share, error = self._looked_at(state, generator)
        stays = ~self.hopeless(state)
        score = (mean_gradient(state) * error.sqrt()).masked_fill_(~stays, 0.0)
        spare = int(stays.sum()) - due
        if spare > 0:
            value = share.masked_fill(~stays, -1.0)
            stays &= torch.sort(torch.sort(value, descending=True, stable=True).indices).indices < due
        return self.grow(state, stays, highest(score, 0.0, max(0, -spare)), generator)

    def _looked_at(self, state: SplatState, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """[N] share in some training views, px, and error drawn in them."""
        share, error = (
            torch.zeros(len(state), device=state.device),
            torch.zeros(len(state), device=state.device),
        )
        for number in chosen_views(len(self.fit.images), self.settings.looks, generator):
            view = self.fit.images[number]
            judged = judge(state, view, self.fit.formation, self.fit.backend)
            share += shares(judged.screen, torch.ones_like(judged.errors), self.fit.backend)
            error += shares(judged.screen, judged.errors, self.fit.backend)
        return share, error


def chosen_views(count: int, most: int, generator: torch.Generator) -> list[int]:
    """Draws at most ``most`` of ``count`` views without replacement."""
    numbers: list[int] = torch.randperm(count, generator=generator)[:most].tolist()
    return numbers
