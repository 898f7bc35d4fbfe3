"""Splats as a Markov chain: the weak are moved to the strong, and noise explores."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.fit.model import SplatState
from splat_engine.fit.place import send
from splat_engine.fit.strategies.base import Scheduled
from splat_engine.fit.strategies.children import draw_by_weight, rotate
from splat_engine.ops import relocate

GATE_SHARPNESS, GATE_OPACITY = 100.0, 0.005
"""Noise fades as a splat's opacity rises above some hundredths: what is seen stays where it is (Kheradmand et al. 2024,
equation 8, with t = 0.995 for 1 - opacity)."""


class MarkovChain(Scheduled):
    """Moves transparent splats onto others, drawn by opacity, grows to the most splats by copies, and after every step adds
    noise in the shape of each splat. The picture stays as it was: copies share the opacity of what they copy.

    Args:
        settings: When and how.
        fit: The fit around it.

    Source: Kheradmand et al. 2024, 3D Gaussian Splatting as Markov Chain Monte Carlo. Its growth of 5 % at a time would
    not come to the end of its way in a few thousand steps: the number follows ``Moments.due``. Its losses on opacity and
    scale are decays here, as in Brush: Adam would make steps of full size of even the smallest loss.
    """

    @torch.no_grad()
    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Adds noise, and moves and adds splats when it is time; see ``Strategy``."""
        if self.moments.is_over(step) or not len(state):
            return False
        changed = self.moments.is_now(step) and self._move(step, state, generator)
        self._explore(step, state, generator)
        return changed

    def _move(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        opacities = torch.sigmoid(state.params["opacity_logits"])
        is_alive = opacities > self.settings.prune_opacity
        alive = is_alive.nonzero()[:, 0]
        added = max(0, self.moments.due(step, len(state)) - len(state))
        copies = len(state) - len(alive) + added
        if not copies or not len(alive):
            return False
        sources = alive[draw_by_weight(opacities[alive], copies, generator)]
        counts = torch.bincount(sources, minlength=len(state)) + 1
        is_alive &= counts == 1
        # Who is copied begins anew as well: it is smaller and weaker than what its moments were made with.
        parents = torch.cat((alive[counts[alive] > 1], sources))
        scales = state.params["log_scales"][parents].exp()
        shared, shrunk = relocate(opacities[parents], scales, counts[parents], backend=self.fit.backend)
        shared = shared.clamp_min(self.settings.prune_opacity)
        changed = {"opacity_logits": torch.logit(shared), "log_scales": shrunk.log()}
        state.rearrange(is_alive.nonzero()[:, 0], parents, changed)
        return True

    def _explore(self, step: int, state: SplatState, generator: torch.Generator) -> None:
        """Noise of the covariance's shape, times the rate of the means; and the decay of opacities and scales."""
        rates, settings, params = self.fit.rates(step), self.settings, state.params
        opacities = torch.sigmoid(params["opacity_logits"])
        if settings.noise > 0:
            gate = torch.sigmoid(GATE_SHARPNESS * (GATE_OPACITY - opacities))
            normal = send(torch.randn((len(state), 3), generator=generator), state.device)
            variances = (2.0 * params["log_scales"]).exp()
            shaped = rotate(params["quats_wxyz"], variances * rotate(conjugate(params["quats_wxyz"]), normal))
            params["means"].add_(shaped * (gate * (settings.noise * rates["means"]))[:, None])
        # d opacity / d logit, so that what is decayed is the opacity and not its logit.
        params["opacity_logits"].sub_(
            opacities * (1 - opacities) * (settings.opacity_decay * rates["opacity_logits"])
        )
        params["log_scales"].sub_(settings.scale_decay * rates["log_scales"])


def conjugate(quats_wxyz: Tensor) -> Tensor:
    """Returns the inverse rotations of [N, 4] quaternions."""
    return torch.cat((quats_wxyz[:, :1], -quats_wxyz[:, 1:]), dim=1)
