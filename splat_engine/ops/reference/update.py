"""Reference of ``update_splats``: autograd through projection and colours, then Adam, in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from splat_engine.ops.reference.adam import adam_step
from splat_engine.ops.reference.project import Projected


class ScreenGradients(NamedTuple):
    """Gradients of the loss by what ``project`` and ``sh_colors`` returned; None counts as zero.

    Attributes:
        means2d: [N, 2].
        depths: [N].
        conics: [N, 3].
        opacities: [N].
        normals: [N, 3].
        colors: [N, 3].
    """

    means2d: Tensor | None = None
    depths: Tensor | None = None
    conics: Tensor | None = None
    opacities: Tensor | None = None
    normals: Tensor | None = None
    colors: Tensor | None = None


def update_splats(
    params: Mapping[str, Tensor],
    moments: Mapping[str, tuple[Tensor, Tensor]],
    gradients: ScreenGradients,
    to_screen: Callable[[Mapping[str, Tensor]], tuple[Projected, Tensor]],
    *,
    rates: Mapping[str, float],
    step: int,
    betas: tuple[float, float],
    eps: float,
    sparse: bool,
    log_scale_floors: Tensor | None,
) -> None:
    """Updates parameters and moments in place; see ``splat_engine.ops.update_splats`` for the arguments.

    ``to_screen`` projects and colours the parameters that it is given, differentiably.
    """
    leaves = {name: value.detach().clone().requires_grad_() for name, value in params.items()}
    projected, colors = to_screen(leaves)
    outputs, arrived = [], []
    for name, gradient in gradients._asdict().items():
        output = colors if name == "colors" else getattr(projected, name)
        if gradient is not None and output is not None and output.requires_grad:
            outputs.append(output)
            arrived.append(gradient)
    found = torch.autograd.grad(outputs, list(leaves.values()), arrived, allow_unused=True) if outputs else ()
    visible = _seen(gradients, len(projected.radii), projected.radii.device) if sparse else None
    options = {"step": step, "beta1": betas[0], "beta2": betas[1], "eps": eps, "visible": visible}
    for index, name in enumerate(params):
        gradient = found[index] if index < len(found) else None
        grad = torch.zeros_like(params[name]) if gradient is None else gradient
        if name != "sh":
            adam_step(params[name], grad, *moments[name], lr=rates[name], **options)  # type: ignore[arg-type]
            continue
        for part, rate in ((slice(0, 1), rates["sh_dc"]), (slice(1, None), rates["sh"])):
            rows = [values[:, part] for values in (params[name], grad, *moments[name])]
            adam_step(*rows, lr=rate, **options)  # type: ignore[arg-type]
    if log_scale_floors is not None:
        bounded = torch.maximum(params["log_scales"], log_scale_floors[:, None])
        updated = slice(None) if visible is None else visible
        params["log_scales"][updated] = bounded[updated]


def _seen(gradients: ScreenGradients, count: int, device: torch.device) -> Tensor:
    """[N] bool: splats of which any gradient is not 0."""
    seen = torch.zeros(count, dtype=torch.bool, device=device)
    for gradient in gradients:
        if gradient is not None:
            seen |= (gradient.reshape(count, gradient[:1].numel() or 1) != 0).any(dim=1)
    return seen
