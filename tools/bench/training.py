"""One training step of the engine, and its two halves: the only module of the benchmark that knows how the engine trains.

Whoever changes how a step is made changes ``make_workload``; times, stages and memory are taken from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from splat_engine import native
from splat_engine.fit.drawing import draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.gradients import compare_view
from splat_engine.fit.model import SplatState
from splat_engine.fit.optimizer import Adam, Seen
from splat_engine.fit.place import CPU, send
from splat_engine.fit.schedule import Schedule
from splat_engine.fit.steps import take_step
from splat_engine.fit.views import camera_tensors, mapped, view_tensors
from splat_engine.formats.settings import LossSettings, OptimizerSettings
from splat_engine.native.memory import keep_freed_memory
from tools.bench.inputs import BenchInput

STANDSTILL = OptimizerSettings(
    means=1e-12, log_scales=1e-12, quats=1e-12, opacity_logits=1e-12, sh_dc=1e-12, sh_rest=1e-12
)
"""Rates too small to change a number: each step does the whole work, and the next one finds the same splats."""


@dataclass(frozen=True)
class Workload:
    """What the benchmark runs, on one input.

    Attributes:
        forward: From raw parameters to the image; what it returns keeps alive what the backward needs.
        backward: From what ``forward`` returned and the input's cotangent to the gradient of every parameter.
        step: A whole training step, as a fit takes it: forward, L1 and D-SSIM against a target, backward, Adam over all
            parameters.
        step_in_parts: The same, an op after the other: on the CPU ``step`` is one native call, whose stages cannot be timed.
    """

    forward: Callable[[], Any]
    backward: Callable[[Any], None]
    step: Callable[[], None]
    step_in_parts: Callable[[], None]


def set_up_process(threads: int) -> None:
    """Sets the threads of the engine and of torch, and the allocator as the engine's own process does."""
    keep_freed_memory()
    native.set_num_threads(threads)
    torch.set_num_threads(threads)


def make_workload(
    given: BenchInput, formation_name: str, backend: str = "cpu", device: torch.device = CPU.device
) -> Workload:
    """Prepares an input; the first step of what it returns also makes Adam's moments.

    Args:
        given: The splats, the camera and the cotangent.
        formation_name: "blender" or "classic".
        backend: "cpu", "cuda" or "reference".
        device: Where the backend computes.
    """
    formation = ImageFormation(formation_name)  # type: ignore[arg-type]
    state = SplatState.from_splats(given.splats).to(device)
    viewmat, intrinsics = (send(values, device) for values in camera_tensors(given.camera))
    cotangent = torch.from_numpy(given.image_cotangent).to(device)
    background = torch.zeros(3, device=device)

    leaves = {name: value.detach().requires_grad_() for name, value in state.params.items()}

    def forward() -> Any:
        return draw(
            leaves, viewmat, intrinsics, given.camera, formation, background=background, backend=backend
        )

    def backward(drawn: Any) -> None:
        torch.autograd.grad([drawn.blended], list(leaves.values()), [cotangent])

    # The target is the drawing's mirror image: as smooth as a view, and different wherever there is something.
    with torch.no_grad():
        drawn = forward()
    target = view_tensors(given.camera, drawn.blended.flip(1).clamp(0, 1), drawn.alpha.flip(1))
    view = mapped(target, lambda value: send(value, device))
    del drawn
    adam = Adam(STANDSTILL, formation, extent=1.0, schedule=Schedule(10**6), backend=backend)
    loss = LossSettings()
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        take_step(
            state,
            view,
            background,
            adam,
            formation,
            loss,
            count,
            extent=1.0,
            geometry_share=1.0,
            log_scale_floors=None,
            check_loss=lambda _: None,
        )

    def step_in_parts() -> None:
        nonlocal count
        count += 1
        options = {"extent": 1.0, "geometry_share": 1.0, "backend": backend}
        compared = compare_view(state, view, background, formation, loss, **options)  # type: ignore[arg-type]
        seen = Seen(compared.gradients, compared.radii, viewmat, intrinsics, given.camera)
        adam.step(state, seen, count)

    return Workload(forward, backward, step, step_in_parts)
