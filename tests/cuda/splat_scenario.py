"""The scenario of the kernels that give each splat a thread (scenarios.py says what a scenario is)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from splat_engine.ops import ScreenGradients, project, project_colors, relocate, sh_colors, update_splats
from splat_engine.ops.update import GROUPS

COUNT = 165
"""Three blocks of two warps, the last with a warp that is not full and one that is empty; two of the blocks of project."""
SIZE_PX = 40


def run() -> dict[str, Tensor]:
    """Every kernel of project.cu, sh.cu, update.cu and relocate.cu, with culled and unseen splats, and pose gradients."""
    generator = torch.Generator().manual_seed(4)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    params = {
        "means": normal(COUNT, 3),
        "log_scales": 0.3 * normal(COUNT, 3) - 1.5,
        "quats_wxyz": normal(COUNT, 4),
        "opacity_logits": normal(COUNT) + 1,
        "sh": 0.5 * normal(COUNT, 9, 3),
    }
    params["means"][::7, 2] -= 50.0  # behind the camera
    viewmat = torch.eye(4)
    viewmat[2, 3] = 4.0
    intrinsics = torch.tensor([50.0, 52.0, 19.0, 21.0])
    results = _forward_and_backward(params, viewmat, intrinsics, normal)
    moments = {name: (normal(*value.shape), normal(*value.shape) ** 2) for name, value in params.items()}
    _update(params, moments, results["radii"], viewmat, intrinsics, normal)
    opacities, sizes = relocate(
        torch.sigmoid(params["opacity_logits"]),
        params["log_scales"].exp(),
        torch.arange(COUNT) % 9,
        backend="cuda",
    )
    results |= {f"updated_{name}": value for name, value in params.items()}
    results |= {f"first_{name}": pair[0] for name, pair in moments.items()}
    return results | {"relocated_opacities": opacities, "relocated_scales": sizes}


def _forward_and_backward(
    params: dict[str, Tensor], viewmat: Tensor, intrinsics: Tensor, normal: Callable[..., Tensor]
) -> dict[str, Tensor]:
    camera = (viewmat, intrinsics, SIZE_PX, SIZE_PX)
    geometry = [params[name] for name in GROUPS[:4]]
    at_once, colors = project_colors(*geometry, params["sh"], *camera, degree=2, backend="cuda")
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    viewmat, intrinsics = viewmat.clone().requires_grad_(), intrinsics.clone().requires_grad_()
    camera = (viewmat, intrinsics, SIZE_PX, SIZE_PX)
    screen = project(*(leaves[name] for name in GROUPS[:4]), *camera, backend="cuda")
    shown = sh_colors(leaves["means"], leaves["sh"], viewmat, degree=2, backend="cuda")
    outputs = [screen.means2d, screen.depths, screen.conics, screen.opacities, shown]
    torch.autograd.backward(outputs, [normal(*output.shape) for output in outputs])
    gradients = {f"v_{name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    assert viewmat.grad is not None and intrinsics.grad is not None
    return {
        "radii": at_once.radii,
        "colors": colors,
        "shown": shown.detach(),
        "conics": screen.conics.detach(),
        "v_viewmat": viewmat.grad,
        "v_intrinsics": intrinsics.grad,
        **gradients,
    }


def _update(
    params: dict[str, Tensor],
    moments: dict[str, tuple[Tensor, Tensor]],
    radii: Tensor,
    viewmat: Tensor,
    intrinsics: Tensor,
    normal: Callable[..., Tensor],
) -> None:
    """Two steps: of all splats, and of those whose colour has a gradient."""
    rates = dict.fromkeys((*GROUPS, "sh_dc"), 0.01)
    options = {"rates": rates, "step": 3, "degree": 2, "backend": "cuda"}
    seen = torch.arange(COUNT) % 3 > 0
    seen[32:64] = False
    sizes = {"means2d": (2,), "depths": (), "conics": (3,), "opacities": (), "normals": (3,), "colors": (3,)}
    gradients = {name: normal(COUNT, *size) for name, size in sizes.items()}
    unseen = ScreenGradients(colors=gradients["colors"] * seen[:, None])
    camera = (radii, viewmat, intrinsics, SIZE_PX, SIZE_PX)
    update_splats(params, moments, ScreenGradients(**gradients), *camera, **options)  # type: ignore[arg-type]
    update_splats(params, moments, unseen, *camera, **options, sparse=True)  # type: ignore[arg-type]
