"""Reference of ``project``: 3D Gaussians to 2D screen Gaussians, in plain torch.

Symbols, as in csrc/include/projection.h: ``W`` the rotation of ``viewmat``, ``J`` the Jacobian of the projection at
the splat's centre, ``R S`` rotation and scales of the splat. The covariance on the screen is ``A A^T`` with
``A = J W R S`` (2 x 3), plus the dilation on its diagonal.

Source: Zwicker et al. 2001, EWA Volume Splatting, eq. 24 to 26; Kerbl et al. 2023, 3D Gaussian Splatting, eq. 5 and 6;
Yu et al. 2024, Mip-Splatting, eq. 9 (the opacity's compensation).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

ALPHA_MIN = 1.0 / 255.0
FRUSTUM_MARGIN = 0.15
"""The Jacobian is taken at most this fraction of the image's size outside the image: 1.3 half fields of view."""
QUATERNION_NORM_MIN = 1e-12
DETERMINANT_MIN_PX4 = 1e-16
"""A standard deviation of 1e-4 px in both directions: nothing that pixels could sample."""
CONDITION_MIN = 1e-6
"""Least determinant over the square of half the trace: a needle 1000 times as long as wide. Thinner ones have a conic
that float32 cannot hold positive definite."""
COMPENSATION_MIN = 1e-12
"""Guards the square root. Never reached by a visible splat: its opacity would be 1e-6."""

SLOPE_VARIANCE_PX2 = 1e-4
"""Variance on the screen that bounds how steeply a splat's depth grows across it."""


class Projected(NamedTuple):
    """Splats on the screen. A culled splat has radii 0, opacity 0 and zeros elsewhere.

    Attributes:
        means2d: [N, 2] centres, px.
        depths: [N] depth along the camera's z axis, scene units.
        conics: [N, 3] (a, b, c) of the inverse covariance [[a, b], [b, c]], px^-2.
        opacities: [N] in 0 to 1, antialiasing compensation included.
        normals: [N, 3] unit normals in the world frame towards the camera, or None where not asked for.
        radii: [N, 2] half width and height of the box outside which alpha is below 1/255, px; no gradient.
        depth_slopes: [N, 2] how the depth of greatest density grows across the screen, scene units per px, or None where not
            asked for; no gradient.
    """

    means2d: Tensor
    depths: Tensor
    conics: Tensor
    opacities: Tensor
    normals: Tensor | None
    radii: Tensor
    depth_slopes: Tensor | None = None


def project(
    means: Tensor,
    log_scales: Tensor,
    quats_wxyz: Tensor,
    opacity_logits: Tensor,
    viewmat: Tensor,
    intrinsics: Tensor,
    width: int,
    height: int,
    *,
    camera_model: str,
    dilation_px2: float,
    antialiased: bool,
    near: float,
    with_normals: bool,
    with_depth_slopes: bool = False,
) -> Projected:
    """Projects splats; see ``splat_engine.ops.project`` for the arguments.

    The visible splats are found first, without gradients; only their rows are computed a second time with gradients.
    So no infinity of a culled splat ever meets a zero in a backward pass.
    """

    def rows(index: Tensor) -> Projected:
        return _project_rows(
            means[index],
            log_scales[index],
            quats_wxyz[index],
            opacity_logits[index],
            viewmat,
            intrinsics,
            width,
            height,
            orthographic=camera_model == "orthographic",
            dilation_px2=dilation_px2,
            antialiased=antialiased,
        )

    count = means.shape[0]
    with torch.no_grad():
        everything = rows(torch.arange(count))
        finite = torch.isfinite(
            torch.cat((means, log_scales, quats_wxyz, opacity_logits[:, None]), dim=1)
        ).all(dim=1)
        squared_norms = quats_wxyz.square().sum(dim=1)
        visible = finite & torch.isfinite(squared_norms) & (squared_norms > QUATERNION_NORM_MIN**2)
        visible &= _on_screen(everything, width, height, near)
        index = visible.nonzero()[:, 0]
    kept = rows(index)

    def scatter(values: Tensor) -> Tensor:
        return values.new_zeros((count, *values.shape[1:])).index_copy(0, index, values)

    assert kept.normals is not None and kept.depth_slopes is not None
    return Projected(
        means2d=scatter(kept.means2d),
        depths=scatter(kept.depths),
        conics=scatter(kept.conics),
        opacities=scatter(kept.opacities),
        normals=scatter(kept.normals) if with_normals else None,
        radii=scatter(kept.radii.detach()),
        depth_slopes=scatter(kept.depth_slopes) if with_depth_slopes else None,
    )


def _on_screen(splats: Projected, width: int, height: int, near: float) -> Tensor:
    """Tells which splats draw anything: [N] bool."""
    size = splats.means2d.new_tensor((width, height))
    finite = torch.isfinite(torch.cat((splats.means2d, splats.conics, splats.radii), dim=1)).all(dim=1)
    finite &= torch.isfinite(splats.depths) & torch.isfinite(splats.opacities)
    regular = splats.conics[:, 0] > 0
    inside = (splats.means2d + splats.radii > 0) & (splats.means2d - splats.radii < size)
    return finite & regular & (splats.depths >= near) & (splats.radii > 0).all(dim=1) & inside.all(dim=1)


def _project_rows(
    means: Tensor,
    log_scales: Tensor,
    quats_wxyz: Tensor,
    opacity_logits: Tensor,
    viewmat: Tensor,
    intrinsics: Tensor,
    width: int,
    height: int,
    *,
    orthographic: bool,
    dilation_px2: float,
    antialiased: bool,
) -> Projected:
    """The formulas, for splats in general position; where they do not apply the rows come out not finite or zero."""
    rotation, translation = viewmat[:3, :3], viewmat[:3, 3]
    points = means @ rotation.T + translation
    means2d, jacobian = _project_points(points, intrinsics, width, height, orthographic)

    splat_rotation = rotation_from_quaternion(quats_wxyz)
    root = jacobian @ rotation @ splat_rotation * log_scales.exp()[:, None, :]  # A, [N, 2, 3]
    plain_xx, plain_yy = root[:, 0].square().sum(dim=1), root[:, 1].square().sum(dim=1)
    cov_xy = (root[:, 0] * root[:, 1]).sum(dim=1)
    # det(A A^T) is the squared area that A's rows span (Cauchy-Binet): no cancellation for thin splats.
    plain_determinant = torch.linalg.cross(root[:, 0], root[:, 1], dim=1).square().sum(dim=1)
    cov_xx, cov_yy = plain_xx + dilation_px2, plain_yy + dilation_px2
    determinant = plain_determinant + dilation_px2 * (plain_xx + plain_yy + dilation_px2)
    half_trace = 0.5 * (cov_xx + cov_yy)
    regular = (determinant > DETERMINANT_MIN_PX4) & (determinant > CONDITION_MIN * half_trace.square())

    opacities = torch.sigmoid(opacity_logits)
    if antialiased:
        opacities = opacities * (plain_determinant / determinant).clamp_min(COMPENSATION_MIN).sqrt()
    # ln(255 o) is negative below 1/255: the square root is then NaN, and the splat is culled.
    extent = (2.0 * (opacities / ALPHA_MIN).log()).sqrt()
    radii = extent[:, None] * torch.stack((cov_xx, cov_yy), dim=1).sqrt()
    conics = torch.stack((cov_yy, -cov_xy, cov_xx), dim=1) / determinant[:, None]
    return Projected(
        means2d=means2d,
        depths=points[:, 2],
        conics=torch.where(regular[:, None], conics, torch.zeros_like(conics)),
        opacities=opacities,
        normals=_normals(splat_rotation, log_scales, rotation, points, orthographic),
        radii=radii,
        depth_slopes=_depth_slopes(root, rotation[2] @ splat_rotation * log_scales.exp()),
    )


@torch.no_grad()
def _depth_slopes(root: Tensor, ahead: Tensor) -> Tensor:
    """How the depth of greatest density grows across the screen: [N, 2] = (Sigma' + floor)^-1 c, with c = A a_z.

    Args:
        root: [N, 2, 3] A.
        ahead: [N, 3] a_z, the third row of W R S.
    """
    covariance = root @ root.mT + SLOPE_VARIANCE_PX2 * torch.eye(2, dtype=root.dtype, device=root.device)
    # By cofactors, with the determinant of A A^T as Cauchy-Binet has it: thin splats would cancel in a solver.
    xx, xy, yy = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    plain = torch.linalg.cross(root[:, 0], root[:, 1], dim=1).square().sum(dim=1)
    determinant = plain + SLOPE_VARIANCE_PX2 * (xx + yy - SLOPE_VARIANCE_PX2)
    along = (root @ ahead[:, :, None])[:, :, 0]
    adjugate = torch.stack((yy * along[:, 0] - xy * along[:, 1], xx * along[:, 1] - xy * along[:, 0]), dim=1)
    slopes: Tensor = adjugate / determinant[:, None]
    return slopes


def _project_points(
    points: Tensor, intrinsics: Tensor, width: int, height: int, orthographic: bool
) -> tuple[Tensor, Tensor]:
    """Camera points [N, 3] to pixels [N, 2] and the Jacobians [N, 2, 3] there, px per scene unit."""
    focal, centre = intrinsics[:2], intrinsics[2:]
    if orthographic:
        jacobian = torch.cat((torch.diag(focal), focal.new_zeros(2, 1)), dim=1)
        return points[:, :2] * focal + centre, jacobian.expand(points.shape[0], 2, 3)
    inverse_depth = 1.0 / points[:, 2:]
    offsets = points[:, :2] * (focal * inverse_depth)
    size = points.new_tensor((width, height))
    clamped = torch.minimum(
        torch.maximum(offsets, -FRUSTUM_MARGIN * size - centre), (1.0 + FRUSTUM_MARGIN) * size - centre
    )
    diagonal = torch.diag_embed((focal * inverse_depth).expand(points.shape[0], 2))
    return offsets + centre, torch.cat((diagonal, (-clamped * inverse_depth)[:, :, None]), dim=2)


def rotation_from_quaternion(quats_wxyz: Tensor) -> Tensor:
    """Rotation matrices [N, 3, 3] of quaternions [N, 4] of any norm but zero."""
    w, x, y, z = (quats_wxyz / quats_wxyz.norm(dim=1, keepdim=True)).unbind(dim=1)
    entries = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(entries, dim=1).reshape(-1, 3, 3)


def _normals(
    splat_rotation: Tensor, log_scales: Tensor, rotation: Tensor, points: Tensor, orthographic: bool
) -> Tensor:
    """Direction of each splat's shortest axis, towards the camera: [N, 3], world. Choice and sign have no gradient."""
    shortest = log_scales.argmin(dim=1)
    normals = splat_rotation[torch.arange(shortest.shape[0]), :, shortest]
    with torch.no_grad():
        in_camera = normals @ rotation.T
        facing = in_camera[:, 2] if orthographic else (in_camera * points).sum(dim=1)
        signs = torch.where(facing > 0, -1.0, 1.0).to(normals.dtype)
    return normals * signs[:, None]
