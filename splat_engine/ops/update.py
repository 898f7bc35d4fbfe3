"""``update_splats``: from gradients on the screen to updated splats, without ever writing the parameters' gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from splat_engine.ops.adam import check_step
from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, check_place, contiguous
from splat_engine.ops.project import Projected, check_camera_model, project
from splat_engine.ops.reference import update as reference
from splat_engine.ops.reference.update import ScreenGradients
from splat_engine.ops.sh import DEGREE_MAX, sh_colors

__all__ = ["GROUPS", "ScreenGradients", "update_splats"]

GROUPS = ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh")
"""The parameters of a splat; ``sh`` has two rates, ``sh_dc`` for its first coefficient and ``sh`` for the others."""
_COEFFICIENTS_MAX = (DEGREE_MAX + 1) ** 2


def update_splats(
    params: Mapping[str, Tensor],
    moments: Mapping[str, tuple[Tensor, Tensor]],
    gradients: ScreenGradients,
    radii: Tensor,
    viewmat: Tensor,
    intrinsics: Tensor,
    width: int,
    height: int,
    *,
    rates: Mapping[str, float],
    step: int,
    degree: int,
    camera_model: str = "perspective",
    dilation_px2: float = 0.0,
    antialiased: bool = False,
    near: float = 0.01,
    decode: bool = False,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-15,
    sparse: bool = False,
    log_scale_floors: Tensor | None = None,
    backend: str = "cpu",
) -> None:
    """Takes one Adam step on all parameters, in place: the backward of ``project`` and ``sh_colors``, then ``adam_step``.

    The camera and the options are those with which the splats were projected and coloured; none of them has a gradient
    here.

    Args:
        params: the five GROUPS: means [N, 3], log_scales [N, 3], quats_wxyz [N, 4], opacity_logits [N], sh [N, K, 3];
            contiguous. N may be 0. Changed.
        moments: the same names to Adam's first and second moment, of the parameters' shapes, contiguous. Changed.
        gradients: of the loss by the splats on the screen.
        radii: [N, 2] as ``project`` returned them: 0 marks culled splats.
        viewmat: [4, 4] camera_from_world, OpenCV axes.
        intrinsics: [4] fx, fy, cx, cy.
        width: image width, px.
        height: image height, px.
        rates: learning rate of each group, and "sh_dc": the rate of the constant coefficient.
        step: number of this step, counted from 1.
        degree: SH degree, 0 to 3; coefficients above it have a gradient of 0.
        camera_model: "perspective" or "orthographic".
        dilation_px2: variance added on the screen.
        antialiased: whether splats were dimmed by what the dilation enlarged.
        near: least depth that was drawn.
        decode: whether the colours are linear light.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        eps: added to the denominator.
        sparse: leave splats alone, moments included, whose gradients on the screen are all exactly 0: no pixel saw them.
        log_scale_floors: [N] values below which no log-scale of an updated splat may end; None: no bound.
        backend: "cpu", "cuda" or "reference".

    Raises:
        ValueError: a shape, type, number or name is not as above.

    Sources: Kingma and Ba 2015, Adam; Mallick et al. 2024, Taming 3DGS (sparse Adam). csrc/cpu/update_kernel.cpp.
    """
    check_backend(backend)
    check_camera_model(camera_model)
    check_step(step, (beta1, beta2))
    _check(params, moments, gradients, radii, viewmat, intrinsics, degree)
    if log_scale_floors is not None:
        check_tensor("log_scale_floors", log_scale_floors, radii.shape[:1], radii)
    if backend == "reference":

        def to_screen(leaves: Mapping[str, Tensor]) -> tuple[Projected, Tensor]:
            means, log_scales, quats_wxyz, opacity_logits, sh = (leaves[name] for name in GROUPS)
            projected = project(
                means,
                log_scales,
                quats_wxyz,
                opacity_logits,
                viewmat,
                intrinsics,
                width,
                height,
                camera_model=camera_model,
                dilation_px2=dilation_px2,
                antialiased=antialiased,
                near=near,
                with_normals=gradients.normals is not None,
                backend=backend,
            )
            shading = {"degree": degree, "camera_model": camera_model, "decode": decode}
            return projected, sh_colors(means, sh, viewmat, **shading, backend=backend)  # type: ignore[arg-type]

        options = {"rates": rates, "step": step, "betas": (beta1, beta2), "eps": eps, "sparse": sparse}
        options["log_scale_floors"] = log_scale_floors
        reference.update_splats(params, moments, gradients, to_screen, **options)  # type: ignore[arg-type]
        return
    means = params["means"]
    check_place(backend, means)
    arrived = {f"v_{name}": contiguous(value) for name, value in gradients._asdict().items()}
    kept = {
        "radii": radii.contiguous(),
        "viewmat": viewmat.contiguous(),
        "intrinsics": intrinsics.contiguous(),
        "log_scale_floors": contiguous(log_scale_floors),
    }
    bias = 1.0 - beta1**step
    call(
        backend,
        "update_splats",
        means,
        count=means.shape[0],
        width=width,
        height=height,
        orthographic=int(camera_model == "orthographic"),
        antialiased=int(antialiased),
        coefficients=params["sh"].shape[1],
        degree=degree,
        decode=int(decode),
        sparse=int(sparse),
        dilation_px2=dilation_px2,
        near_depth=near,
        rate1=1.0 - beta1,
        beta2=beta2,
        rate2=1.0 - beta2,
        eps=eps,
        inverse_root=1.0 / math.sqrt(1.0 - beta2**step),
        **{f"step_{name}": rates[name] / bias for name in GROUPS},
        step_sh_constant=rates["sh_dc"] / bias,
        **{name: address(tensor) for name, tensor in (*kept.items(), *arrived.items())},
        **{name: address(params[name]) for name in GROUPS},
        **{f"first_{name}": address(moments[name][0]) for name in GROUPS},
        **{f"second_{name}": address(moments[name][1]) for name in GROUPS},
    )


def _check(
    params: Mapping[str, Tensor],
    moments: Mapping[str, tuple[Tensor, Tensor]],
    gradients: ScreenGradients,
    radii: Tensor,
    viewmat: Tensor,
    intrinsics: Tensor,
    degree: int,
) -> None:
    means, sh = params["means"], params["sh"]
    scalar_name(means.dtype)
    check_tensor("means", means, (None, 3))
    count = means.shape[0]
    for name, size in {"log_scales": (3,), "quats_wxyz": (4,), "opacity_logits": (), "sh": (None, 3)}.items():
        check_tensor(name, params[name], (count, *size), means)
    if degree not in range(DEGREE_MAX + 1):
        raise ValueError(f"degree: expected 0 to {DEGREE_MAX}, got {degree}")
    if not (degree + 1) ** 2 <= sh.shape[1] <= _COEFFICIENTS_MAX:
        raise ValueError(
            f"sh: degree {degree} needs {(degree + 1) ** 2} to {_COEFFICIENTS_MAX} coefficients, got {sh.shape[1]}"
        )
    for name in GROUPS:
        shape = tuple(params[name].shape)
        for tensor in (params[name], *moments[name]):
            check_tensor(name, tensor, shape, means)
            if not tensor.is_contiguous():
                raise ValueError(f"{name}: expected contiguous tensors, since they are changed in place")
    check_tensor("radii", radii, (count, 2), means)
    check_tensor("viewmat", viewmat, (4, 4), means)
    check_tensor("intrinsics", intrinsics, (4,), means)
    sizes = {"means2d": (2,), "depths": (), "conics": (3,), "opacities": (), "normals": (3,), "colors": (3,)}
    for name, size in sizes.items():
        gradient = getattr(gradients, name)
        if gradient is not None:
            check_tensor(f"gradients.{name}", gradient, (count, *size), means)
