"""The op ``project``: values, gradients, culling and extreme inputs."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from gradient_check import relative_l2, weighted_sum
from splat_scenes import HEIGHT, WIDTH, camera, culled_cases, geometry, splats, threads
from torch import Tensor

from splat_engine.ops.project import CAMERA_MODELS, Projected, project
from splat_engine.ops.reference import project as reference
from splat_engine.ops.reference.project import rotation_from_quaternion
from splat_engine.ops.reference.sh import DISTANCE_MIN

MODES = {"none": (0.0, False), "classic": (0.3, False), "antialiased": (0.1, True)}
both_models = pytest.mark.parametrize("model", CAMERA_MODELS)
all_modes = pytest.mark.parametrize("mode", MODES)
both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_backends = pytest.mark.parametrize("backend", ["cpu", "reference"])


def run(
    inputs: dict[str, Tensor] | tuple[Tensor, ...], model: str, mode: str = "none", backend: str = "cpu"
) -> Projected:
    tensors = inputs.values() if isinstance(inputs, dict) else inputs
    dilation, antialiased = MODES[mode]
    return project(
        *tensors,
        WIDTH,
        HEIGHT,
        camera_model=model,
        dilation_px2=dilation,
        antialiased=antialiased,
        with_normals=True,
        with_depth_slopes=True,
        backend=backend,
    )


def inputs_of(
    count: int, model: str, dtype: torch.dtype = torch.float64, seed: int = 0, spread: float = 0.8
) -> dict[str, Tensor]:
    names = ("means", "log_scales", "quats_wxyz", "opacity_logits", "viewmat", "intrinsics")
    tensors = (*geometry(splats(count, dtype, seed, spread)), *camera(model, dtype))
    return dict(zip(names, tensors, strict=True))


def differentiable(projected: Projected) -> tuple[Tensor, ...]:
    assert projected.normals is not None
    return (projected.means2d, projected.depths, projected.conics, projected.opacities, projected.normals)


def visible(projected: Projected) -> Tensor:
    return (projected.radii > 0).all(dim=1)


@both_types
@both_models
@all_modes
def test_cpu_equals_reference(dtype: torch.dtype, model: str, mode: str) -> None:
    """Values and gradients of the CPU backend are the reference's, for a scene that is partly culled."""
    inputs = inputs_of(301, model, dtype, spread=3.0)
    leaves = {b: {n: t.clone().requires_grad_() for n, t in inputs.items()} for b in ("cpu", "reference")}
    out = {b: run(leaves[b], model, mode, b) for b in leaves}
    assert torch.equal(visible(out["cpu"]), visible(out["reference"]))
    assert 30 < int(visible(out["cpu"]).sum()) < 290
    values, gradients = (2e-6, 2e-5) if dtype == torch.float32 else (1e-13, 1e-12)
    for name, a, b in zip(Projected._fields, out["cpu"], out["reference"], strict=True):
        # slopes are a quotient of differences
        assert relative_l2(a, b) < values * (50 if name == "depth_slopes" else 1), name
    for backend in leaves:
        weighted_sum(differentiable(out[backend])).backward()
    for name in inputs:
        a, b = leaves["cpu"][name].grad, leaves["reference"][name].grad
        assert a is not None and b is not None and float(b.norm()) > 0
        assert relative_l2(a, b) < gradients, name


@both_models
@all_modes
def test_gradcheck(model: str, mode: str) -> None:
    """The Jacobian of every output by every input, camera included, is that of central differences."""
    inputs = inputs_of(5, model)
    assert visible(run(inputs, model, mode)).all()
    leaves = tuple(tensor.requires_grad_() for tensor in inputs.values())
    assert torch.autograd.gradcheck(
        lambda *a: differentiable(run(a, model, mode)), leaves, atol=1e-6, rtol=1e-5
    )


def splat_beside_the_frustum() -> dict[str, Tensor]:
    """One large splat that is centred far left of and below the image and reaches into it."""
    inputs = inputs_of(1, "perspective")
    viewmat = inputs["viewmat"]
    in_camera = torch.tensor([-2.5, 2.2, 2.5], dtype=torch.float64)
    inputs["means"] = (viewmat[:3, :3].T @ (in_camera - viewmat[:3, 3]))[None]
    inputs["log_scales"] = torch.full((1, 3), math.log(0.9), dtype=torch.float64) + torch.tensor(
        [0.1, 0.0, -0.2]
    )
    return inputs


@both_backends
def test_gradient_where_the_jacobian_is_clamped(backend: str) -> None:
    """A splat outside the frustum gets no gradient through its clamped ratio; the intrinsics get the exact one."""
    inputs = splat_beside_the_frustum()
    fx, fy, cx, cy = inputs["intrinsics"].tolist()
    out = run(inputs, "perspective", backend=backend)
    assert visible(out).all()
    assert out.means2d[0, 0] < -0.15 * WIDTH and out.means2d[0, 1] > 1.15 * HEIGHT
    leaves = tuple(tensor.requires_grad_() for tensor in inputs.values())
    assert torch.autograd.gradcheck(
        lambda *a: differentiable(run(a, "perspective", backend=backend)), leaves, atol=1e-6, rtol=1e-5
    )
    # moving it sideways in the camera moves the centre, but changes the conic not at all
    inputs["means"].grad = None
    run(inputs, "perspective", backend=backend).conics.sum().backward()
    gradient = inputs["viewmat"][:3, :3].detach() @ inputs["means"].grad[0]
    assert gradient[:2].abs().max() < 1e-12 and gradient[2].abs() > 1e-6


@both_types
def test_conic_is_the_inverse_of_the_projected_covariance(dtype: torch.dtype) -> None:
    """The conic, the depth and the centre agree with a direct numpy computation of EWA splatting."""
    inputs = inputs_of(20, "perspective", dtype)
    out = run(inputs, "perspective", "classic")
    n = {name: tensor.double().numpy() for name, tensor in inputs.items()}
    fx, fy, cx, cy = n["intrinsics"]
    for i in range(20):
        w, x, y, z = n["quats_wxyz"][i] / np.linalg.norm(n["quats_wxyz"][i])
        turn = np.array([[w, -z, y], [z, w, -x], [-y, x, w]])
        rotation = np.outer([x, y, z], [x, y, z]) + turn @ turn
        sigma = rotation @ np.diag(np.exp(2 * n["log_scales"][i])) @ rotation.T
        p = n["viewmat"][:3, :3] @ n["means"][i] + n["viewmat"][:3, 3]
        jacobian = np.array([[fx / p[2], 0, -fx * p[0] / p[2] ** 2], [0, fy / p[2], -fy * p[1] / p[2] ** 2]])
        j_w = jacobian @ n["viewmat"][:3, :3]
        inverse = np.linalg.inv(j_w @ sigma @ j_w.T + 0.3 * np.eye(2))
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        np.testing.assert_allclose(
            out.conics[i], inverse[[0, 0, 1], [0, 1, 1]], rtol=tolerance, atol=tolerance
        )
        np.testing.assert_allclose(
            out.means2d[i], [fx * p[0] / p[2] + cx, fy * p[1] / p[2] + cy], rtol=tolerance
        )
        assert math.isclose(out.depths[i], p[2], rel_tol=tolerance)


@both_backends
def test_orthographic_size_does_not_depend_on_depth(backend: str) -> None:
    """Moved along the view direction, an orthographic splat keeps its place and its conic; a perspective one does not."""
    for model, same in (("orthographic", True), ("perspective", False)):
        inputs = inputs_of(6, model)
        before = run(inputs, model, backend=backend)
        inputs["means"] = inputs["means"] + 0.7 * inputs["viewmat"][2, :3]
        after = run(inputs, model, backend=backend)
        assert torch.allclose(after.conics, before.conics, rtol=1e-9) is same
        assert torch.allclose(after.means2d, before.means2d, rtol=1e-9) is same
        assert torch.allclose(after.depths, before.depths + 0.7)


@both_backends
def test_radii_bound_the_visible_ellipse(backend: str) -> None:
    """On the ellipse where alpha is 1/255 the largest offset along each axis is the radius."""
    out = run(inputs_of(8, "perspective"), "perspective", "classic", backend)
    angle = torch.linspace(0, 2 * math.pi, 20001, dtype=torch.float64)
    ray = torch.stack((angle.cos(), angle.sin()), dim=1)
    a, b, c = out.conics.unbind(dim=1)
    for i in range(8):
        power = 0.5 * (a[i] * ray[:, 0] ** 2 + 2 * b[i] * ray[:, 0] * ray[:, 1] + c[i] * ray[:, 1] ** 2)
        edge = ray * (torch.log(255 * out.opacities[i]) / power).sqrt()[:, None]
        assert torch.allclose(edge.abs().amax(dim=0), out.radii[i], rtol=1e-6)


@both_backends
@both_models
def test_normals_face_the_camera_along_the_shortest_axis(backend: str, model: str) -> None:
    """Normals are unit vectors towards the camera; along them the covariance is the smallest scale squared."""
    inputs = inputs_of(40, model)
    out = run(inputs, model, backend=backend)
    assert visible(out).all() and out.normals is not None
    assert torch.allclose(out.normals.norm(dim=1), torch.ones(40, dtype=torch.float64))
    rotation = inputs["viewmat"][:3, :3]
    points = inputs["means"] @ rotation.T + inputs["viewmat"][:3, 3]
    facing = out.normals @ rotation.T
    toward = facing[:, 2] if model == "orthographic" else (facing * points).sum(dim=1)
    assert (toward < 0).all()
    factors = rotation_from_quaternion(inputs["quats_wxyz"]) * inputs["log_scales"].exp()[:, None, :]
    spread = torch.einsum("ni,nik->nk", out.normals, factors).norm(dim=1)
    assert torch.allclose(spread, inputs["log_scales"].amin(dim=1).exp())


def depths_on_rays(inputs: dict[str, Tensor], pixels: Tensor, model: str) -> Tensor:
    """[N] camera z where the ray through a pixel each meets its splat's greatest density, by the 3D Gaussian itself."""
    rotation = inputs["viewmat"][:3, :3]
    points = inputs["means"] @ rotation.T + inputs["viewmat"][:3, 3]
    factors = (
        rotation @ rotation_from_quaternion(inputs["quats_wxyz"]) * inputs["log_scales"].exp()[:, None, :]
    )
    precision = torch.linalg.inv(factors @ factors.mT)
    across = (pixels - inputs["intrinsics"][2:]) / inputs["intrinsics"][:2]
    ahead = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64).expand(len(pixels), 3)
    if model == "orthographic":
        origins, directions = torch.cat((across, torch.zeros_like(across[:, :1])), dim=1), ahead
    else:
        origins, directions = (
            torch.zeros_like(points),
            torch.cat((across, torch.ones_like(across[:, :1])), dim=1),
        )
    along = torch.einsum("ni,nij,nj->n", directions, precision, points - origins)
    return along / torch.einsum("ni,nij,nj->n", directions, precision, directions)


@both_backends
@both_models
def test_depth_slopes_lead_to_the_greatest_density_on_a_ray(backend: str, model: str) -> None:
    """A hundredth of a pixel beside a splat's centre its densest point has moved in depth as the slope says."""
    inputs = inputs_of(40, model)
    inputs["log_scales"] = (
        inputs["log_scales"] - 3.0
    )  # far smaller than they are distant, several pixels wide
    out = run(inputs, model, backend=backend)
    assert out.depth_slopes is not None and visible(out).sum() > 30
    seen = visible(out)
    step = 0.01 * torch.randn(40, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    there, here = (depths_on_rays(inputs, out.means2d + offset, model) for offset in (step, 0 * step))
    moved, told = there - here, (out.depth_slopes * step).sum(dim=1)
    assert (here - out.depths)[seen].abs().max() < 1e-9
    assert relative_l2(told[seen], moved[seen]) < 0.02


@both_backends
def test_the_dilation_has_no_part_in_depth_slopes(backend: str) -> None:
    """They are of the splat itself, and a splat that is culled has none."""
    inputs = inputs_of(60, "perspective", spread=3.0)
    plain, dilated = (run(inputs, "perspective", mode, backend).depth_slopes for mode in ("none", "classic"))
    assert plain is not None and dilated is not None
    seen = visible(run(inputs, "perspective", backend=backend))
    assert torch.equal(plain[seen], dilated[seen]) and not seen.all()
    assert (plain[~seen] == 0).all() and (plain[seen] != 0).any(dim=1).all()


@both_backends
def test_compensation_keeps_the_energy_of_a_small_splat(backend: str) -> None:
    """However far away, opacity times area on the screen stays what it is without dilation."""
    inputs = inputs_of(1, "perspective")
    inputs["opacity_logits"] = torch.full((1,), 4.0, dtype=torch.float64)
    for shrink in (0.0, -1.0, -2.0):
        inputs["log_scales"] = torch.full((1, 3), math.log(0.1) + shrink, dtype=torch.float64)
        plain, smooth = (
            run(inputs, "perspective", "none", backend),
            run(inputs, "perspective", "antialiased", backend),
        )

        def energy(out: Projected) -> Tensor:
            a, b, c = out.conics[0]
            return out.opacities[0] / (a * c - b * b).sqrt()

        assert torch.allclose(energy(plain), energy(smooth), rtol=1e-12)
        assert smooth.opacities[0] < plain.opacities[0]


CASES = list(culled_cases("perspective", torch.float64))


@both_backends
@both_types
@both_models
@pytest.mark.parametrize("case", CASES)
def test_what_draws_nothing_is_culled(case: str, model: str, dtype: torch.dtype, backend: str) -> None:
    """A culled splat is zero in every output and in every gradient, and leaves its neighbours and the camera alone."""
    inputs = inputs_of(3, model, dtype)
    spoiled = {name: tensor.clone() for name, tensor in inputs.items()}
    for name, value in culled_cases(model, dtype)[case].items():
        spoiled[name][1] = value
    kept = torch.tensor([0, 2])
    alone = {
        name: tensor[kept] if index < 4 else tensor for index, (name, tensor) in enumerate(inputs.items())
    }
    results = []
    for given in (spoiled, alone):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in given.items()}
        out = run(leaves, model, "none", backend)
        sum(tensor.sum() for tensor in differentiable(out)).backward()
        results.append((out, {name: leaf.grad for name, leaf in leaves.items()}))
    (with_case, v_with_case), (without, v_without) = results
    assert visible(with_case).tolist() == [True, False, True]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for a, b in zip(with_case, without, strict=True):
        assert torch.equal(a[1], torch.zeros_like(a[1]))
        assert relative_l2(a[kept].detach(), b.detach()) < tolerance
    for index, name in enumerate(inputs):
        a, b = v_with_case[name], v_without[name]
        if index < 4:
            assert torch.equal(a[1], torch.zeros_like(a[1])), name
        assert relative_l2(a[kept] if index < 4 else a, b) < tolerance, name


@both_types
@all_modes
def test_one_scale_zero(dtype: torch.dtype, mode: str) -> None:
    """A flat splat (one scale exactly zero) draws as an ellipse, and all its gradients are finite."""
    inputs = inputs_of(30, "perspective", dtype)
    inputs["log_scales"][:, 1] = -1000.0
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs.items()}
    out = run(leaves, "perspective", mode)
    assert visible(out).sum() > 25
    weighted_sum(differentiable(out)).backward()
    for leaf in leaves.values():
        assert leaf.grad is not None and torch.isfinite(leaf.grad).all()


@both_types
@both_models
def test_random_extremes_stay_finite(dtype: torch.dtype, model: str) -> None:
    """Whatever the numbers, outputs and gradients are finite, on both backends, and the backends agree on what is culled."""
    generator = torch.Generator().manual_seed(5)
    inputs = inputs_of(400, model, dtype)
    special = torch.tensor(
        [
            0.0,
            -0.0,
            1e-30,
            1e-12,
            1e-3,
            1.0,
            -1.0,
            30.0,
            -30.0,
            90.0,
            1e6,
            1e20,
            1e30,
            math.inf,
            -math.inf,
            math.nan,
        ]
    )
    for name in ("means", "log_scales", "quats_wxyz", "opacity_logits"):
        flat = inputs[name].view(-1)
        chosen = torch.rand(flat.shape, generator=generator) < 0.15
        picks = torch.randint(len(special), flat.shape, generator=generator)
        flat[chosen] = special.to(dtype)[picks][chosen]
    masks = []
    for backend in ("cpu", "reference"):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        out = run(leaves, model, "classic", backend)
        for tensor in out:
            assert torch.isfinite(tensor).all()
        weighted_sum(differentiable(out)).backward()
        for name, leaf in leaves.items():
            assert leaf.grad is not None and torch.isfinite(leaf.grad).all(), (backend, name)
        masks.append(visible(out))
    assert torch.equal(masks[0], masks[1])
    assert 50 < int(masks[0].sum()) < 350


@both_backends
def test_far_outside_the_frustum_is_no_fan(backend: str) -> None:
    """Beside the camera's view a splat's footprint stays in proportion to its true size; unclamped it would be vast."""
    inputs = inputs_of(1, "perspective")
    viewmat = inputs["viewmat"]
    in_camera = torch.tensor([-3.0, 0.0, 0.05], dtype=torch.float64)  # 89 degrees off the axis
    inputs["means"] = (viewmat[:3, :3].T @ (in_camera - viewmat[:3, 3]))[None]
    inputs["log_scales"] = torch.full((1, 3), math.log(0.1), dtype=torch.float64)
    assert not visible(run(inputs, "perspective", backend=backend)).any()
    # 3DGS without the clamp: sigma f x / z^2 is 4800 px, and the splat would cover the image
    assert 0.1 * 40.0 * 3.0 / 0.05**2 > 4000


@both_backends
def test_no_splats(backend: str) -> None:
    """N = 0 gives empty outputs and gradients, and a zero gradient to the camera."""
    inputs = {name: tensor.requires_grad_() for name, tensor in inputs_of(0, "perspective").items()}
    out = run(inputs, "perspective", backend=backend)
    assert [tuple(tensor.shape) for tensor in out] == [(0, 2), (0,), (0, 3), (0,), (0, 3), (0, 2), (0, 2)]
    sum(tensor.sum() for tensor in differentiable(out)).backward()
    assert inputs["means"].grad.shape == (0, 3)
    assert torch.equal(inputs["viewmat"].grad, torch.zeros(4, 4, dtype=torch.float64))


def test_quaternion_length_does_not_matter() -> None:
    """Norms of 0.7 to 1.06 give what unit quaternions give, and the gradient is at right angles to the quaternion."""
    inputs = inputs_of(50, "perspective")
    norms = inputs["quats_wxyz"].norm(dim=1)
    assert norms.min() < 0.75 and norms.max() > 1.0
    unit = dict(inputs, quats_wxyz=inputs["quats_wxyz"] / norms[:, None])
    for a, b in zip(run(inputs, "perspective"), run(unit, "perspective"), strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-13)
    inputs["quats_wxyz"].requires_grad_()
    weighted_sum(differentiable(run(inputs, "perspective"))).backward()
    gradient = inputs["quats_wxyz"].grad
    along = (gradient * inputs["quats_wxyz"]).sum(dim=1)
    assert gradient.abs().max() > 1 and along.abs().max() < 1e-10


def test_threads_do_not_change_a_bit() -> None:
    """Outputs and gradients, the camera's sums included, are the same for 1, 2 and 3 threads."""
    inputs = inputs_of(5000, "perspective", torch.float32)
    results = []
    for count in (1, 2, 3):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs.values()]
        with threads(count):
            out = run(tuple(leaves), "perspective", "classic")
            weighted_sum(differentiable(out)).backward()
        results.append([*out, *(leaf.grad for leaf in leaves)])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_only_wanted_gradients_are_computed() -> None:
    """With the camera fixed it gets no gradient; a loss of the depths alone reaches the means alone."""
    inputs = inputs_of(5, "perspective")
    for name in ("means", "quats_wxyz"):
        inputs[name].requires_grad_()
    out = run(inputs, "perspective")
    assert not out.radii.requires_grad
    out.depths.sum().backward()
    assert inputs["viewmat"].grad is None
    assert torch.allclose(inputs["means"].grad, inputs["viewmat"][2, :3].expand(5, 3))
    assert torch.equal(inputs["quats_wxyz"].grad, torch.zeros(5, 4, dtype=torch.float64))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_scales": torch.zeros(4, 3)}, "log_scales: expected shape"),
        ({"quats_wxyz": torch.zeros(5, 3)}, "quats_wxyz: expected shape"),
        ({"opacity_logits": torch.zeros(5, dtype=torch.float64)}, "opacity_logits: expected torch.float32"),
        ({"viewmat": torch.zeros(3, 4)}, "viewmat: expected shape"),
        ({"intrinsics": torch.zeros(3, 3)}, "intrinsics: expected shape"),
        ({"means": torch.zeros(5, 3, dtype=torch.int32)}, "expected float32 or float64"),
        ({"width": 0}, "at least 1 x 1"),
        ({"camera_model": "fisheye"}, "unknown camera_model 'fisheye'"),
        ({"dilation_px2": -0.1}, "dilation_px2"),
        ({"near": 0.0}, "near"),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, object], message: str) -> None:
    """A wrong shape, type, size or name raises a ValueError that says what was expected."""
    arguments = {**inputs_of(5, "perspective", torch.float32), "width": WIDTH, "height": HEIGHT, **change}
    with pytest.raises(ValueError, match=message):
        project(**arguments)


@both_types
def test_conics_are_positive_definite_down_to_the_thinnest_needle(dtype: torch.dtype) -> None:
    """Needles in all directions, up to where they are culled: every one that is kept has a c > b^2 in its own precision."""
    count = 4000
    inputs = inputs_of(count, "orthographic", dtype, spread=0.3)
    generator = torch.Generator().manual_seed(6)
    inputs["log_scales"][:, 0] = 0.0
    inputs["log_scales"][:, 1:] = -9.0 * torch.rand(count, 2, generator=generator, dtype=torch.float64).to(
        dtype
    )
    out = run(inputs, "orthographic")
    kept = out.conics[visible(out)]
    assert 1000 < kept.shape[0] < count
    a, b, c = kept.unbind(dim=1)
    assert (a * c > b * b).all()
    eigenvalues = torch.linalg.eigvalsh(kept[:, [0, 1, 1, 2]].reshape(-1, 2, 2).double())
    ratio = (eigenvalues[:, 0] / eigenvalues[:, 1]).sqrt()
    assert float(ratio.min()) < 1 / 1500 and float(ratio.max()) > 0.1


def test_reference_and_kernels_share_their_constants() -> None:
    """The reference, which imports torch alone, has the numbers of csrc/include/constants.h."""
    header = Path(__file__).resolve().parents[2] / "csrc" / "include" / "constants.h"
    found = dict(re.findall(r"constexpr double (\w+) = ([-+0-9.e/ ]+);", header.read_text()))
    names = {
        "ALPHA_MIN": reference.ALPHA_MIN,
        "FRUSTUM_MARGIN": reference.FRUSTUM_MARGIN,
        "QUATERNION_NORM_MIN": reference.QUATERNION_NORM_MIN,
        "DETERMINANT_MIN": reference.DETERMINANT_MIN_PX4,
        "CONDITION_MIN": reference.CONDITION_MIN,
        "COMPENSATION_MIN": reference.COMPENSATION_MIN,
        "SLOPE_VARIANCE": reference.SLOPE_VARIANCE_PX2,
        "DISTANCE_MIN": DISTANCE_MIN,
    }
    for name, value in names.items():
        numerator, _, denominator = found[name].partition("/")
        assert float(numerator) / float(denominator or 1) == value, name
