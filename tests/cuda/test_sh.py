"""The kernels of ``sh_colors`` and ``project_colors``, emulated: equal to the CPU's and to the reference."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_check import relative_l2
from splat_scenes import HEIGHT, WIDTH, camera, geometry, splats
from torch import Tensor

from splat_engine.ops import project_colors, sh_colors
from splat_engine.ops.project import CAMERA_MODELS
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order
from tests.cuda.splat_comparisons import (
    GRADIENTS,
    assert_colors_agree,
    assert_project_colors_agrees,
    colored_by,
    sh_inputs,
)

both_models = pytest.mark.parametrize("model", CAMERA_MODELS)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
each_degree = pytest.mark.parametrize("degree", [0, 1, 2, 3])
decode_or_not = pytest.mark.parametrize("decode", [False, True])
pytestmark = pytest.mark.usefixtures("emulated")


@both_types
@both_models
@each_degree
@decode_or_not
def test_equals_the_cpu(dtype: torch.dtype, model: str, degree: int, decode: bool) -> None:
    """Values and gradients, the camera's included; some colours are clamped, some above 1."""
    inputs = sh_inputs(203, model, dtype, coefficients=(degree + 1) ** 2)
    colors = assert_colors_agree(inputs, "cpu", degree=degree, camera_model=model, decode=decode)
    assert (colors == 0).any() and (colors > 1).any()


@both_models
@decode_or_not
def test_equals_the_reference(model: str, decode: bool) -> None:
    """In double, against the plain torch statement."""
    inputs = sh_inputs(70, model, torch.float64)
    assert_colors_agree(inputs, "cpu", "reference", degree=3, camera_model=model, decode=decode)


@every_order
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 130])
def test_any_number_of_splats(emulated: EmulatedLauncher, count: int) -> None:
    """Less than a warp, a whole block, one more; in every order of threads and blocks."""
    inputs = sh_inputs(count, "perspective", torch.float32)
    assert assert_colors_agree(inputs, "cpu", degree=3, decode=True).any()


@pytest.mark.parametrize(("degree", "coefficients"), [(0, 16), (1, 9), (2, 16), (1, 5), (3, 20), (0, 70)])
def test_coefficients_above_the_degree(degree: int, coefficients: int) -> None:
    """They are ignored, whatever stands there, and their gradient is 0, however many they are."""
    inputs = sh_inputs(45, "perspective", torch.float64, coefficients)
    assert_colors_agree(inputs, "cpu", degree=degree)
    inputs["sh"][:, (degree + 1) ** 2 :] = math.nan
    _, gradients = colored_by("cuda", "cpu", inputs, degree=degree)
    assert not gradients["sh"][:, (degree + 1) ** 2 :].any() and gradients["sh"].any()


@both_models
@each_degree
def test_gradcheck(model: str, degree: int) -> None:
    """The Jacobian by coefficients, means and camera is that of central differences."""
    made = sh_inputs(2, model, torch.float64, (degree + 1) ** 2)
    made["sh"] = made["sh"] / 3
    leaves = tuple(tensor.requires_grad_() for tensor in made.values())

    def function(*tensors: Tensor) -> Tensor:
        return sh_colors(*tensors, degree=degree, camera_model=model, decode=True, backend="cuda")

    assert int((function(*leaves) > 0.05).sum()) > 3
    assert torch.autograd.gradcheck(function, leaves, atol=1e-7, rtol=1e-6)


@both_types
def test_not_finite_and_coincident_splats(dtype: torch.dtype) -> None:
    """As on the CPU: constant colour where there is no direction, black where a colour is not finite, sound gradients."""
    inputs = sh_inputs(40, "perspective", dtype)
    viewmat = inputs["viewmat"]
    inputs["means"][0] = sum(-viewmat[row, :3] * viewmat[row, 3] for row in range(3))
    inputs["means"][1, 0], inputs["means"][2, 1] = math.nan, math.inf
    inputs["sh"][3, 5, 0], inputs["sh"][4, 0, 1] = math.nan, math.inf
    got, v_got = colored_by("cuda", "cpu", inputs, degree=3, decode=True)
    want, v_want = colored_by("cpu", "cpu", inputs, degree=3, decode=True)
    sound = slice(1, None)  # the first has a distance of rounding errors in float
    assert torch.isfinite(got).all() and relative_l2(got[sound], want[sound]) < GRADIENTS[dtype]
    assert got[3, 0] == 0 and got[4, 1] == 0
    for name in ("means", "sh"):
        assert torch.isfinite(v_got[name]).all()
        assert relative_l2(v_got[name][sound], v_want[name][sound]) < GRADIENTS[dtype]


@every_order
def test_no_splats(emulated: EmulatedLauncher) -> None:
    """N = 0 gives no colours and a zero gradient to the camera, which is all that is launched."""
    colors, gradients = colored_by("cuda", "cpu", sh_inputs(0, "perspective", torch.float32), degree=3)
    assert colors.shape == (0, 3) and gradients["sh"].shape == (0, 16, 3) and not gradients["viewmat"].any()
    assert dict(emulated.launches) == {"sh_camera_bwd_f32": 1}


@both_types
@both_models
@each_degree
@decode_or_not
def test_project_colors_is_both_ops(dtype: torch.dtype, model: str, degree: int, decode: bool) -> None:
    """In one kernel, for a scene that is partly culled."""
    visible = assert_project_colors_agrees(150, model, dtype, degree, decode, decode, "cpu")
    assert 20 < int(visible.sum()) < 140


@every_order
@pytest.mark.parametrize("count", [0, 1, 33, 64, 97])
def test_project_colors_of_any_number(emulated: EmulatedLauncher, count: int) -> None:
    """One launch, or none for no splats."""
    assert_project_colors_agrees(count, "perspective", torch.float32, 3, True, False, "cpu")
    assert dict(emulated.launches) == ({"project_colors_fwd_f32": 1} if count else {})


def test_culled_splats_are_black() -> None:
    """Whatever their coefficients are: with a whole warp of them, and with some in a warp."""
    made = splats(96)
    culled = (torch.arange(96) < 32) | (torch.arange(96) % 5 == 0)
    made["means"][culled] += 1000.0
    made["sh"][culled] = math.nan
    tensors = (*geometry(made), made["sh"], *camera("perspective"))
    projected, colors = project_colors(*tensors, WIDTH, HEIGHT, degree=3, backend="cuda")
    assert torch.equal(projected.radii[:, 0] == 0, culled)
    assert not colors[culled].any() and (colors[~culled].sum(dim=1) > 0).all()
