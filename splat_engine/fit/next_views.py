"""Which views to render next: those that would teach a half-done fit most about what all views of the rig show.

The colour of a splat is linear in its SH coefficients, so what views say of it adds up in an information matrix: A = prior +
sum over the views of m y y^T, with m the pixels that the splat fills in a view and y the SH basis in the view's direction.
y^T A^-1 y is how uncertain its colour is, seen from there. A candidate is worth the uncertainty that it takes away, summed
over the splats and over all candidates, any of which may be looked at one day; each splat counts by the squared error that
it carries in the training views. So a view gains by what no view has seen, by directions from which nothing has been seen, by
being nearer, and by looking where the fit is wrong. Views are chosen one after another, each knowing those before it.

Source: Fedorov 1972, Theory of Optimal Experiments (the criterion is I-optimality; updates by Sherman and Morrison); Jiang et
al. 2024, "FisherRF" (the information of splats for the choice of views); the error of a splat is the sum over pixels of its
blending weight times their error, as in Rota Bulo et al. 2024, "Revising Densification in Gaussian Splatting".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from splat_engine.fit.drawing import to_screen
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.place import send
from splat_engine.fit.views import Views, camera_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.ops import RasterPass
from splat_engine.ops.reference.sh import C0, sh_basis

DEGREE = 2
"""Of the SH in which directions are told apart: at degree 2 two views 40 degrees apart are nearly strangers."""
PRIOR_SHARE = 0.5
"""Weight of the prior, as a share of the pixels that a view usually has of a splat."""
MOST_SPLATS = 20000
"""Of more splats a random choice is looked at: 100 candidates then take some 200 MB and a second."""
_SEEN_PX = 0.01


class Look(NamedTuple):
    """What a view sees of the splats.

    Attributes:
        basis: [N, K] the SH basis in the view's direction, its constant 1.
        pixels: [N] that each splat fills: the sum of its blending weights.
        error: [N] sum of weight times the mean squared error of the encoded colours; 0 without a target.
    """

    basis: Tensor
    pixels: Tensor
    error: Tensor


@torch.no_grad()
def look_at_splats(
    params: Mapping[str, Tensor],
    camera: Camera,
    formation: ImageFormation,
    *,
    target: Tensor | None = None,
    degree: int = DEGREE,
    backend: str = "cpu",
) -> Look:
    """Returns what a camera sees of splats; one drawing and one backward pass.

    Args:
        params: means, log_scales, quats_wxyz, opacity_logits, sh, as in ``Splats``; N may be 0.
        camera: The view's.
        formation: The image formation.
        target: [H, W, 3] what the view should show, in the blending space over black; None for a candidate.
        degree: Of the SH basis, 0 to 3.
        backend: "cpu", "cuda" or "reference".
    """
    means = params["means"]
    viewmat, intrinsics = (send(values, means.device) for values in camera_tensors(camera))
    projected, colors = to_screen(params, viewmat, intrinsics, camera, formation, backend=backend)
    drawn = RasterPass(
        projected.means2d,
        projected.conics,
        projected.opacities,
        colors,
        projected.depths,
        camera.width,
        camera.height,
        backend=backend,
    )
    # The gradient of what is blended is the sum of weight times cotangent: one channel sums pixels, another their error.
    cotangent = torch.zeros_like(drawn.image)
    cotangent[..., 0] = 1
    if target is not None:
        difference = formation.picture(drawn.image) - formation.picture(target)
        cotangent[..., 1] = difference.square().mean(dim=-1)
    sums = drawn.backward(cotangent, None)[3]
    return Look(sh_basis(_directions(means, camera), degree) / C0, sums[:, 0], sums[:, 1])


def _directions(means: Tensor, camera: Camera) -> Tensor:
    """[N, 3] unit vectors from the camera to the means; the axis of view for an orthographic camera."""
    if camera.model == "orthographic":
        return means.new_tensor(camera.forward).expand_as(means)
    return normalize(means - means.new_tensor(camera.position), dim=1)


@torch.no_grad()
def choose_views(
    params: Mapping[str, Tensor],
    images: Views,
    candidates: Sequence[Camera],
    count: int,
    formation: ImageFormation,
    *,
    seed: int = 0,
    backend: str = "cpu",
) -> list[int]:
    """Chooses the candidates to render next.

    Args:
        params: Splats of a fit to the training views, short as it may be.
        images: The training views; never held-out ones.
        candidates: Where a view could be.
        count: How many are wanted.
        formation: The image formation.
        seed: Of the choice among very many splats.
        backend: "cpu", "cuda" or "reference".

    Returns:
        Numbers of the chosen candidates, best first; fewer than ``count`` where the others see none of the splats.
    """
    chosen = _some_splats(params, seed)
    taught = _stacked(
        [
            look_at_splats(params, view.camera, formation, target=view.color, backend=backend)
            for view in (images[number] for number in range(len(images)))
        ],
        chosen,
    )
    offered = _stacked(
        [look_at_splats(params, camera, formation, backend=backend) for camera in candidates], chosen
    )
    return _greedy(taught, offered, count)


def _some_splats(params: Mapping[str, Tensor], seed: int) -> Tensor:
    total = len(params["means"])
    order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    return order[:MOST_SPLATS].sort().values.to(params["means"].device)


def _stacked(looks: Sequence[Look], chosen: Tensor) -> Look:
    """Puts [V] looks at the chosen splats behind each other: [V, N, K], [V, N], [V, N]."""
    return Look(*(torch.stack([values[chosen] for values in parts]) for parts in zip(*looks, strict=True)))


def _greedy(taught: Look, offered: Look, count: int) -> list[int]:
    """Takes the best of the offered looks, again and again; see the head of the file."""
    seen = taught.pixels[taught.pixels > _SEEN_PX]
    if not seen.numel():
        return []
    prior = PRIOR_SHARE * float(seen.median())
    weight = _errors(taught, prior)
    known = _information(taught) + prior * torch.eye(taught.basis.shape[2], device=seen.device)
    uncertain, asked = torch.linalg.inv(known), _information(offered)
    left = offered.pixels.sum(dim=1) > 0
    picks: list[int] = []
    while len(picks) < count and bool(left.any()):
        spread = torch.einsum("nkl,vnl->vnk", uncertain, offered.basis)
        doubt = 1 + offered.pixels * (spread * offered.basis).sum(dim=2)
        answered = torch.einsum("vnk,nkl,vnl->vn", spread, asked, spread)
        gain = (weight * offered.pixels * answered / doubt).sum(dim=1)
        best = int(torch.where(left, gain, -1.0).argmax())
        picks.append(best)
        left[best] = False
        share = (offered.pixels[best] / doubt[best])[:, None, None]
        uncertain = uncertain - share * spread[best][:, :, None] * spread[best][:, None, :]
    return picks


def _information(looks: Look) -> Tensor:
    """[N, K, K] the sum over views of pixels times basis times basis."""
    return torch.einsum("vn,vnk,vnl->nkl", looks.pixels, looks.basis, looks.basis)


def _errors(looks: Look, prior: float) -> Tensor:
    """[N] mean squared error of each splat's pixels; of what is hardly seen, the error of all."""
    usual = looks.error.sum() / looks.pixels.sum()
    return (looks.error.sum(dim=0) + prior * usual) / (looks.pixels.sum(dim=0) + prior)
