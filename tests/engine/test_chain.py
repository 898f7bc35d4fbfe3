"""The whole chain project, sh_colors, rasterize, L1 + SSIM: gradients, backends, and peers' images and gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from chain_scenes import FORMATIONS, HEIGHT, WIDTH, GradientCase, chain, draw, gradient_cases
from gradient_check import relative_l2, worst_relative_errors
from raster_scenes import margin
from splat_scenes import camera, geometry, splats
from torch import Tensor

from splat_engine.ops.project import CAMERA_MODELS, project
from splat_engine.ops.rasterize import rasterize
from splat_engine.ops.sh import sh_colors

ROOT = Path(__file__).resolve().parents[2]
SHARED_BENCH = ROOT.parent / "shared" / "bench"
needs_shared = pytest.mark.skipif(
    not SHARED_BENCH.is_dir(), reason="the peers' results in ../shared/bench are absent"
)
both_models = pytest.mark.parametrize("model", CAMERA_MODELS)
each_formation = pytest.mark.parametrize("formation", FORMATIONS)


@both_models
@each_formation
def test_gradcheck_of_the_whole_chain(model: str, formation: str) -> None:
    """From splats, colours, camera pose and intrinsics to L1 + SSIM: the gradient is that of central differences."""
    made = chain(model, formation)
    leaves = tuple(tensor.clone().requires_grad_() for tensor in made.inputs.values())

    def loss(*tensors: Tensor) -> Tensor:
        return made.loss(**dict(zip(made.inputs, tensors, strict=True)))

    assert float(loss(*leaves).detach()) > 0.05
    assert torch.autograd.gradcheck(loss, leaves, eps=1e-5, atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("case", list(gradient_cases()), ids=lambda case: case.name)
def test_worst_relative_error_of_every_gradient(case: GradientCase) -> None:
    """Every entry of every gradient in the table of tools/bench/gradcheck.py is right to 1e-6 of itself."""
    errors = worst_relative_errors(case.loss, case.inputs)
    assert max(errors.values()) < 1e-6, errors


@both_models
@each_formation
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cpu_equals_reference(model: str, formation: str, dtype: torch.dtype) -> None:
    """Loss and every gradient of the chain are the reference's, from first op to last."""
    made = chain(model, formation)
    made = made._replace(target=made.target.to(dtype))
    results = []
    for backend in ("cpu", "reference"):
        leaves = {name: tensor.to(dtype).requires_grad_() for name, tensor in made.inputs.items()}
        loss = made.loss(backend=backend, **leaves)
        loss.backward()
        results.append((loss.item(), {name: leaf.grad for name, leaf in leaves.items()}))
    (loss, v_cpu), (expected, v_reference) = results
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    assert abs(loss - expected) < tolerance * expected
    for name in v_cpu:
        assert relative_l2(v_cpu[name], v_reference[name]) < tolerance, name


@both_models
@each_formation
def test_images_of_many_splats_equal_the_reference(model: str, formation: str) -> None:
    """120 splats of all sizes, some culled: image, alpha and gradients agree wherever no decision is close."""
    made = splats(120, seed=21, spread=1.6)
    viewmat, intrinsics = camera(model)
    names = ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh", "viewmat", "intrinsics")
    inputs = dict(zip(names, (*geometry(made), made["sh"], viewmat, intrinsics), strict=True))
    results = []
    for backend in ("cpu", "reference"):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in inputs.items()}
        drawn = draw(leaves, model, formation, backend)
        raster_inputs = dict(drawn.projected._asdict(), features=torch.zeros(120, 1))
        with torch.no_grad():
            decided = margin(raster_inputs, WIDTH, HEIGHT) > 1e-9
        picture = torch.cat((drawn.features, drawn.alpha[:, :, None]), dim=2)
        (picture * decided[:, :, None]).square().sum().backward()
        results.append((picture.detach() * decided[:, :, None], {n: leaf.grad for n, leaf in leaves.items()}))
    (picture, v_cpu), (expected, v_reference) = results
    assert decided.double().mean() > 0.99 and float(expected[:, :, 7].mean()) > 0.3
    assert torch.allclose(picture, expected, rtol=1e-10, atol=1e-11)
    for name in v_cpu:
        assert relative_l2(v_cpu[name], v_reference[name]) < 1e-9, name


@both_models
def test_a_camera_that_sees_nothing(model: str) -> None:
    """Turned away from all splats the image is the background, and every gradient is zero."""
    made = chain(model, "classic")
    inputs = {name: tensor.clone() for name, tensor in made.inputs.items()}
    inputs["viewmat"][:3] = (
        torch.diag(torch.tensor([-1.0, 1.0, -1.0], dtype=torch.float64)) @ inputs["viewmat"][:3]
    )
    leaves = {name: tensor.requires_grad_() for name, tensor in inputs.items()}
    drawn = draw(leaves, model, "classic")
    background = torch.tensor([0.2, 0.3, 0.4, 0, 0, 0, 0], dtype=torch.float64)
    assert torch.equal(drawn.features, background.expand(HEIGHT, WIDTH, 7)) and not drawn.alpha.any()
    drawn.features.sum().backward()
    for name, leaf in leaves.items():
        assert leaf.grad is not None and not leaf.grad.any(), name


def bench_input(name: str, dtype: torch.dtype) -> dict[str, Tensor]:
    """One of the standard inputs, as ../shared/bench/gen.py makes it."""
    sys.path.insert(0, str(SHARED_BENCH))
    try:
        import gen
    finally:
        sys.path.remove(str(SHARED_BENCH))
    return {key: torch.as_tensor(value, dtype=dtype) for key, value in gen.make(*gen.CASES[name]).items()}


def draw_bench(scene: dict[str, Tensor], degree: int, detach_direction: bool = False) -> Tensor:
    """The image [H, W, 3] in the classic formation over black."""
    size = int(scene["width"])
    intrinsics = torch.stack((scene["K"][0, 0], scene["K"][1, 1], scene["K"][0, 2], scene["K"][1, 2]))
    splat = (scene["means"], scene["log_scales"], scene["quats"], scene["opacity_logits"])
    projected = project(*splat, scene["viewmat"], intrinsics, size, size, dilation_px2=0.3)
    means = scene["means"].detach() if detach_direction else scene["means"]
    colors = sh_colors(means, scene["sh"], scene["viewmat"], degree=degree)
    arguments = (projected.means2d, projected.conics, projected.opacities, colors, projected.depths)
    return rasterize(*arguments, size, size)[0]


@needs_shared
@pytest.mark.parametrize(("name", "degree"), [("c10k_256", 0), ("c10k_256", 3), ("c50k_512", 3)])
def test_image_is_that_of_an_independent_renderer(name: str, degree: int) -> None:
    """In float64 all pixels but a few are those of the numpy renderer; the few see the 0.99 clamp, which it has at 0.999."""
    expected = np.load(SHARED_BENCH / f"ref_{name}_sh{degree}.npy")
    image = draw_bench(bench_input(name, torch.float64), degree).numpy()
    difference = np.abs(image - expected).max(axis=2)
    assert expected.mean() > 0.2
    assert (difference > 1e-7).sum() <= 4  # the reference is stored as float32: 3e-8 to 6e-8
    assert difference.max() < 7.2e-4


@needs_shared
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_those_of_gsplat(dtype: torch.dtype) -> None:
    """Against gsplat's torch implementation and autograd in float32, with the SH direction detached as there."""
    expected = np.load(SHARED_BENCH / "grad_c10k_256_sh3_torch.npz")
    scene = bench_input("c10k_256", dtype)
    names = ("means", "log_scales", "quats", "opacity_logits", "sh")
    for name in names:
        scene[name].requires_grad_()
    draw_bench(scene, 3, detach_direction=True).backward(scene["v_rgb"])
    # Two pixels see the clamp (0.99 here, 0.999 there), which moves single splats: 1e-4 of the means' gradient.
    limits = {"means": 2e-4, "log_scales": 2e-5, "quats": 2e-5, "opacity_logits": 1e-4, "sh": 3e-5}
    for name in names:
        ours, theirs = scene[name].grad.double(), torch.as_tensor(expected[f"g_{name}"]).double()
        assert relative_l2(ours, theirs) < limits[name], name
        assert float((ours * theirs).sum() / ours.norm() / theirs.norm()) > 1 - 1e-7, name


@needs_shared
def test_the_view_direction_contributes_to_the_means() -> None:
    """Not detached, the SH direction adds a part to the gradient of the means that matters."""
    scene = bench_input("c10k_256", torch.float32)
    gradients = []
    for detach in (True, False):
        scene["means"] = scene["means"].detach().requires_grad_()
        draw_bench(scene, 3, detach_direction=detach).backward(scene["v_rgb"])
        gradients.append(scene["means"].grad)
    assert 0.003 < relative_l2(gradients[1], gradients[0]) < 1
