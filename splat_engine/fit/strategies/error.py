"""Growth by error: where a training view is wrong and its depth is known, a splat is put there."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.place import send
from splat_engine.fit.strategies.base import Scheduled
from splat_engine.fit.strategies.budget import chosen_views
from splat_engine.fit.strategies.children import draw_by_weight
from splat_engine.fit.strategies.pixels import judge
from splat_engine.fit.views import ViewTensors
from splat_engine.formats.conventions import SH_C0

OPAQUE_ALPHA = 0.9
"""From here on the drawn depth is that of a surface."""
ALPHA_FLOOR = 1e-3
"""A pixel with less has no colour."""
NEW_OPACITY = 0.3
"""Of a new splat: 5000 to 15000 splats on a capture of fine texture: 0.8 gives 31.3 dB, 0.5 31.7, 0.3 some 0.1 more."""
NEIGHBOURS = 3
NEIGHBOUR_SHARE = 0.5
"""A new splat's size, as a share of the distance to its nearest neighbours."""
SIZE_PX = (0.7, 6.0)
"""Least and largest size of a new splat in the view that it came from, px."""


class ErrorGrowth(Scheduled):
    """Puts new splats at pixels of training views drawn by their error, at the view's depth there, with the view's colour;
    the number follows a curve to the most splats. Transparent ones go.

    Args:
        settings: When and how.
        fit: The fit around it. Where a view has no depth pass, the depth drawn by the splats stands in where they are
            opaque.
    """

    @torch.no_grad()
    def after_step(self, step: int, state: SplatState, generator: torch.Generator) -> bool:
        """Prunes and grows when it is time; see ``Strategy``."""
        if not self.moments.is_now(step):
            return False
        stays = torch.sigmoid(state.params["opacity_logits"]) >= self.settings.prune_opacity
        kept = stays.nonzero()[:, 0]
        added = max(0, self.moments.due(step, len(kept)) - len(kept))
        found = self._wrong_places(state, added, generator) if added else None
        if found is None and len(kept) == len(state):
            return False
        self._put(state, kept, found)
        return True

    def _wrong_places(self, state: SplatState, count: int, generator: torch.Generator) -> Tensor | None:
        """[A, 7] of at most ``count`` new splats: place in the world, size of a pixel there, encoded colour."""
        places, errors = [], []
        for number in chosen_views(len(self.fit.images), self.settings.looks, generator):
            view = self.fit.images[number]
            judged = judge(state, view, self.fit.formation, self.fit.backend)
            drawn = torch.where(judged.alpha >= OPAQUE_ALPHA, judged.depth, 0.0)
            depth = drawn if view.depth is None else view.depth
            is_known = (depth > view.camera.near) & (view.alpha > ALPHA_FLOOR)
            errors.append((judged.errors * is_known).flatten())
            places.append(_places(view, depth, self.fit.formation))
        if not places:
            return None
        error = torch.cat(errors)
        chosen = torch.unique(draw_by_weight(error, count, generator))
        chosen = chosen[error[chosen] > 0]
        return torch.cat(places)[chosen] if len(chosen) else None

    @staticmethod
    def _put(state: SplatState, kept: Tensor, found: Tensor | None) -> None:
        if found is None:
            state.rearrange(kept, kept[:0], {})
            return
        means = found[:, :3].contiguous()
        distance, nearest = _neighbours(means, state.params["means"])
        pixel = found[:, 3]
        sizes = torch.clamp(NEIGHBOUR_SHARE * distance, SIZE_PX[0] * pixel, SIZE_PX[1] * pixel)
        sh = means.new_zeros(len(means), *state.params["sh"].shape[1:])
        sh[:, 0] = (found[:, 4:] - 0.5) / SH_C0
        rows = {
            "means": means,
            "log_scales": sizes.log()[:, None].repeat(1, 3),
            "quats_wxyz": send(torch.tensor([1.0, 0, 0, 0]), means.device).repeat(len(means), 1),
            "opacity_logits": torch.full_like(pixel, math.log(NEW_OPACITY / (1 - NEW_OPACITY))),
            "sh": sh,
        }
        if len(state):
            state.rearrange(kept, nearest, rows)
        else:
            state.begin(rows)


def _places(view: ViewTensors, depth: Tensor, formation: ImageFormation) -> Tensor:
    """[H * W, 7] of each pixel's centre: place in the world at a depth [H, W], size of the pixel there, encoded colour."""
    camera = view.camera
    fx, fy, cx, cy = view.intrinsics
    columns = torch.arange(camera.width, device=depth.device) + 0.5
    rows = torch.arange(camera.height, device=depth.device) + 0.5
    spread = torch.ones_like(depth) if camera.model == "orthographic" else depth
    x, y = (columns - cx)[None, :] / fx * spread, (rows - cy)[:, None] / fy * spread
    seen = torch.stack((x, y, depth), dim=-1).reshape(-1, 3) - view.viewmat[:3, 3]
    straight = view.color / view.alpha.clamp_min(ALPHA_FLOOR)[..., None]
    color = formation.picture(straight).reshape(-1, 3)
    pixel = (spread / fx.abs()).reshape(-1, 1)
    return torch.cat((seen @ view.viewmat[:3, :3], pixel, color), dim=1)


def _neighbours(means: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Root mean square distance [A] of new places [A, 3] to the nearest places of both kinds, and the nearest of ``others``
    [N, 3]: index 0 where there are none."""
    from scipy.spatial import cKDTree  # a third of a second: not at the top

    points, there = means.cpu().numpy(), others.cpu().numpy()
    usable = np.isfinite(there).all(axis=1)
    everything = np.concatenate((points, there[usable]))
    count = min(NEIGHBOURS + 1, len(everything))
    distance = cKDTree(everything).query(points, k=[*range(2, count + 1)] or [1])[0]
    nearest = np.zeros(len(points), np.int64)
    if usable.any():
        nearest = usable.nonzero()[0][cKDTree(there[usable]).query(points)[1]]
    rms = np.sqrt(np.square(distance).mean(axis=1)).astype(np.float32)
    return send(torch.from_numpy(rms), means.device), send(torch.from_numpy(nearest), means.device)
