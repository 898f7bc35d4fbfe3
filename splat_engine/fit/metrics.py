"""How good a picture is: PSNR and SSIM, and their means over the views of a capture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from splat_engine.fit.drawing import draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.pixel_filter import draw_through_filter
from splat_engine.fit.views import Views, ViewTensors
from splat_engine.ops import ssim

PSNR_MAX_DB = 120.0
"""What equal pictures are given, so that means stay finite."""


def psnr_db(mean_squared_error: float, data_range: float = 1.0) -> float:
    """Returns the peak signal-to-noise ratio in dB, at most 120."""
    if mean_squared_error <= 0:
        return PSNR_MAX_DB
    return min(PSNR_MAX_DB, 10.0 * math.log10(data_range**2 / mean_squared_error))


@dataclass(frozen=True)
class ViewScore:
    """How well one view is drawn: PSNR in dB and SSIM, of encoded pictures over black, cut to 0 to 1.

    ``empty`` views show nothing: they are told, but do not enter the means, which they would lift without reason.
    """

    name: str
    psnr: float
    ssim: float
    empty: bool = False


@torch.no_grad()
def compare(picture: Tensor, target: Tensor, name: str = "", backend: str = "cpu") -> ViewScore:
    """Scores an encoded [H, W, 3] picture as torchmetrics does (SSIM mirrors the border; zeros around tiny pictures)."""
    picture, target = picture.clamp(0, 1).contiguous(), target.clamp(0, 1).contiguous()
    error = (picture.double() - target.double()).square().mean().item()
    padding = "reflect" if min(picture.shape[:2]) >= 6 else "same"
    return ViewScore(name, psnr_db(error), ssim(picture, target, padding=padding, backend=backend).item())


@torch.no_grad()
def score_views(
    params: Mapping[str, Tensor],
    images: Views,
    formation: ImageFormation,
    backend: str = "cpu",
    *,
    through_filter: bool = False,
) -> Iterator[ViewScore]:
    """Yields the score of each view over black; pixels that the file had as not finite do not count.

    Splats and images lie on one device. ``through_filter``: the views went through Cycles' pixel filter, and the splats
    are drawn through it too; else as ``formation`` draws training views.
    """
    for number in range(len(images)):
        view = images[number]
        picture, target = _pictures(params, view, formation, backend, through_filter=through_filter)
        yield replace(compare(picture, target, view.camera.name, backend), empty=view.is_empty)


@torch.no_grad()
def view_psnr_db(
    params: Mapping[str, Tensor], view: ViewTensors, formation: ImageFormation, backend: str = "cpu"
) -> float:
    """Returns the PSNR of one view, as ``score_views`` would, without the time that SSIM takes."""
    picture, target = _pictures(params, view, formation, backend)
    return psnr_db((picture.clamp(0, 1) - target.clamp(0, 1)).double().square().mean().item())


def _pictures(
    params: Mapping[str, Tensor],
    view: ViewTensors,
    formation: ImageFormation,
    backend: str,
    *,
    through_filter: bool = False,
) -> tuple[Tensor, Tensor]:
    """The drawn and the true picture, [H, W, 3], encoded, over black; equal where the view does not count."""
    black = torch.zeros(3, device=params["means"].device)
    if through_filter:
        drawn = draw_through_filter(params, view.viewmat, view.camera, background=black, backend=backend)
    else:
        drawn = draw(
            params, view.viewmat, view.intrinsics, view.camera, formation, background=black, backend=backend
        )
    picture, target = formation.picture(drawn.blended), formation.picture(view.color)
    if view.valid is not None:
        picture = torch.where(view.valid[..., None], picture, target)
    return picture, target


def mean_scores(scores: list[ViewScore]) -> dict[str, float]:
    """Returns the means over the views that show something as the keys of metrics.json; no view gives no key."""
    scores = [score for score in scores if not score.empty] or scores
    if not scores:
        return {}
    return {
        "engine.psnr": sum(score.psnr for score in scores) / len(scores),
        "engine.ssim": sum(score.ssim for score in scores) / len(scores),
    }
