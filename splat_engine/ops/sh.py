"""``sh_colors``: spherical harmonics to colours, with gradients to the coefficients, the means and the camera."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, apply, check_place
from splat_engine.ops.project import check_camera_model
from splat_engine.ops.reference import sh as reference

DEGREE_MAX = 3

__all__ = ["DEGREE_MAX", "sh_colors"]


class _Options(NamedTuple):
    """What has no gradient, under the names of the native structure."""

    degree: int
    orthographic: int
    decode: int


def sh_colors(
    means: Tensor,
    sh: Tensor,
    viewmat: Tensor,
    *,
    degree: int,
    camera_model: str = "perspective",
    decode: bool = False,
    backend: str = "cpu",
) -> Tensor:
    """Evaluates the colour of each splat as the camera sees it: max(0, 0.5 + sum_k Y_k(direction) sh_k).

    The direction is the unit vector from the camera's centre to the splat's; for an orthographic camera it is the
    camera's forward axis. A splat at the camera's centre shows its constant coefficient alone. A colour that is not above
    zero or not finite is black and has no gradient.

    Args:
        means: [N, 3] centres, world frame, scene units. N may be 0.
        sh: [N, K, 3] coefficients, K at least (degree + 1)^2; those above the degree are ignored, their gradient is 0.
        viewmat: [4, 4] camera_from_world, a rigid motion. Row 3 is not read and gets a zero gradient.
        degree: 0 to 3.
        camera_model: "perspective" or "orthographic".
        decode: return linear light, the colour taken as sRGB-encoded (the `blender` formation), unbounded above.
        backend: "cpu", "cuda" or "reference".

    Returns:
        [N, 3] colours of 0 or more.

    Raises:
        ValueError: a shape, type, degree or name is not as above.

    Source: Kerbl et al. 2023 (basis and signs); IEC 61966-2-1 (sRGB). csrc/include/sh.h has the derivation.
    """
    check_sh_colors(means, sh, viewmat, degree, camera_model, backend)
    if backend == "reference":
        return reference.sh_colors(
            means, sh, viewmat, degree=degree, camera_model=camera_model, decode=decode
        )
    check_place(backend, means)
    options = _Options(degree, int(camera_model == "orthographic"), int(decode))
    colors: Tensor = apply(
        _ShColors, means.contiguous(), sh.contiguous(), viewmat.contiguous(), options, backend
    )
    return colors


def check_sh_colors(
    means: Tensor, sh: Tensor, viewmat: Tensor, degree: int, camera_model: str, backend: str
) -> None:
    """Raise ValueError unless the arguments of ``sh_colors`` are as it says."""
    check_backend(backend)
    check_camera_model(camera_model)
    scalar_name(means.dtype)
    check_tensor("means", means, (None, 3))
    check_tensor("sh", sh, (means.shape[0], None, 3), means)
    check_tensor("viewmat", viewmat, (4, 4), means)
    if degree not in range(DEGREE_MAX + 1):
        raise ValueError(f"degree: expected 0 to {DEGREE_MAX}, got {degree}")
    if sh.shape[1] < (degree + 1) ** 2:
        raise ValueError(f"sh: degree {degree} needs {(degree + 1) ** 2} coefficients, got {sh.shape[1]}")


class _ShColors(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, means: Tensor, sh: Tensor, viewmat: Tensor, options: _Options, backend: str
    ) -> Tensor:
        colors = torch.empty_like(means)
        call(
            backend,
            "sh_colors_fwd",
            means,
            count=means.shape[0],
            coefficients=sh.shape[1],
            **options._asdict(),
            means=address(means),
            sh=address(sh),
            viewmat=address(viewmat),
            colors=address(colors),
        )
        ctx.save_for_backward(means, sh, viewmat)
        ctx.options, ctx.backend = options, backend
        return colors

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v_colors: Tensor) -> tuple[Tensor | None, ...]:
        means, sh, viewmat = ctx.saved_tensors
        v_colors = v_colors.contiguous()
        v_means, v_sh, v_viewmat = (
            torch.empty_like(tensor) if needed else None
            for tensor, needed in zip((means, sh, viewmat), ctx.needs_input_grad[:3], strict=True)
        )
        call(
            ctx.backend,
            "sh_colors_bwd",
            means,
            count=means.shape[0],
            coefficients=sh.shape[1],
            **ctx.options._asdict(),
            means=address(means),
            sh=address(sh),
            viewmat=address(viewmat),
            v_colors=address(v_colors),
            v_sh=address(v_sh),
            v_means=address(v_means),
            v_viewmat=address(v_viewmat),
        )
        return v_means, v_sh, v_viewmat, None, None
