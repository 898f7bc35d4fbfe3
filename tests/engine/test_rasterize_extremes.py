"""The op ``rasterize`` at the edges: extreme splats, numbers that are not finite, lossless culling, threads, memory."""

from __future__ import annotations

import gc
import math
import sys
import threading
from pathlib import Path

import pytest
import torch
from gradient_check import relative_l2
from hypothesis import given, settings
from hypothesis import strategies as st
from raster_scenes import INPUTS, cast, conics_of, margin, render, scene
from splat_scenes import threads
from torch import Tensor

from splat_engine.ops.rasterize import rasterize

SIZE = (41, 35)


def assert_same_as_reference(
    tensors: dict[str, Tensor], size: tuple[int, int] = SIZE, tolerance: float = 1e-10
) -> None:
    """In float64 over the whole image; a culled block that should be drawn would be off by up to 1/255."""
    ours, theirs = render(tensors, *size), render(tensors, *size, "reference")
    assert theirs.alpha.max() > 0.01, "the scene is empty"
    assert (ours.image - theirs.image).abs().max() < tolerance
    for name in INPUTS:
        assert torch.isfinite(ours.gradients[name]).all(), name
        assert relative_l2(ours.gradients[name], theirs.gradients[name]) < 100 * tolerance, name


KINDS = {
    "needles": {"sigma_px": (0.02, 200.0)},
    "subpixel": {"sigma_px": (0.01, 0.3), "opacity": (0.9, 1.0)},
    "huge": {"sigma_px": (100.0, 1e6), "opacity": (0.0, 0.3)},
    "opaque": {"opacity": (0.98, 1.0)},
    "faint": {"opacity": (0.0, 0.02)},
    "all": {"sigma_px": (0.05, 1e3)},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_splats_in_double(kind: str, seed: int) -> None:
    """Needles, splats below a pixel, splats beyond the image, opaque and faint ones: as the reference."""
    tensors = scene(300, *SIZE, seed=seed, **KINDS[kind])
    # needles: the exponents' terms cancel (1e8 times larger than their sum), in the reference too
    assert_same_as_reference(tensors, tolerance=1e-6 if kind in ("needles", "all") else 1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_splats_in_float(kind: str) -> None:
    """Float32 stays within 1e-4 of the float64 reference wherever no decision hangs on rounding."""
    tensors = cast(scene(200, *SIZE, seed=5, **KINDS[kind]), torch.float32)
    double = cast(tensors, torch.float64)
    ours, theirs = render(tensors, *SIZE), render(double, *SIZE, "reference")
    clear = margin(double, *SIZE) > 1e-3
    assert clear.double().mean() > 0.5
    assert (ours.image - theirs.image)[clear].abs().max() < 1e-4
    assert torch.isfinite(torch.cat([tensor.flatten() for tensor in ours.gradients.values()])).all()


@settings(max_examples=40)
@given(
    center=st.tuples(st.floats(-60, 100), st.floats(-60, 100)),
    sigma_long=st.floats(-3, 7),
    sigma_short=st.floats(-3, 7),
    angle=st.floats(0, math.tau),
    opacity=st.floats(1 / 255, 1),
)
def test_culling_is_lossless(
    center: tuple[float, float], sigma_long: float, sigma_short: float, angle: float, opacity: float
) -> None:
    """One splat of any shape anywhere: no pixel that it reaches is lost, at either precision."""
    numbers = torch.tensor([math.exp(sigma_long), math.exp(sigma_short), angle, opacity], dtype=torch.float64)
    tensors = {
        "means2d": torch.tensor([center], dtype=torch.float64),
        "conics": conics_of(numbers[:1], numbers[1:2], numbers[2:3]),
        "opacities": numbers[3:],
        "features": torch.ones(1, 1, dtype=torch.float64),
        "depths": torch.ones(1, dtype=torch.float64),
    }
    for dtype in (torch.float32, torch.float64):
        given = cast(tensors, dtype)
        exact = cast(given, torch.float64)
        image, _ = rasterize(**given, width=70, height=50)
        expected, _ = rasterize(**exact, width=70, height=50, backend="reference")
        clear = margin(exact, 70, 50) > (1e-2 if dtype is torch.float32 else 1e-6)
        lost = (image[..., 0] == 0) & (expected[..., 0] > 0) & clear
        invented = (image[..., 0] > 0) & (expected[..., 0] == 0) & clear
        assert not lost.any() and not invented.any()


NOT_FINITE = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("field", ["means2d", "conics", "opacities", "features", "depths"])
def test_a_splat_with_a_number_that_is_not_finite_is_dropped(field: str, dtype: torch.dtype) -> None:
    """NaN or Inf in any input: the image is that without the splat, its gradients are zero, the others' unchanged."""
    tensors = cast(scene(40, *SIZE, seed=11), dtype)
    bad = [3, 17, 39]
    kept = [i for i in range(40) if i not in bad]
    for index, value in zip(bad, NOT_FINITE, strict=True):
        flat = tensors[field][index] if tensors[field].dim() > 1 else tensors[field]
        flat[0 if tensors[field].dim() > 1 else index] = value
    result = render(tensors, *SIZE)
    without = {name: tensor if name == "background" else tensor[kept] for name, tensor in tensors.items()}
    expected = render(without, *SIZE)
    assert torch.equal(result.image, expected.image)
    for name in INPUTS[:-1]:
        assert not result.gradients[name][bad].any(), name
        assert torch.equal(result.gradients[name][kept], expected.gradients[name]), name
    assert torch.equal(render(tensors, *SIZE, "reference").image > 0, result.image > 0)


@pytest.mark.parametrize(
    "conic", [(0, 0, 0), (-1, 0, 1), (1, 0, -1), (1, 1, 1), (1, 2, 1), (1e-30, 0, 0), (0, 0, 1)]
)
def test_a_conic_that_is_not_positive_definite_is_dropped(conic: tuple[float, float, float]) -> None:
    """Degenerate and indefinite conics draw nothing and get zero gradients."""
    tensors = scene(1, *SIZE, seed=12, opacity=(0.5, 0.9))
    tensors["conics"] = torch.tensor([conic], dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        result = render(cast(tensors, dtype), *SIZE)
        assert not result.alpha.any()
        for name in INPUTS[:-1]:
            assert not result.gradients[name].any(), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sigma_px", [1e6, 1e9, 1e15])
def test_a_splat_larger_than_any_scene_covers_the_image(sigma_px: float, dtype: torch.dtype) -> None:
    """Widths far beyond the image are blended at every pixel."""
    sigma = torch.full((1,), sigma_px, dtype=torch.float64)
    _, alpha = rasterize(
        torch.zeros(1, 2, dtype=dtype),
        conics_of(sigma, sigma, sigma).to(dtype),
        torch.full((1,), 0.5, dtype=dtype),
        torch.ones(1, 1, dtype=dtype),
        torch.ones(1, dtype=dtype),
        77,
        50,
    )
    assert torch.allclose(alpha, torch.full_like(alpha, 0.5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("position", [1e5, -1e9, 1e30])
def test_splats_far_outside_the_image_draw_nothing(position: float, dtype: torch.dtype) -> None:
    """Centres at any finite distance are culled without harm."""
    tensors = cast(scene(8, *SIZE, seed=13), dtype)
    tensors["means2d"] = torch.full((8, 2), position, dtype=dtype)
    result = render(tensors, *SIZE)
    assert not result.alpha.any()
    assert all(not result.gradients[name].any() for name in INPUTS[:-1])


def test_opacity_at_the_threshold() -> None:
    """Just below 1/255 nothing is drawn; just above, the centre is."""
    sigma = torch.full((1,), 2.0, dtype=torch.float64)
    for opacity, drawn in ((1 / 255 - 1e-9, False), (1 / 255 + 1e-9, True)):
        _, alpha = rasterize(
            torch.full((1, 2), 8.5, dtype=torch.float64),
            conics_of(sigma, sigma, sigma),
            torch.tensor([opacity], dtype=torch.float64),
            torch.ones(1, 1, dtype=torch.float64),
            torch.ones(1, dtype=torch.float64),
            17,
            17,
        )
        assert bool(alpha.any()) == drawn
        assert int((alpha > 0).sum()) == int(drawn)


def test_many_coincident_opaque_splats() -> None:
    """A thousand splats on one spot: rays end early, and what is behind gets no gradient, as in the reference."""
    tensors = scene(1000, 16, 16, seed=14, sigma_px=(2.0, 4.0), opacity=(0.5, 1.0))
    tensors["means2d"] = torch.full((1000, 2), 8.0, dtype=torch.float64)
    assert_same_as_reference(tensors, (16, 16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_repeat_bit_by_bit(dtype: torch.dtype) -> None:
    """The same thread count gives the same bits, run after run, in every gradient."""
    tensors = cast(scene(9000, 150, 130, seed=15, sigma_px=(0.5, 4.0)), dtype)
    for count in (1, 2, 3):
        with threads(count):
            first = render(tensors, 150, 130)
            for _ in range(2):
                again = render(tensors, 150, 130)
                assert torch.equal(first.image, again.image)
                assert all(torch.equal(first.gradients[name], again.gradients[name]) for name in INPUTS)


def test_thread_counts_agree() -> None:
    """Images are the same bits for 1, 2, 3 and 16 threads; gradients agree to 1e-6 (they are added in another order)."""
    tensors = cast(scene(9000, 150, 130, seed=16, sigma_px=(0.5, 4.0)), torch.float32)
    with threads(1):
        single = render(tensors, 150, 130)
    assert single.alpha.max() > 0.9
    for count in (2, 3, 16):
        with threads(count):
            several = render(tensors, 150, 130)
        assert torch.equal(single.image, several.image)
        for name in INPUTS:
            assert relative_l2(several.gradients[name], single.gradients[name]) < 1e-6, name


def test_several_forwards_in_flight() -> None:
    """Backward passes in another order than their forwards, and twice, use the right saved state."""
    scenes = [scene(100, *SIZE, seed=20 + i) for i in range(3)]
    expected = [render(tensors, *SIZE).gradients["means2d"] for tensors in scenes]
    leaves, losses = [], []
    generator = torch.Generator().manual_seed(99)
    v_image = torch.randn(SIZE[1], SIZE[0], 3, generator=generator, dtype=torch.float64)
    v_alpha = torch.randn(SIZE[1], SIZE[0], generator=generator, dtype=torch.float64)
    for tensors in scenes:
        leaf = tensors["means2d"].clone().requires_grad_()
        image, alpha = rasterize(**{**tensors, "means2d": leaf}, width=SIZE[0], height=SIZE[1])
        leaves.append(leaf)
        losses.append((image * v_image).sum() + (alpha * v_alpha).sum())
    for i in (1, 2, 0):
        for _ in range(2):
            (gradient,) = torch.autograd.grad(losses[i], leaves[i], retain_graph=True)
            assert torch.equal(gradient, expected[i])


def test_calls_from_several_threads() -> None:
    """Forward and backward from four Python threads at once give what they give alone."""
    scenes = [cast(scene(3000, 90, 80, seed=30 + i, sigma_px=(0.5, 3.0)), torch.float32) for i in range(4)]
    expected = [render(tensors, 90, 80) for tensors in scenes]
    failures: list[str] = []

    def work(index: int) -> None:
        for _ in range(5):
            result = render(scenes[index], 90, 80)
            if not torch.equal(result.image, expected[index].image):
                failures.append(f"image {index}")
            if not torch.equal(result.gradients["conics"], expected[index].gradients["conics"]):
                failures.append(f"gradient {index}")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory use from /proc")
def test_saved_state_is_given_back() -> None:
    """200 forwards whose graphs are dropped do not keep their 3 MB each."""

    def resident_mb() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

    tensors = cast(scene(20_000, 200, 200, seed=40, sigma_px=(0.5, 3.0)), torch.float32)
    tensors["means2d"].requires_grad_()

    def forwards(count: int) -> None:
        for _ in range(count):
            rasterize(**tensors, width=200, height=200)

    forwards(10)
    gc.collect()
    before = resident_mb()
    forwards(200)
    gc.collect()
    assert resident_mb() - before < 100
