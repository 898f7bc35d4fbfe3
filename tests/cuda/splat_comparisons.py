"""Kernels of project.cu and sh.cu against the CPU's: what the emulated tests and those on a card both run.

``device`` is where backend "cuda" finds its tensors: "cpu" in emulation, "cuda" on a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gradient_check import relative_l2, weighted_sum
from splat_scenes import HEIGHT, WIDTH, camera, geometry, splats
from torch import Tensor

from splat_engine.ops import Projected, project, project_colors, sh_colors

VALUES = {torch.float32: 5e-6, torch.float64: 1e-13}
GRADIENTS = {torch.float32: 2e-5, torch.float64: 1e-11}
"""Relative L2 errors. Those of a whole chain in float may be 1e-5 and 1e-4 (DESIGN.md); these are single ops."""

MODES = {"none": (0.0, False), "classic": (0.3, False), "antialiased": (0.1, True)}
"""dilation_px2 and antialiased of the image formations."""
PROJECT_INPUTS = ("means", "log_scales", "quats_wxyz", "opacity_logits", "viewmat", "intrinsics")


def project_inputs(
    count: int, model: str, dtype: torch.dtype, spread: float = 3.0, seed: int = 0
) -> dict[str, Tensor]:
    """The arguments of ``project`` by name, of a scene that reaches beyond the image."""
    tensors = (*geometry(splats(count, dtype, seed, spread)), *camera(model, dtype))
    return dict(zip(PROJECT_INPUTS, tensors, strict=True))


def projected_by(
    backend: str, device: str, inputs: Mapping[str, Tensor], model: str, mode: str
) -> tuple[Projected, dict[str, Tensor | None]]:
    """Outputs of ``project``, and the gradients of a weighted sum of them by every input, on the CPU."""
    dilation, antialiased = MODES[mode]
    leaves = {name: tensor.clone().to(device).requires_grad_() for name, tensor in inputs.items()}
    options: dict[str, Any] = {"camera_model": model, "dilation_px2": dilation, "antialiased": antialiased}
    options |= {"with_normals": True, "with_depth_slopes": True}
    out = project(*leaves.values(), WIDTH, HEIGHT, backend=backend, **options)
    on_cpu = Projected(*(None if tensor is None else tensor.cpu() for tensor in out))
    weighted_sum(differentiable(on_cpu)).backward()
    return on_cpu, {name: None if leaf.grad is None else leaf.grad.cpu() for name, leaf in leaves.items()}


def differentiable(projected: Projected) -> tuple[Tensor, ...]:
    """The outputs that have a gradient."""
    assert projected.normals is not None
    return (projected.means2d, projected.depths, projected.conics, projected.opacities, projected.normals)


def assert_project_agrees(
    inputs: Mapping[str, Tensor], model: str, mode: str, device: str, other: str = "cpu"
) -> Tensor:
    """Values and gradients of "cuda" are those of another backend, culled splats the same; returns who is visible."""
    dtype = inputs["means"].dtype
    got, v_got = projected_by("cuda", device, inputs, model, mode)
    want, v_want = projected_by(other, "cpu", inputs, model, mode)
    visible = (want.radii > 0).all(dim=1)
    for name, one, two in zip(Projected._fields, got, want, strict=True):
        assert torch.isfinite(one).all() and not one[~visible].any(), name
        assert relative_l2(one, two) < VALUES[dtype], name
    for name in inputs:
        one, two = v_got[name], v_want[name]
        assert one is not None and two is not None and torch.isfinite(one).all(), name
        assert relative_l2(one, two) < GRADIENTS[dtype], name
        assert name in ("viewmat", "intrinsics") or not one[~visible].any()
    return visible


def sh_inputs(count: int, model: str, dtype: torch.dtype, coefficients: int = 16) -> dict[str, Tensor]:
    """The arguments of ``sh_colors`` by name; some colours are below zero, some above one."""
    made = splats(count, dtype)
    more = made["sh"].repeat(1, -(-coefficients // 16), 1)[:, :coefficients]
    return {"means": made["means"], "sh": (3 * more).contiguous(), "viewmat": camera(model, dtype)[0]}


def colored_by(
    backend: str, device: str, inputs: Mapping[str, Tensor], **options: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """Colours and the gradients of a weighted sum of them by every input (0 where there is none), on the CPU."""
    leaves = {name: tensor.clone().to(device).requires_grad_() for name, tensor in inputs.items()}
    colors = sh_colors(**leaves, backend=backend, **options).cpu()
    weighted_sum((colors,)).backward()
    gradients = {
        name: torch.zeros_like(inputs[name]) if leaf.grad is None else leaf.grad.cpu()
        for name, leaf in leaves.items()
    }
    return colors.detach(), gradients


def assert_colors_agree(
    inputs: Mapping[str, Tensor], device: str, other: str = "cpu", **options: Any
) -> Tensor:
    """Values and gradients of "cuda" are those of another backend; returns the colours."""
    dtype = inputs["means"].dtype
    got, v_got = colored_by("cuda", device, inputs, **options)
    want, v_want = colored_by(other, "cpu", inputs, **options)
    assert torch.isfinite(got).all() and relative_l2(got, want) < VALUES[dtype]
    for name in inputs:
        assert torch.isfinite(v_got[name]).all()
        assert relative_l2(v_got[name], v_want[name]) < GRADIENTS[dtype], name
    return got


def assert_project_colors_agrees(
    count: int, model: str, dtype: torch.dtype, degree: int, decode: bool, with_normals: bool, device: str
) -> Tensor:
    """The fused forward is the CPU's two calls, where splats are not culled; returns who is visible."""
    made = splats(count, dtype, spread=3.0)
    made["sh"] = 3 * made["sh"]
    options: dict[str, Any] = {
        "degree": degree,
        "camera_model": model,
        "dilation_px2": 0.3,
        "with_normals": with_normals,
        "with_depth_slopes": with_normals,
        "decode": decode,
    }
    results = {}
    for backend, place in (("cuda", device), ("cpu", "cpu")):
        tensors = [tensor.to(place) for tensor in (*geometry(made), made["sh"], *camera(model, dtype))]
        results[backend] = project_colors(*tensors, WIDTH, HEIGHT, backend=backend, **options)
    (got, colors), (want, expected) = results["cuda"], results["cpu"]
    visible = (want.radii > 0).all(dim=1)
    for name, one, two in zip(Projected._fields, got, want, strict=True):
        is_asked_for = with_normals or name not in ("normals", "depth_slopes")
        assert (one is not None) == (two is not None) == is_asked_for
        assert one is None or relative_l2(one.cpu(), two) < VALUES[dtype], name
    assert relative_l2(colors.cpu()[visible], expected[visible]) < VALUES[dtype]
    assert not colors.requires_grad
    return visible
