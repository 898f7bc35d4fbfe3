"""The op ``sh_colors``: values, gradients, the sRGB curve and extreme inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gradient_check import relative_l2, weighted_sum
from scipy.special import lpmv
from splat_scenes import camera, splats, threads
from torch import Tensor

from splat_engine.formats import conventions
from splat_engine.ops.project import CAMERA_MODELS
from splat_engine.ops.reference.sh import linear_from_srgb, sh_basis
from splat_engine.ops.sh import sh_colors

both_models = pytest.mark.parametrize("model", CAMERA_MODELS)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_backends = pytest.mark.parametrize("backend", ["cpu", "reference"])
each_degree = pytest.mark.parametrize("degree", [0, 1, 2, 3])
decode_or_not = pytest.mark.parametrize("decode", [False, True])


def inputs_of(count: int, model: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> dict[str, Tensor]:
    made = splats(count, dtype, seed)
    return {"means": made["means"], "sh": made["sh"], "viewmat": camera(model, dtype)[0]}


@both_types
@both_models
@each_degree
@decode_or_not
def test_cpu_equals_reference(dtype: torch.dtype, model: str, degree: int, decode: bool) -> None:
    """Values and gradients of the CPU backend are the reference's; some colours are clamped, some above 1."""
    inputs = inputs_of(203, model, dtype)
    inputs["sh"] = inputs["sh"] * 3
    values, gradients = (1e-6, 2e-5) if dtype == torch.float32 else (1e-14, 1e-12)
    results = []
    for backend in ("cpu", "reference"):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        colors = sh_colors(**leaves, degree=degree, camera_model=model, decode=decode, backend=backend)
        weighted_sum((colors,)).backward()
        results.append((colors.detach(), {name: leaf.grad for name, leaf in leaves.items()}))
    (colors, v_cpu), (expected, v_reference) = results
    assert (expected == 0).any() and (expected > 1).any()
    assert relative_l2(colors, expected) < values
    for name in inputs:
        if v_reference[name] is None:  # where the direction is not looked at or is the camera's
            assert degree == 0 or model == "orthographic"
            assert not v_cpu[name].any()
        else:
            assert relative_l2(v_cpu[name], v_reference[name]) < gradients, name
    assert v_cpu["means"].any() == (degree > 0 and model == "perspective")
    assert v_cpu["viewmat"].any() == (degree > 0)
    assert not v_cpu["sh"][:, (degree + 1) ** 2 :].any()


@both_models
@each_degree
@decode_or_not
def test_gradcheck(model: str, degree: int, decode: bool) -> None:
    """The Jacobian by coefficients, means and camera is that of central differences."""
    inputs = inputs_of(5, model)
    colors = sh_colors(**inputs, degree=degree, camera_model=model, decode=decode)
    assert int((colors > 0.05).sum()) > 5
    leaves = tuple(tensor.requires_grad_() for tensor in inputs.values())

    def function(*tensors: Tensor) -> Tensor:
        return sh_colors(*tensors, degree=degree, camera_model=model, decode=decode)

    assert torch.autograd.gradcheck(function, leaves, atol=1e-7, rtol=1e-6)


def test_basis_is_the_real_spherical_harmonics() -> None:
    """Against scipy's associated Legendre functions: order (l, m), Condon-Shortley phase kept as 3DGS keeps it."""
    generator = torch.Generator().manual_seed(2)
    directions = torch.randn(30, 3, generator=generator, dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    values = sh_basis(directions, 3).numpy()
    x, y, z = directions.numpy().T
    azimuth = np.arctan2(y, x)
    for degree in range(4):
        for order in range(-degree, degree + 1):
            m = abs(order)
            norm = math.sqrt(
                (2 * degree + 1) / (4 * math.pi) * math.factorial(degree - m) / math.factorial(degree + m)
            )
            wave = math.sqrt(2) * (np.sin(m * azimuth) if order < 0 else np.cos(m * azimuth)) if m else 1.0
            np.testing.assert_allclose(
                values[:, degree * (degree + 1) + order], norm * lpmv(m, degree, z) * wave, atol=1e-14
            )


@both_backends
def test_direction_runs_from_the_camera_to_the_splat(backend: str) -> None:
    """A coefficient of Y_1,0 = 0.4886 z shows the direction's z: world frame, camera centre -R^T t."""
    inputs = inputs_of(10, "perspective")
    inputs["sh"] = torch.zeros(10, 4, 3, dtype=torch.float64)
    inputs["sh"][:, 2] = 1.0
    center = torch.linalg.inv(inputs["viewmat"])[:3, 3]
    offsets = inputs["means"] - center
    expected = 0.5 + conventions.SH_C0 * math.sqrt(3) * offsets[:, 2] / offsets.norm(dim=1)
    colors = sh_colors(**inputs, degree=1, backend=backend)
    assert torch.allclose(colors, expected[:, None].expand(10, 3), rtol=1e-12)
    forward = sh_colors(**inputs, degree=1, camera_model="orthographic", backend=backend)
    assert torch.allclose(
        forward, torch.full_like(forward, 0.5) + conventions.SH_C0 * math.sqrt(3) * inputs["viewmat"][2, 2]
    )


@both_backends
def test_clamped_colors_have_no_gradient(backend: str) -> None:
    """Where 0.5 + SH is below zero the colour is 0 and nothing learns through it; above one it goes on."""
    inputs = inputs_of(2, "perspective")
    inputs["sh"][0, 0], inputs["sh"][0, 1:] = -3.0, 0.0
    inputs["sh"][1, 0], inputs["sh"][1, 1:] = 30.0, 0.0
    inputs["sh"].requires_grad_()
    inputs["means"].requires_grad_()
    colors = sh_colors(**inputs, degree=3, decode=True, backend=backend)
    colors.sum().backward()
    assert torch.equal(colors[0].detach(), torch.zeros(3, dtype=torch.float64))
    assert (colors[1] > 50).all()
    assert not inputs["sh"].grad[0].any() and not inputs["means"].grad[0].any()
    assert (inputs["sh"].grad[1, 0] > 10).all()


@both_backends
@both_types
def test_not_finite_and_coincident_splats(backend: str, dtype: torch.dtype) -> None:
    """A splat at the camera's centre shows its constant coefficient; what is not finite is black; gradients are finite."""
    inputs = inputs_of(6, "perspective", dtype)
    viewmat = inputs["viewmat"]
    inputs["means"][0] = -viewmat[:3, :3].T @ viewmat[:3, 3]
    inputs["means"][1, 0] = math.nan
    inputs["means"][2, 1] = math.inf
    inputs["sh"][3, 5, 0] = math.nan
    inputs["sh"][4, 0, 1] = math.inf
    if dtype == torch.float64:  # exactly: rounding may leave a distance
        inputs["means"][0] = sum(-viewmat[row, :3] * viewmat[row, 3] for row in range(3))
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs.items()}
    colors = sh_colors(**leaves, degree=3, decode=True, backend=backend)
    assert torch.isfinite(colors).all()
    assert colors[3, 0] == 0 and colors[4, 1] == 0 and colors[5].any()
    for row in (1, 2):
        constant = linear_from_srgb((0.5 + conventions.SH_C0 * inputs["sh"][row, 0]).clamp_min(0))
        assert torch.allclose(colors[row], constant, rtol=1e-5)
    colors.sum().backward()
    for name, leaf in leaves.items():
        if name == "sh" or backend == "cpu":
            assert torch.isfinite(leaf.grad).all(), name
    assert not leaves["sh"].grad[3, :, 0].any() and leaves["sh"].grad[5].any()


@both_backends
def test_no_splats(backend: str) -> None:
    """N = 0 gives no colours and a zero gradient to the camera."""
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs_of(0, "perspective").items()}
    colors = sh_colors(**leaves, degree=3, backend=backend)
    assert colors.shape == (0, 3)
    colors.sum().backward()
    assert leaves["sh"].grad.shape == (0, 16, 3) and not leaves["viewmat"].grad.any()


@both_backends
def test_srgb_curve_and_its_gradient(backend: str) -> None:
    """Decoding is the sRGB curve without upper limit, continuous and with the right slope on both sides of its knee."""
    encoded = torch.tensor([1e-4, 0.02, 0.0404, 0.0405, 0.1, 0.5, 1.0, 1.7, 12.0], dtype=torch.float64)
    sh = ((encoded - 0.5) / conventions.SH_C0)[:, None, None].expand(-1, 1, 3).contiguous().requires_grad_()
    viewmat = camera("perspective")[0]
    colors = sh_colors(
        torch.zeros(9, 3, dtype=torch.float64), sh, viewmat, degree=0, decode=True, backend=backend
    )
    np.testing.assert_allclose(
        colors[:, 0].detach(), conventions.linear_from_srgb(encoded.numpy()), rtol=1e-12
    )
    colors.sum().backward()
    step = 1e-6
    slope = (
        conventions.linear_from_srgb(encoded.numpy() + step)
        - conventions.linear_from_srgb(encoded.numpy() - step)
    ) / (2 * step)
    np.testing.assert_allclose(sh.grad[:, 0, 1], slope * conventions.SH_C0, rtol=1e-8)


def test_srgb_curve_in_float32() -> None:
    """The float polynomials for the power hold 1e-6 relative over five decades."""
    encoded = torch.logspace(-3, 2, 4001, dtype=torch.float64)
    sh = ((encoded - 0.5) / conventions.SH_C0)[:, None, None].expand(-1, 1, 3).contiguous()
    # the value as float32 sees it: only the decoding is judged
    viewmat = camera("perspective", torch.float32)[0]
    means = torch.zeros(4001, 3)
    plain = sh_colors(means, sh.float(), viewmat, degree=0)
    decoded = sh_colors(means, sh.float(), viewmat, degree=0, decode=True)
    np.testing.assert_allclose(decoded, conventions.linear_from_srgb(plain.double().numpy()), rtol=1e-6)


def test_threads_do_not_change_a_bit() -> None:
    """Colours and gradients, the camera's sum included, are the same for 1, 2 and 3 threads."""
    inputs = inputs_of(5001, "perspective", torch.float32)
    results = []
    for count in (1, 2, 3):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        with threads(count):
            colors = sh_colors(**leaves, degree=3)
            weighted_sum((colors,)).backward()
        results.append([colors, *(leaf.grad for leaf in leaves.values())])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 4}, "degree: expected 0 to 3"),
        ({"sh": torch.zeros(5, 8, 3)}, "degree 2 needs 9 coefficients, got 8"),
        ({"sh": torch.zeros(5, 9, 4)}, "sh: expected shape"),
        ({"sh": torch.zeros(5, 9, 3, dtype=torch.float64)}, "sh: expected torch.float32"),
        ({"viewmat": torch.zeros(3, 3)}, "viewmat: expected shape"),
        ({"camera_model": "fisheye"}, "unknown camera_model"),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, object], message: str) -> None:
    """A wrong shape, type, degree or name raises a ValueError that says what was expected."""
    with pytest.raises(ValueError, match=message):
        sh_colors(**{**inputs_of(5, "perspective", torch.float32), "degree": 2, **change})
