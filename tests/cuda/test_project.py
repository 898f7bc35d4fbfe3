"""The kernels of ``project``, emulated: equal to the CPU's and to the reference, forward and backward."""

from __future__ import annotations

import math

import pytest
import torch
from splat_scenes import HEIGHT, WIDTH, culled_cases
from torch import Tensor

from splat_engine.ops import project
from splat_engine.ops.project import CAMERA_MODELS
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order
from tests.cuda.splat_comparisons import (
    MODES,
    assert_project_agrees,
    differentiable,
    project_inputs,
    projected_by,
)

both_models = pytest.mark.parametrize("model", CAMERA_MODELS)
all_modes = pytest.mark.parametrize("mode", MODES)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
pytestmark = pytest.mark.usefixtures("emulated")


@both_types
@both_models
@all_modes
def test_equals_the_cpu(dtype: torch.dtype, model: str, mode: str) -> None:
    """Values and gradients, those of the camera included, for a scene that is partly culled."""
    visible = assert_project_agrees(project_inputs(301, model, dtype), model, mode, "cpu")
    assert 30 < int(visible.sum()) < 290


@both_models
@all_modes
def test_equals_the_reference(model: str, mode: str) -> None:
    """In double, against the plain torch statement."""
    inputs = project_inputs(77, model, torch.float64)
    assert assert_project_agrees(inputs, model, mode, "cpu", "reference").any()


@every_order
@pytest.mark.parametrize("count", [1, 31, 32, 33, 128, 129, 257])
def test_any_number_of_splats(emulated: EmulatedLauncher, count: int) -> None:
    """Less than a warp, a whole block, one more; in every order of threads and blocks."""
    inputs = project_inputs(count, "perspective", torch.float32, spread=1.5)
    assert assert_project_agrees(inputs, "perspective", "classic", "cpu").any()


@both_models
@all_modes
def test_gradcheck(model: str, mode: str) -> None:
    """The Jacobian of every output by every input, camera included, is that of central differences."""
    dilation, antialiased = MODES[mode]
    inputs = project_inputs(2, model, torch.float64, spread=0.8)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        return differentiable(
            project(
                *tensors,
                WIDTH,
                HEIGHT,
                camera_model=model,
                dilation_px2=dilation,
                antialiased=antialiased,
                with_normals=True,
                backend="cuda",
            )
        )

    leaves = tuple(tensor.requires_grad_() for tensor in inputs.values())
    assert all(output.abs().min() > 0 for output in function(*leaves)[:2])
    assert torch.autograd.gradcheck(function, leaves, atol=1e-6, rtol=1e-5)


@both_types
@both_models
def test_what_draws_nothing_is_culled(dtype: torch.dtype, model: str) -> None:
    """Among sound splats, one for each reason to cull it: zero in every output and gradient, the camera's sums untouched."""
    cases = culled_cases(model, dtype)
    inputs = project_inputs(2 * len(cases) + 1, model, dtype, spread=0.8)
    for place, case in enumerate(cases.values()):
        for name, value in case.items():
            inputs[name][2 * place + 1] = value
    visible = assert_project_agrees(inputs, model, "none", "cpu")
    assert not visible[1::2].any() and visible[::2].all()


@both_types
def test_random_extremes(dtype: torch.dtype) -> None:
    """Whatever the numbers: the CPU's values, finite gradients, the same splats culled."""
    generator = torch.Generator().manual_seed(5)
    inputs = project_inputs(400, "perspective", dtype, spread=0.8)
    special = torch.tensor([0.0, 1e-30, 1e-12, 30.0, -30.0, 90.0, 1e6, 1e30, math.inf, -math.inf, math.nan])
    for name in ("means", "log_scales", "quats_wxyz", "opacity_logits"):
        flat = inputs[name].view(-1)
        chosen = torch.rand(flat.shape, generator=generator) < 0.1
        flat[chosen] = special.to(dtype)[torch.randint(len(special), flat.shape, generator=generator)][chosen]
    got, v_got = projected_by("cuda", "cpu", inputs, "perspective", "classic")
    want, _ = projected_by("cpu", "cpu", inputs, "perspective", "classic")
    assert torch.equal(got.radii > 0, want.radii > 0) and 50 < int((want.radii[:, 0] > 0).sum()) < 350
    assert all(torch.isfinite(tensor).all() for tensor in got if tensor is not None)
    assert all(torch.isfinite(gradient).all() for gradient in v_got.values() if gradient is not None)


@every_order
def test_no_splats(emulated: EmulatedLauncher) -> None:
    """N = 0 gives empty outputs and a zero gradient to the camera, which is all that is launched."""
    out, gradients = projected_by(
        "cuda", "cpu", project_inputs(0, "perspective", torch.float64), "perspective", "none"
    )
    assert [tuple(tensor.shape) for tensor in out] == [(0, 2), (0,), (0, 3), (0,), (0, 3), (0, 2), (0, 2)]
    assert torch.equal(gradients["viewmat"], torch.zeros(4, 4, dtype=torch.float64))
    assert torch.equal(gradients["intrinsics"], torch.zeros(4, dtype=torch.float64))
    assert dict(emulated.launches) == {"project_camera_bwd_f64": 1}


def test_the_camera_costs_nothing_where_it_is_fixed(emulated: EmulatedLauncher) -> None:
    """Without a gradient of the camera nothing is summed; with one of them alone, both sums' kernel writes that one."""
    inputs = project_inputs(40, "perspective", torch.float64, spread=0.8)
    inputs["means"].requires_grad_()
    project(*inputs.values(), WIDTH, HEIGHT, backend="cuda").depths.sum().backward()
    assert set(emulated.launches) == {"project_fwd_f64", "project_bwd_f64"}
    inputs["intrinsics"].requires_grad_()
    project(*inputs.values(), WIDTH, HEIGHT, backend="cuda").means2d.sum().backward()
    assert emulated.launches["project_camera_bwd_f64"] == 1 and inputs["viewmat"].grad is None
    assert torch.equal(inputs["intrinsics"].grad[2:], torch.full((2,), 40.0, dtype=torch.float64))
