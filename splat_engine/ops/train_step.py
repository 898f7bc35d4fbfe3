"""``train_step``: draw, compare, differentiate and update in one native call; a shortcut of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine import native
from splat_engine.native import structs
from splat_engine.ops.adam import check_step
from splat_engine.ops.checks import scalar_name
from splat_engine.ops.memory import address, check_on_cpu, contiguous
from splat_engine.ops.photometric import check_target, comparison_fields, comparison_options
from splat_engine.ops.project import check_camera_model
from splat_engine.ops.update import check_splats, update_fields

__all__ = ["TrainStep", "train_step"]

_structure = cache(structs.structure)


class TrainStep(NamedTuple):
    """What a step tells; no tensor has a gradient.

    Attributes:
        loss: a scalar. Where it is not finite, nothing was updated.
        squared: the mean squared difference of the pictures, a scalar.
        means2d: [N, 2] gradient of the loss by the centres on the screen, per px.
        radii: [N, 2] px, 0 where the splat was culled.
        absolute: [N, 2] sums over pixels of the gradient's absolute values, as ``RasterPass.backward`` makes them; None
            where they were not asked for.
    """

    loss: Tensor
    squared: Tensor
    means2d: Tensor
    radii: Tensor
    absolute: Tensor | None = None


def train_step(
    params: Mapping[str, Tensor],
    moments: Mapping[str, tuple[Tensor, Tensor]],
    viewmat: Tensor,
    intrinsics: Tensor,
    target: Tensor,
    target_alpha: Tensor,
    background: Tensor,
    *,
    rates: Mapping[str, float],
    step: int,
    degree: int,
    encode: bool,
    linear: bool = False,
    ssim_weight: float,
    mse_weight: float = 0.0,
    alpha_weight: float = 0.0,
    valid: Tensor | None = None,
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
    absolute: bool = False,
    by_ray: bool = False,
) -> TrainStep:
    """Takes a training step on one view, bit for bit what these ops do one after the other on the CPU:
    ``project``, ``sh_colors``, ``rasterize``, ``photometric_loss``, their backwards, ``update_splats``.

    Args:
        params: as ``update_splats`` takes them. Changed.
        moments: likewise. Changed.
        viewmat: [4, 4] camera_from_world, OpenCV axes.
        intrinsics: [4] fx, fy, cx, cy.
        target: [H, W, 3] premultiplied, in the blending space; the view is drawn at its size.
        target_alpha: [H, W].
        background: [3] in the blending space.
        rates: learning rate of each group, as in ``update_splats``, and so step, degree, beta1, beta2, eps, sparse and
            log_scale_floors.
        encode: as in ``photometric_loss``, and so linear, ssim_weight, mse_weight, alpha_weight and valid.
        camera_model: as in ``project``, and so dilation_px2, antialiased and near.
        decode: as in ``sh_colors``.
        absolute: whether to make absolute gradients, too.
        by_ray: whether each pixel blends in its own order, as ``rasterize`` does with ``depth_slopes``.

    Raises:
        ValueError: a shape, type, number or name is not as above.

    Source: csrc/cpu/train_step_kernel.cpp.
    """
    means = params["means"]
    height, width = target.shape[:2]
    check_on_cpu(means)
    check_camera_model(camera_model)
    check_step(step, (beta1, beta2))
    check_splats(params, moments, viewmat, intrinsics, degree, log_scale_floors)
    check_target(target, target_alpha, background, valid, ssim_weight, linear, (height, width), means)
    viewmat, intrinsics = viewmat.contiguous(), intrinsics.contiguous()
    target, target_alpha, background = target.contiguous(), target_alpha.contiguous(), background.contiguous()
    valid, log_scale_floors = contiguous(valid), contiguous(log_scale_floors)
    update = update_fields(
        params,
        moments,
        viewmat,
        intrinsics,
        width,
        height,
        rates=rates,
        step=step,
        degree=degree,
        camera_model=camera_model,
        dilation_px2=dilation_px2,
        antialiased=antialiased,
        near=near,
        decode=decode,
        betas=(beta1, beta2),
        eps=eps,
        sparse=sparse,
        log_scale_floors=log_scale_floors,
    )
    figures = means.new_empty(5)
    gradient, radii = means.new_empty(means.shape[0], 2), means.new_empty(means.shape[0], 2)
    absolutes = torch.empty_like(gradient) if absolute else None
    options = comparison_options(encode, linear, ssim_weight, mse_weight, alpha_weight)
    comparison = comparison_fields(target, target_alpha, background, valid, figures, options)
    scalar = scalar_name(means.dtype)
    update_args = _structure("update_splats", scalar)(**update)
    loss_args = _structure("photometric_loss", scalar)(**comparison)
    native.call(
        "train_step",
        scalar,
        update=ctypes.addressof(update_args),
        loss=ctypes.addressof(loss_args),
        radii=address(radii),
        v_means2d=address(gradient),
        v_abs_means2d=address(absolutes),
        by_ray=int(by_ray),
    )
    return TrainStep(figures[0], figures[3], gradient, radii, absolutes)
