"""Rasterization: 2D Gaussians, sorted by depth, blended front to back into an image of any features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from splat_engine import native
from splat_engine.native.rasterize import MAX_CHANNELS, RasterContext
from splat_engine.ops import checks
from splat_engine.ops._cuda import rasterize as cuda
from splat_engine.ops.memory import address, apply, check_place, contiguous
from splat_engine.ops.reference import rasterize as reference

Context = RasterContext | cuda.Saved
"""What a backend's forward keeps for its backward."""


def rasterize(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    features: Tensor,
    depths: Tensor,
    width: int,
    height: int,
    *,
    depth_slopes: Tensor | None = None,
    background: Tensor | None = None,
    backend: str = "cpu",
) -> tuple[Tensor, Tensor]:
    """Blend splats over a background.

    A splat's alpha at a pixel is min(0.99, o exp(-d^T conic d / 2)), d from the splat's centre to the pixel's; below
    1/255 it is skipped; a splat that would bring the transmittance to 1e-4 or less is not blended and the ray ends.

    Args:
        means2d: [N, 2] centres in px; the first pixel's centre is at (0.5, 0.5).
        conics: [N, 3] a, b, c of the inverse 2D covariance [[a, b], [b, c]], px^-2.
        opacities: [N], in [0, 1].
        features: [N, C] colours or whatever else is to be blended, C >= 1.
        depths: [N] order: smaller is nearer, equal depths in the order of the splats. No gradient.
        width: px.
        height: px.
        depth_slopes: [N, 2] per px, or None. With them each pixel blends in its own order, by the depths there: depths +
            depth_slopes . (pixel's centre - means2d); equal ones in the order of the depths. No gradient: the order is
            piecewise constant.
        background: [C], or None for zero.
        backend: "cpu" (csrc/cpu), "cuda" (csrc/cuda) or "reference" (plain torch, N x pixels).

    Returns:
        image [height, width, C] = sum of features x alpha x transmittance + last transmittance x background, and
        alpha [height, width] = 1 - last transmittance. N = 0 gives the background and zero.

    Splats with any number that is not finite, a conic that is not positive definite, or an opacity below 1/255 are not
    drawn and get zero gradients. Gradients flow to means2d, conics, opacities, features and background; the gradient is
    zero where alpha is clamped. First derivatives only.

    Raises:
        ValueError: a shape, type or size is not as above.
        UserError: the native library is missing or has no memory, or the kernels cannot be had for this card.

    Source: Kerbl et al. 2023, "3D Gaussian Splatting", section 4; Radl et al. 2024, "StopThePop" (an order for each
    pixel); numeric conventions in DESIGN.md.
    """
    _check(means2d, conics, opacities, features, depths, depth_slopes, width, height, background)
    checks.check_backend(backend)
    arguments = (means2d, conics, opacities, features, depths)
    if backend == "reference":
        return reference.rasterize(*arguments, width, height, background, depth_slopes)
    check_place(backend, means2d)
    inputs = (means2d, conics, opacities, features, background)
    save = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)
    # More features than one native call holds: in groups. Their gradients add up, since the loss is linear in each group.
    images = []
    first_alpha: Tensor | None = None
    for first in range(0, features.shape[1], MAX_CHANNELS):
        group = slice(first, first + MAX_CHANNELS)
        image, alpha = apply(
            _Rasterize,
            means2d,
            conics,
            opacities,
            features[:, group],
            depths,
            depth_slopes,
            width,
            height,
            None if background is None else background[group],
            backend,
            save,
        )
        images.append(image)
        first_alpha = alpha if first_alpha is None else first_alpha
    assert first_alpha is not None
    return images[0] if len(images) == 1 else torch.cat(images, dim=2), first_alpha


def _check(
    means2d: Tensor,
    conics: Tensor,
    opacities: Tensor,
    features: Tensor,
    depths: Tensor,
    depth_slopes: Tensor | None,
    width: int,
    height: int,
    background: Tensor | None,
) -> None:
    checks.check_tensor("means2d", means2d, [None, 2])
    checks.scalar_name(means2d.dtype)
    count = means2d.shape[0]
    checks.check_tensor("conics", conics, [count, 3], means2d)
    checks.check_tensor("opacities", opacities, [count], means2d)
    checks.check_tensor("features", features, [count, None], means2d)
    checks.check_tensor("depths", depths, [count], means2d)
    if depth_slopes is not None:
        checks.check_tensor("depth_slopes", depth_slopes, [count, 2], means2d)
    if features.shape[1] < 1:
        raise ValueError("features: expected at least 1 channel, got 0")
    if background is not None:
        checks.check_tensor("background", background, [features.shape[1]], means2d)
    if width < 1 or height < 1:
        raise ValueError(f"expected a width and height of at least 1 px, got {width} x {height}")


class RasterPass:
    """``rasterize`` for a caller that goes backward by itself, without autograd: a training step.

    Args:
        means2d, conics, opacities, features, depths, width, height, background, depth_slopes, backend: as ``rasterize``
            takes them, with at most MAX_CHANNELS features.

    Attributes:
        image: [height, width, C].
        alpha: [height, width].

    Raises:
        ValueError: a shape, type or size is not as ``rasterize`` wants it.
        UserError: as ``rasterize`` raises it.
    """

    def __init__(
        self,
        means2d: Tensor,
        conics: Tensor,
        opacities: Tensor,
        features: Tensor,
        depths: Tensor,
        width: int,
        height: int,
        background: Tensor | None = None,
        *,
        depth_slopes: Tensor | None = None,
        backend: str = "cpu",
    ) -> None:
        _check(means2d, conics, opacities, features, depths, depth_slopes, width, height, background)
        checks.check_backend(backend)
        if features.shape[1] > MAX_CHANNELS:
            raise ValueError(f"features: expected at most {MAX_CHANNELS} channels, got {features.shape[1]}")
        self._backend = backend
        self._inputs = [tensor.detach().contiguous() for tensor in (means2d, conics, opacities, features)]
        self._depths = depths.detach().contiguous()
        self._slopes = None if depth_slopes is None else depth_slopes.detach().contiguous()
        self._background = None if background is None else background.detach().contiguous()
        self._context: Context | None = None
        place = (self._inputs, self._depths, self._slopes, self._background, width, height)
        if backend == "reference":
            with torch.no_grad():
                self.image, self.alpha = reference.rasterize(
                    means2d, conics, opacities, features, depths, width, height, background, depth_slopes
                )
        else:
            check_place(backend, means2d)
            self.image, self.alpha, self._context = _forward(backend, *place, save=True)

    def backward(self, v_image: Tensor, v_alpha: Tensor | None, *, absolute: bool = False) -> list[Tensor]:
        """Goes backward from the gradients of the image and of alpha.

        Args:
            v_image: [height, width, C].
            v_alpha: [height, width], or None for zero.
            absolute: whether to make absolute gradients, too: sums over pixels of |dL/dmeans2d|, each component by itself.
                They do not cancel where pixels pull a centre in different directions (Ye et al. 2024, "AbsGS").

        Returns:
            The gradients of means2d, conics, opacities and features; with ``absolute`` a fifth tensor [N, 2].

        Raises:
            ValueError: a gradient has another shape or type than what it belongs to.
        """
        checks.check_tensor("v_image", v_image, tuple(self.image.shape), self.image)
        if v_alpha is not None:
            checks.check_tensor("v_alpha", v_alpha, tuple(self.alpha.shape), self.alpha)
        cotangents = (v_image.contiguous(), contiguous(v_alpha))
        if self._backend == "reference":
            return reference.gradients(
                self._inputs,
                self._depths,
                self._background,
                *cotangents,
                absolute=absolute,
                depth_slopes=self._slopes,
            )
        saved = (self._inputs, self._background, self.image, self.alpha, self._context)
        return _backward(self._backend, *saved, *cotangents, None, absolute=absolute)


class _Rasterize(torch.autograd.Function):
    """A backend's forward and its hand-derived backward."""

    @staticmethod
    def forward(
        ctx: Any,
        means2d: Tensor,
        conics: Tensor,
        opacities: Tensor,
        features: Tensor,
        depths: Tensor,
        depth_slopes: Tensor | None,
        width: int,
        height: int,
        background: Tensor | None,
        backend: str,
        save: bool,
    ) -> tuple[Tensor, Tensor]:
        inputs = [tensor.detach().contiguous() for tensor in (means2d, conics, opacities, features)]
        backdrop = None if background is None else background.detach().contiguous()
        slopes = None if depth_slopes is None else depth_slopes.detach().contiguous()
        place = (inputs, depths.detach().contiguous(), slopes, backdrop, width, height)
        image, alpha, ctx.context = _forward(backend, *place, save=save)
        ctx.save_for_backward(*inputs, backdrop, image, alpha)
        ctx.backend = backend
        ctx.set_materialize_grads(False)
        return image, alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v_image: Tensor | None, v_alpha: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, backdrop, image, alpha = ctx.saved_tensors
        v_image = torch.zeros_like(image) if v_image is None else v_image.contiguous()
        v_background = torch.empty_like(backdrop) if ctx.needs_input_grad[8] else None
        saved = (inputs, backdrop, image, alpha, ctx.context)
        v_inputs = _backward(ctx.backend, *saved, v_image, contiguous(v_alpha), v_background)
        return (*v_inputs, None, None, None, None, v_background, None, None)


def _forward(
    backend: str,
    inputs: list[Tensor],
    depths: Tensor,
    depth_slopes: Tensor | None,
    background: Tensor | None,
    width: int,
    height: int,
    *,
    save: bool,
) -> tuple[Tensor, Tensor, Context | None]:
    """The forward of contiguous means2d, conics, opacities, features: image, alpha, and what backward needs."""
    if backend == "cuda":
        return cuda.forward(inputs, depths, depth_slopes, background, width, height, save=save)
    image = depths.new_empty(height, width, inputs[3].shape[1])
    alpha = depths.new_empty(height, width)
    context = RasterContext()
    fields = _fields(inputs, background, image, alpha)
    scalar = checks.scalar_name(image.dtype)
    order = {"depths": depths.data_ptr(), "depth_slopes": address(depth_slopes)}
    native.call("rasterize_fwd", scalar, context=context.slot_address, **order, **fields)
    context.own()
    return image, alpha, context


def _backward(
    backend: str,
    inputs: list[Tensor],
    background: Tensor | None,
    image: Tensor,
    alpha: Tensor,
    context: Context | None,
    v_image: Tensor,
    v_alpha: Tensor | None,
    v_background: Tensor | None,
    *,
    absolute: bool = False,
) -> list[Tensor]:
    """Gradients of ``inputs``, and the absolute ones if asked for; ``v_background`` is filled where it is given."""
    if backend == "cuda":
        assert isinstance(context, cuda.Saved)
        if v_background is not None:
            v_background.copy_((v_image * (1 - alpha)[..., None]).sum((0, 1), dtype=torch.float64))
        return cuda.backward(inputs, image, alpha, context, v_image, v_alpha, absolute=absolute)
    assert isinstance(context, RasterContext)
    v_inputs = [torch.empty_like(tensor) for tensor in inputs]
    if absolute:
        v_inputs.append(torch.empty_like(inputs[0]))
    native.call(
        "rasterize_bwd",
        checks.scalar_name(image.dtype),
        context=context.handle,
        v_image=v_image.data_ptr(),
        v_alpha=address(v_alpha),
        v_means2d=v_inputs[0].data_ptr(),
        v_conics=v_inputs[1].data_ptr(),
        v_opacities=v_inputs[2].data_ptr(),
        v_features=v_inputs[3].data_ptr(),
        v_background=address(v_background),
        v_abs_means2d=address(v_inputs[4]) if absolute else 0,
        **_fields(inputs, background, image, alpha),
    )
    return v_inputs


def _fields(inputs: list[Tensor], background: Tensor | None, image: Tensor, alpha: Tensor) -> dict[str, int]:
    """The fields that the native forward and backward have in common."""
    means2d, conics, opacities, features = inputs
    height, width, channels = image.shape
    return {
        "count": means2d.shape[0],
        "width": width,
        "height": height,
        "channels": channels,
        "means2d": means2d.data_ptr(),
        "conics": conics.data_ptr(),
        "opacities": opacities.data_ptr(),
        "features": features.data_ptr(),
        "background": address(background),
        "image": image.data_ptr(),
        "alpha": alpha.data_ptr(),
    }
