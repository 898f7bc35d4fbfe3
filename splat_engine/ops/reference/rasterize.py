"""Rasterization in plain torch: the readable statement of the op, differentiated by autograd.

Each splat is blended over the whole image, from front to back, so the cost is N x pixels: for small scenes only.
Front to back is by the depths of the centres, or in each pixel by the depths there.

Source: Kerbl et al. 2023, section 4; the numeric contract is DESIGN.md, "Conventions".
"""

from __future__ import annotations

import torch
from torch import Tensor

ALPHA_MAX = 0.99
ALPHA_MIN = 1.0 / 255.0
TRANSMITTANCE_STOP = 1e-4


def drawable(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    features: Tensor,
    depths: Tensor,
    depth_slopes: Tensor | None = None,
) -> Tensor:
    """Which splats take part: finite, with a positive definite conic and an opacity that can reach ALPHA_MIN.

    Returns:
        [N] bool.
    """
    a, b, c = conics.double().unbind(-1)  # the determinant cancels for needles
    numbers = [means2d, conics, features, opacities[:, None], depths[:, None]]
    if depth_slopes is not None:
        numbers.append(depth_slopes)
    finite = torch.isfinite(torch.cat(numbers, dim=1)).all(dim=1)
    return finite & (a > 0) & (a * c - b * b > 0) & (opacities >= ALPHA_MIN)


def rasterize(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    features: Tensor,
    depths: Tensor,
    width: int,
    height: int,
    background: Tensor | None = None,
    depth_slopes: Tensor | None = None,
    shifts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Blend splats from front to back; see ``splat_engine.ops.rasterize.rasterize`` for the other arguments.

    Args:
        depth_slopes: [N, 2] or None.
        shifts: [N, height, width, 2] px that a splat's centre is moved by for one pixel, or None. A pixel's share of a
            centre's gradient is the gradient of its shift.
    """
    kept = drawable(means2d, conics, opacities, features, depths, depth_slopes).nonzero()[:, 0]
    order = kept[torch.argsort(depths[kept], stable=True)]
    pixel_x = torch.arange(width, dtype=means2d.dtype, device=means2d.device) + 0.5
    pixel_y = (torch.arange(height, dtype=means2d.dtype, device=means2d.device) + 0.5)[:, None]
    # Zero, but tied to the inputs, so that they have (zero) gradients when no splat is drawn.
    nothing = sum(tensor[kept].sum() * 0 for tensor in (means2d, conics, opacities, features))
    image = means2d.new_zeros(height, width, features.shape[1]) + nothing
    transmittance = means2d.new_ones(height, width)
    ended = torch.zeros_like(transmittance, dtype=torch.bool)
    alphas, pixel_depths = [], []
    for splat in order.tolist():
        dx = pixel_x - means2d[splat, 0]
        dy = pixel_y - means2d[splat, 1]
        if depth_slopes is not None:
            slope_x, slope_y = depth_slopes[splat]
            pixel_depths.append((depths[splat] + slope_x * dx + slope_y * dy).detach())
        if shifts is not None:
            dx, dy = dx - shifts[splat, ..., 0], dy - shifts[splat, ..., 1]
        a, b, c = conics[splat]
        exponent = -0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy
        # clamp, not minimum: its gradient is 0 above the limit
        alpha = (opacities[splat] * torch.exp(exponent)).clamp(max=ALPHA_MAX)
        alphas.append(torch.where(alpha >= ALPHA_MIN, alpha, torch.zeros_like(alpha)))
    # Places in `order` of each pixel's splats, from front to back; equal depths stay as they are.
    places = torch.stack(pixel_depths).argsort(dim=0, stable=True) if pixel_depths else None
    drawn = torch.stack(alphas) if alphas else means2d.new_empty(0, height, width)
    for rank, splat in enumerate(order.tolist()):
        alpha, feature = drawn[rank], features[splat]
        if places is not None:
            alpha = drawn.gather(0, places[rank : rank + 1])[0]
            feature = features[order[places[rank]]]
        ended = ended | (transmittance * (1 - alpha) <= TRANSMITTANCE_STOP)
        alpha = torch.where(ended, torch.zeros_like(alpha), alpha)
        image = image + (alpha * transmittance)[..., None] * feature
        transmittance = transmittance * (1 - alpha)
    if background is not None:
        image = image + transmittance[..., None] * background
    return image, 1 - transmittance


def gradients(
    inputs: list[Tensor],
    depths: Tensor,
    background: Tensor | None,
    v_image: Tensor,
    v_alpha: Tensor | None,
    *,
    absolute: bool,
    depth_slopes: Tensor | None = None,
) -> list[Tensor]:
    """Gradients of means2d, conics, opacities and features; then, if asked for, the sums over pixels of |dL/dmeans2d|.

    Args:
        inputs: means2d, conics, opacities, features.
        depths: [N].
        background: [C] or None.
        v_image: [height, width, C] dL/dimage.
        v_alpha: [height, width] dL/dalpha, or None for zero.
        absolute: whether to make the absolute sums, at the cost of N x pixels x 2 numbers.
        depth_slopes: [N, 2] or None.

    Source: Ye et al. 2024, "AbsGS": the absolute value is taken of each component of each pixel's share.
    """
    height, width = v_image.shape[:2]
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        if absolute:
            leaves.append(depths.new_zeros(len(depths), height, width, 2).requires_grad_())
        means2d, conics, opacities, features = leaves[:4]
        shifts = leaves[4] if absolute else None
        image, alpha = rasterize(
            means2d, conics, opacities, features, depths, width, height, background, depth_slopes, shifts
        )
        loss = (image * v_image).sum()
        if v_alpha is not None:
            loss = loss + (alpha * v_alpha).sum()
        found = list(torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True))
    if absolute:
        found[4] = found[4].abs().sum((1, 2))
    return found
