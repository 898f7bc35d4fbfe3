"""Reference of ``sh_colors``: spherical harmonics to colours, in plain torch.

The real basis has the signs of 3DGS (Condon-Shortley phase kept), the order (l, m) = (0,0) (1,-1) (1,0) (1,1) (2,-2) ...

Source: Kerbl et al. 2023; Sloan 2013, Efficient Spherical Harmonic Evaluation; IEC 61966-2-1 (the sRGB curve).
"""

from __future__ import annotations

import torch
from torch import Tensor

C0 = 0.28209479177387814
C1 = 0.4886025119029199
C2 = (1.0925484305920792, 0.31539156525252005, 0.5462742152960396)
C3 = (0.5900435899266435, 2.890611442640554, 0.4570457994644658, 0.3731763325901154, 1.445305721320277)
DISTANCE_MIN = 1e-12
"""A splat nearer to the camera's centre, in scene units, has no direction: only the constant coefficient counts."""


def sh_colors(
    means: Tensor, sh: Tensor, viewmat: Tensor, *, degree: int, camera_model: str, decode: bool
) -> Tensor:
    """Colours of splats; see ``splat_engine.ops.sh_colors`` for the arguments."""
    used = (degree + 1) ** 2
    basis = sh_basis(_directions(means, viewmat, camera_model == "orthographic"), degree)
    encoded: Tensor = 0.5 + (basis[:, :, None] * sh[:, :used]).sum(dim=1)
    # Not finite counts as black, without gradient, like a colour below zero.
    usable = torch.isfinite(encoded) & (encoded > 0)
    encoded = torch.where(usable, encoded, torch.zeros_like(encoded))
    colors: Tensor = linear_from_srgb(encoded) if decode else encoded
    return colors


def _directions(means: Tensor, viewmat: Tensor, orthographic: bool) -> Tensor:
    """Unit vectors from the camera to the splats, world frame, [N, 3]; zero where there is none."""
    rotation, translation = viewmat[:3, :3], viewmat[:3, 3]
    if orthographic:
        forward: Tensor = rotation[2] / rotation[2].norm()
        return forward.expand(means.shape[0], 3)
    offsets = means + rotation.T @ translation  # the camera's centre is -R^T t
    squared = offsets.detach().square().sum(dim=1, keepdim=True)
    usable = torch.isfinite(squared) & (squared > DISTANCE_MIN**2)
    safe = torch.where(usable, offsets, torch.ones_like(offsets))
    return torch.where(usable, safe / safe.norm(dim=1, keepdim=True), torch.zeros_like(safe))


def sh_basis(directions: Tensor, degree: int) -> Tensor:
    """Values of the real SH basis, [N, (degree + 1)^2], for unit directions [N, 3]."""
    x, y, z = directions.unbind(dim=1)
    xx, yy, zz = x * x, y * y, z * z
    values = [torch.full_like(x, C0)]
    if degree > 0:
        values += [-C1 * y, C1 * z, -C1 * x]
    if degree > 1:
        values += [
            C2[0] * x * y,
            -C2[0] * y * z,
            C2[1] * (2 * zz - xx - yy),
            -C2[0] * x * z,
            C2[2] * (xx - yy),
        ]
    if degree > 2:
        values += [
            -C3[0] * y * (3 * xx - yy),
            C3[1] * x * y * z,
            -C3[2] * y * (4 * zz - xx - yy),
            C3[3] * z * (2 * zz - 3 * xx - 3 * yy),
            -C3[2] * x * (4 * zz - xx - yy),
            C3[4] * z * (xx - yy),
            -C3[0] * x * (xx - 3 * yy),
        ]
    return torch.stack(values, dim=1)


def linear_from_srgb(encoded: Tensor) -> Tensor:
    """Decodes sRGB values of any shape, 0 or more, to linear light; above 1 the curve goes on."""
    low = encoded <= 0.04045
    # The power's slope is infinite nowhere on its own branch; 1 stands in for values of the other branch.
    high = torch.where(low, torch.ones_like(encoded), encoded)
    power: Tensor = ((high + 0.055) / 1.055) ** 2.4
    return torch.where(low, encoded / 12.92, power)
