"""Which views to render next: those that a half-done fit draws most wrongly, and that do not show the same.

What a candidate shows is known from a probe, a small and noisy render of it: unlike a photographer, a renderer can look before
it decides. Probe and drawing are compared in blocks of pixels, which evens the noise out and leaves holes, wrong colours and
missing parts. After a choice, candidates near it count less, since a view there mends their error too.

Measured against choosing by what the splats say of themselves (Fisher information of their colours, as in Jiang et al. 2024,
"FisherRF", weighted with their error): docs/views.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.pictures import draw_view
from splat_engine.fit.views import Views, ViewTensors
from splat_engine.formats.conventions import Float

BLOCK_PX = 4
"""Side of the blocks that are compared."""
NEAR_SHARE = 0.5
"""Reach of a chosen view over its neighbours, as a share of the candidates' mean distance from their centre."""


@torch.no_grad()
def choose_views(
    params: Mapping[str, Tensor],
    probes: Views,
    count: int,
    formation: ImageFormation,
    backend: str = "cpu",
) -> list[int]:
    """Chooses the candidates to render next.

    Args:
        params: Splats of a fit, short as it may be: means, log_scales, quats_wxyz, opacity_logits, sh.
        probes: A small render of each candidate. Never a held-out view.
        count: How many are wanted.
        formation: The image formation.
        backend: "cpu", "cuda" or "reference".

    Returns:
        Numbers of the chosen candidates, best first; fewer than ``count`` where the others are drawn without any error.
    """
    errors = [_error(params, probes[number], formation, backend) for number in range(len(probes))]
    positions = np.array([camera.position for camera in probes.cameras]).reshape(-1, 3)
    return _greedy(np.array(errors), positions, count)


def _error(
    params: Mapping[str, Tensor], probe: ViewTensors, formation: ImageFormation, backend: str
) -> float:
    """Returns the mean squared error of the encoded colours over black, in blocks."""
    drawn = draw_view(params, probe.camera, formation, backend=backend)
    difference = formation.picture(_blocks(drawn.blended)) - formation.picture(_blocks(probe.color))
    return difference.square().mean().item()


def _blocks(values: Tensor) -> Tensor:
    """[H, W, C] to the means of blocks; what is left over at the border joins smaller ones."""
    planes = values.permute(2, 0, 1)[None]
    return avg_pool2d(planes, BLOCK_PX, ceil_mode=True, count_include_pad=False)[0].permute(1, 2, 0)


def _greedy(errors: Float, positions: Float, count: int) -> list[int]:
    """Takes the worst, again and again, each time lowering what lies near it; errors [V], positions [V, 3]."""
    weights = errors.copy()
    reach = (
        NEAR_SHARE * np.linalg.norm(positions - positions.mean(axis=0), axis=1).mean() if len(errors) else 0
    )
    chosen: list[int] = []
    while len(chosen) < count and (weights > 0).any():
        best = int(weights.argmax())
        chosen.append(best)
        distance = np.linalg.norm(positions - positions[best], axis=1)
        weights *= 1 - np.exp(-np.square(distance / max(reach, 1e-12)))
        weights[best] = 0
    return chosen
