"""``project_colors``: ``project`` and ``sh_colors`` in one, without gradients: the forward of a training step."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.ops._cuda import splats as kernels
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address, check_place
from splat_engine.ops.project import Projected, check_project, new_screen, project, projected_of
from splat_engine.ops.sh import check_sh_colors, sh_colors

__all__ = ["project_colors"]


@torch.no_grad()
def project_colors(
    means: Tensor,
    log_scales: Tensor,
    quats_wxyz: Tensor,
    opacity_logits: Tensor,
    sh: Tensor,
    viewmat: Tensor,
    intrinsics: Tensor,
    width: int,
    height: int,
    *,
    degree: int,
    camera_model: str = "perspective",
    dilation_px2: float = 0.0,
    antialiased: bool = False,
    near: float = 0.01,
    with_normals: bool = False,
    with_depth_slopes: bool = False,
    decode: bool = False,
    backend: str = "cpu",
) -> tuple[Projected, Tensor]:
    """Projects and colours splats, as ``project`` and ``sh_colors`` do with the same arguments. No gradients.

    On a card it is one kernel, which reads each mean once and of culled splats no coefficients.

    Args:
        means, log_scales, quats_wxyz, opacity_logits, viewmat, intrinsics, width, height, dilation_px2, antialiased, near,
            with_normals, with_depth_slopes: see ``project``.
        sh, degree, decode: see ``sh_colors``.
        camera_model: "perspective" or "orthographic".
        backend: "cpu", "cuda" or "reference".

    Returns:
        The splats on the screen, and their colours [N, 3]; those of culled splats mean nothing.

    Raises:
        ValueError: a shape, type, size or name is not as above.

    Source: Kerbl et al. 2023, 3D Gaussian Splatting (one preprocessing kernel).
    """
    geometry = (means, log_scales, quats_wxyz, opacity_logits, viewmat, intrinsics)
    if backend != "cuda":
        projected = project(
            *geometry,
            width,
            height,
            camera_model=camera_model,
            dilation_px2=dilation_px2,
            antialiased=antialiased,
            near=near,
            with_normals=with_normals,
            with_depth_slopes=with_depth_slopes,
            backend=backend,
        )
        shading = {"degree": degree, "camera_model": camera_model, "decode": decode, "backend": backend}
        return projected, sh_colors(means, sh, viewmat, **shading)  # type: ignore[arg-type]
    check_project(geometry, width, height, camera_model, dilation_px2, near, backend)
    check_sh_colors(means, sh, viewmat, degree, camera_model, backend)
    check_place(backend, means)
    names = ("means", "log_scales", "quats_wxyz", "opacity_logits", "viewmat", "intrinsics", "sh")
    inputs = {name: tensor.contiguous() for name, tensor in zip(names, (*geometry, sh), strict=True)}
    outputs = new_screen(inputs["means"], with_normals, with_depth_slopes)
    outputs["colors"] = torch.empty_like(inputs["means"])
    kernels.project_colors_fwd(
        scalar_name(means.dtype),
        means.device,
        count=means.shape[0],
        width=width,
        height=height,
        orthographic=int(camera_model == "orthographic"),
        antialiased=int(antialiased),
        coefficients=sh.shape[1],
        degree=degree,
        decode=int(decode),
        dilation_px2=float(dilation_px2),
        near_depth=float(near),
        **{name: address(tensor) for name, tensor in (inputs | outputs).items()},
    )
    return projected_of(outputs), outputs["colors"]
