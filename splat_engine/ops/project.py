"""``project``: 3D Gaussians to 2D Gaussians on the screen, with gradients to the splats and to the camera."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, apply, check_place, contiguous
from splat_engine.ops.reference import project as reference
from splat_engine.ops.reference.project import Projected

CAMERA_MODELS = ("perspective", "orthographic")

__all__ = ["CAMERA_MODELS", "Projected", "project"]


class _Options(NamedTuple):
    """What has no gradient, under the names of the native structure."""

    width: int
    height: int
    orthographic: int
    antialiased: int
    dilation_px2: float
    near_depth: float


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
    camera_model: str = "perspective",
    dilation_px2: float = 0.0,
    antialiased: bool = False,
    near: float = 0.01,
    with_normals: bool = False,
    with_depth_slopes: bool = False,
    backend: str = "cpu",
) -> Projected:
    """Projects 3D Gaussians to the screen (EWA splatting) and culls those that draw nothing.

    A splat is culled (radii 0, opacity 0, zeros elsewhere, no gradient) if any of its numbers is not finite, its
    quaternion has no length, its depth is below ``near``, its opacity is at most 1/255, its ellipse is degenerate
    (1000 times as long as wide, or smaller than 1e-4 px), or its extent lies wholly outside the image.

    Args:
        means: [N, 3] centres, world frame, scene units. N may be 0.
        log_scales: [N, 3] natural logarithms of the standard deviations along the splat's axes.
        quats_wxyz: [N, 4] rotations, of any norm; they are normalised here and the gradient passes through it.
        opacity_logits: [N]; the opacity is their sigmoid.
        viewmat: [4, 4] camera_from_world, OpenCV axes (x right, y down, z forward). Row 3 is not read and gets a zero
            gradient.
        intrinsics: [4] fx, fy, cx, cy, px (fx, fy in px per scene unit if orthographic). Pixel centres are at +0.5.
        width: image width, px.
        height: image height, px.
        camera_model: "perspective" or "orthographic".
        dilation_px2: variance added to both axes on the screen: that of Cycles' pixel filter (then antialiased), or 0.3 as 3DGS does.
        antialiased: dim each splat by as much as the dilation enlarges it.
        near: least depth that is drawn, scene units.
        with_normals: also return normals: the direction of the shortest axis, turned to the camera. Which axis and which
            sign have no gradient; the quaternions do.
        with_depth_slopes: also return depth_slopes: how the depth at which a ray meets a splat's greatest density grows
            across the screen, for ``rasterize`` in each pixel's own order. The dilation has no part in it.
        backend: "cpu", "cuda" or "reference".

    Returns:
        The splats on the screen. ``radii`` and ``depth_slopes`` have no gradient.

    Raises:
        ValueError: a shape, type, size or name is not as above.

    Source: Zwicker et al. 2001, EWA Volume Splatting; Kerbl et al. 2023; Yu et al. 2024, Mip-Splatting (compensation).
    csrc/include/projection.h has the derivation of the gradients.
    """
    inputs = (means, log_scales, quats_wxyz, opacity_logits, viewmat, intrinsics)
    check_project(inputs, width, height, camera_model, dilation_px2, near, backend)
    if backend == "reference":
        return reference.project(
            *inputs,
            width,
            height,
            camera_model=camera_model,
            dilation_px2=dilation_px2,
            antialiased=antialiased,
            near=near,
            with_normals=with_normals,
            with_depth_slopes=with_depth_slopes,
        )
    check_place(backend, means)
    options = _Options(
        width, height, int(camera_model == "orthographic"), int(antialiased), float(dilation_px2), float(near)
    )
    outputs: tuple[Tensor, ...] = apply(
        _Project,
        *(tensor.contiguous() for tensor in inputs),
        options,
        with_normals,
        with_depth_slopes,
        backend,
    )
    return projected_of(dict(zip(screen_sizes(with_normals, with_depth_slopes), outputs, strict=True)))


def check_project(
    inputs: tuple[Tensor, ...],
    width: int,
    height: int,
    camera_model: str,
    dilation_px2: float,
    near: float,
    backend: str,
) -> None:
    """Raise ValueError unless the arguments of ``project`` are as it says."""
    check_backend(backend)
    means, log_scales, quats_wxyz, opacity_logits, viewmat, intrinsics = inputs
    scalar_name(means.dtype)
    check_tensor("means", means, (None, 3))
    count = means.shape[0]
    check_tensor("log_scales", log_scales, (count, 3), means)
    check_tensor("quats_wxyz", quats_wxyz, (count, 4), means)
    check_tensor("opacity_logits", opacity_logits, (count,), means)
    check_tensor("viewmat", viewmat, (4, 4), means)
    check_tensor("intrinsics", intrinsics, (4,), means)
    check_camera_model(camera_model)
    if width < 1 or height < 1:
        raise ValueError(f"expected an image of at least 1 x 1 px, got {width} x {height}")
    if not dilation_px2 >= 0:
        raise ValueError(f"dilation_px2: expected 0 or more, got {dilation_px2}")
    if not near > 0:
        raise ValueError(f"near: expected more than 0, got {near}")


def check_camera_model(camera_model: str) -> None:
    """Raise ValueError unless the camera model is a known one."""
    if camera_model not in CAMERA_MODELS:
        raise ValueError(f"unknown camera_model {camera_model!r}; known are {', '.join(CAMERA_MODELS)}")


_INPUTS = ("means", "log_scales", "quats_wxyz", "opacity_logits", "viewmat", "intrinsics")


def screen_sizes(with_normals: bool, with_depth_slopes: bool) -> dict[str, tuple[int, ...]]:
    """What ``project`` computes of each splat, by the names of the native structure, and the shape of each."""
    sizes: dict[str, tuple[int, ...]] = {
        "means2d": (2,),
        "depths": (),
        "conics": (3,),
        "opacities": (),
        "radii": (2,),
    }
    if with_normals:
        sizes["normals"] = (3,)
    if with_depth_slopes:
        sizes["depth_slopes"] = (2,)
    return sizes


def new_screen(means: Tensor, with_normals: bool, with_depth_slopes: bool) -> dict[str, Tensor]:
    """Makes room for what ``project`` computes of each splat."""
    sizes = screen_sizes(with_normals, with_depth_slopes)
    return {name: means.new_empty((means.shape[0], *size)) for name, size in sizes.items()}


def projected_of(screen: Mapping[str, Tensor]) -> Projected:
    """Makes the result of ``project`` from its parts; others are left out."""
    return Projected(
        screen["means2d"],
        screen["depths"],
        screen["conics"],
        screen["opacities"],
        screen.get("normals"),
        screen["radii"],
        screen.get("depth_slopes"),
    )


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        inputs: tuple[Tensor, ...] = arguments[:6]
        options: _Options = arguments[6]
        with_normals: bool = arguments[7]
        with_depth_slopes: bool = arguments[8]
        backend: str = arguments[9]
        means = inputs[0]
        outputs = new_screen(means, with_normals, with_depth_slopes)
        addresses = {
            name: address(tensor) for name, tensor in (*zip(_INPUTS, inputs, strict=True), *outputs.items())
        }
        call(backend, "project_fwd", means, count=means.shape[0], **options._asdict(), **addresses)
        ctx.save_for_backward(*inputs, outputs["radii"])
        ctx.options, ctx.backend, ctx.with_normals = options, backend, with_normals
        ctx.mark_non_differentiable(*(outputs[name] for name in ("radii", "depth_slopes") if name in outputs))
        ctx.set_materialize_grads(False)
        return tuple(outputs.values())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *v_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, radii = ctx.saved_tensors
        v_means2d, v_depths, v_conics, v_opacities = (contiguous(v) for v in v_outputs[:4])
        v_normals = contiguous(v_outputs[5]) if ctx.with_normals else None
        # The camera's gradients cost a sum over splats: only where somebody wants them.
        gradients = [
            torch.empty_like(tensor) if index < 4 or ctx.needs_input_grad[index] else None
            for index, tensor in enumerate(inputs)
        ]
        addresses = {name: address(tensor) for name, tensor in zip(_INPUTS, inputs, strict=True)}
        addresses |= {f"v_{name}": address(tensor) for name, tensor in zip(_INPUTS, gradients, strict=True)}
        call(
            ctx.backend,
            "project_bwd",
            radii,
            count=radii.shape[0],
            **ctx.options._asdict(),
            radii=address(radii),
            v_means2d=address(v_means2d),
            v_depths=address(v_depths),
            v_conics=address(v_conics),
            v_opacities=address(v_opacities),
            v_normals=address(v_normals),
            **addresses,
        )
        return (*gradients, None, None, None, None)
