"""Splats in mid-fit for the tests of ``update_splats``, and the comparison of what two updates did to them."""

from __future__ import annotations

from typing import Any

import torch
from gradient_check import relative_l2
from splat_scenes import HEIGHT, WIDTH, camera, splats
from torch import Tensor

from splat_engine.ops import ScreenGradients, adam_step, project, sh_colors, update_splats
from splat_engine.ops.update import GROUPS

RATES = {
    "means": 0.01,
    "log_scales": 0.02,
    "quats_wxyz": 0.03,
    "opacity_logits": 0.05,
    "sh_dc": 0.04,
    "sh": 0.002,
}


class Scene:
    """Splats in mid-fit: parameters, moments that are not zero, a camera, and gradients on its screen."""

    def __init__(
        self,
        count: int = 101,
        dtype: torch.dtype = torch.float64,
        model: str = "perspective",
        coefficients: int = 16,
        **options: Any,
    ) -> None:
        made = splats(count, dtype)
        made["means"][::7, 2] -= 50.0  # behind the camera: culled
        made["sh"] = made["sh"][:, :coefficients].contiguous()
        self.params = {name: made[name] for name in GROUPS}
        self.viewmat, self.intrinsics = camera(model, dtype)
        self.degree = int(coefficients**0.5) - 1
        self.options = {
            "camera_model": model, "dilation_px2": 0.3, "antialiased": False, "near": 0.01, "decode": True, **options
        }  # fmt: skip
        generator = torch.Generator().manual_seed(3)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

        self.moments = {
            name: (0.1 * random(*value.shape), 0.01 + 0.1 * random(*value.shape) ** 2)
            for name, value in self.params.items()
        }
        projected, _ = self.to_screen()
        self.radii = projected.radii
        self.gradients = ScreenGradients(
            random(count, 2),
            random(count),
            random(count, 3),
            random(count),
            random(count, 3),
            random(count, 3),
        )

    def to_screen(self) -> tuple[Any, Tensor]:
        options = dict(self.options)
        decode = options.pop("decode")
        projected = project(
            *(self.params[name] for name in GROUPS[:4]), self.viewmat, self.intrinsics, WIDTH, HEIGHT,
            with_normals=True, **options,
        )  # fmt: skip
        colors = sh_colors(
            self.params["means"], self.params["sh"], self.viewmat, degree=self.degree,
            camera_model=options["camera_model"], decode=decode,
        )  # fmt: skip
        return projected, colors

    def update(self, device: str = "cpu", **changes: Any) -> list[Tensor]:
        """Updates copies on a device; returns parameters, first and second moments, in the order of GROUPS."""

        def copied(tensor: Tensor) -> Tensor:
            return tensor.clone().to(device)

        params = {name: copied(value) for name, value in self.params.items()}
        moments = {name: (copied(a), copied(b)) for name, (a, b) in self.moments.items()}
        arguments = {
            "gradients": self.gradients, "radii": self.radii, "viewmat": self.viewmat,
            "intrinsics": self.intrinsics, "width": WIDTH, "height": HEIGHT, "rates": RATES, "step": 5,
            "degree": self.degree, **self.options, **changes,
        }  # fmt: skip
        gradients = (None if g is None else g.to(device) for g in arguments["gradients"])
        arguments["gradients"] = ScreenGradients(*gradients)
        for name, value in arguments.items():
            if isinstance(value, Tensor):
                arguments[name] = value.to(device)
        update_splats(params, moments, **arguments)
        updated = [
            *params.values(),
            *(pair[0] for pair in moments.values()),
            *(pair[1] for pair in moments.values()),
        ]
        return [tensor.cpu() for tensor in updated]

    def separately(self) -> list[Tensor]:
        """The same by autograd through ``project`` and ``sh_colors``, and ``adam_step`` for each group."""
        leaves = {name: value.clone().requires_grad_() for name, value in self.params.items()}
        kept, self.params = self.params, leaves
        projected, colors = self.to_screen()
        self.params = kept
        outputs = [
            projected.means2d,
            projected.depths,
            projected.conics,
            projected.opacities,
            projected.normals,
            colors,
        ]
        found = torch.autograd.grad(outputs, list(leaves.values()), list(self.gradients))
        results: list[list[Tensor]] = [[], [], []]
        for name, gradient in zip(GROUPS, found, strict=True):
            value = self.params[name].clone()
            first, second = (moment.clone() for moment in self.moments[name])
            if name == "sh":
                parts = [(slice(0, 1), RATES["sh_dc"]), (slice(1, None), RATES["sh"])]
            else:
                parts = [(slice(None), RATES[name])]
            for part, rate in parts:
                rows = (slice(None), part) if name == "sh" else (slice(None),)
                pieces = [tensor[rows].contiguous() for tensor in (value, gradient, first, second)]
                adam_step(*pieces, lr=rate, step=5)
                for tensor, piece in zip((value, first, second), (pieces[0], *pieces[2:]), strict=True):
                    tensor[rows] = piece
            for result, tensor in zip(results, (value, first, second), strict=True):
                result.append(tensor)
        return [*results[0], *results[1], *results[2]]


def changes(scene: Scene, updated: list[Tensor]) -> list[Tensor]:
    """How far each tensor moved: what a test must compare, since most of a parameter is what it was before."""
    before = [
        *scene.params.values(),
        *(p[0] for p in scene.moments.values()),
        *(p[1] for p in scene.moments.values()),
    ]
    return [after - was for after, was in zip(updated, before, strict=True)]


def assert_same_changes(scene: Scene, got: list[Tensor], want: list[Tensor], tolerance: float) -> None:
    """Every number was moved by the same amount, but for a relative L2 error of each tensor."""
    for moved, expected in zip(changes(scene, got), changes(scene, want), strict=True):
        assert not expected.numel() or expected.abs().max() > 0
        assert relative_l2(moved, expected) < tolerance
