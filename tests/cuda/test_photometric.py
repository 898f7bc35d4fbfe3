"""The kernels of csrc/cuda/photometric.cu, run on the CPU: against the other backends, masks, weights, gradients, sizes."""

from __future__ import annotations

import math

import pytest
import torch

from splat_engine.ops import PhotometricLoss
from splat_engine.ops._cuda.launch import emulated_by
from splat_engine.ops.photometric import photometric_loss, photometric_loss_and_gradients
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order
from tests.engine.gradient_check import relative_l2, worst_relative_errors
from tests.engine.test_photometric import WEIGHTS, loss_and_gradients, smooth_view, view_of

SIZES = [(1, 1), (5, 7), (16, 16), (17, 33), (22, 32), (64, 70)]
"""Among them: smaller than the window, exactly a tile, several tiles and blocks."""

pytestmark = pytest.mark.usefixtures("emulated")

both_spaces = pytest.mark.parametrize("encode", [True, False])


@both_spaces
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("ssim_weight", [0.2, 0.0])
def test_equals_the_other_backends(
    dtype: torch.dtype, encode: bool, size: tuple[int, int], masked: bool, ssim_weight: float
) -> None:
    """Loss, parts and both gradients are those of the CPU and of plain torch, with and without SSIM and mask."""
    view = view_of(*size, dtype)
    valid = torch.rand(size, generator=torch.Generator().manual_seed(2)) > 0.3 if masked else None
    options = {"encode": encode, "valid": valid, "ssim_weight": ssim_weight}
    ours, our_gradients = loss_and_gradients(view, "cuda", **options)
    tolerance = 1e-11 if dtype == torch.float64 else 3e-5
    for backend in ("cpu", "reference"):
        expected, gradients = loss_and_gradients(view, backend, **options)
        if not masked:
            assert expected.loss > 0.05 and gradients[0].abs().max() > 0
        for name, got, want in zip(PhotometricLoss._fields, ours, expected, strict=True):
            assert got.item() == pytest.approx(want.item(), rel=tolerance, abs=1e-7), (backend, name)
        for got, want in zip(our_gradients, gradients, strict=True):
            assert relative_l2(got, want) < tolerance, backend


@both_spaces
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", [False, True])
def test_linear_light_equals_the_other_backends(dtype: torch.dtype, encode: bool, masked: bool) -> None:
    """So does the comparison of linear light, values above 1 among it."""
    view = view_of(17, 33, dtype)
    view["image"] = 3 * view["image"] - 0.05
    valid = torch.rand(17, 33, generator=torch.Generator().manual_seed(2)) > 0.3 if masked else None
    options = {"encode": encode, "linear": True, "valid": valid, "ssim_weight": 0.0}
    ours, our_gradients = loss_and_gradients(view, "cuda", **options)
    tolerance = 1e-11 if dtype == torch.float64 else 3e-5
    for backend in ("cpu", "reference"):
        expected, gradients = loss_and_gradients(view, backend, **options)
        assert expected.squared > 0.05 and gradients[0].abs().max() > 0
        for name, got, want in zip(PhotometricLoss._fields, ours, expected, strict=True):
            assert got.item() == pytest.approx(want.item(), rel=tolerance, abs=1e-7), (backend, name)
        for got, want in zip(our_gradients, gradients, strict=True):
            assert relative_l2(got, want) < tolerance, backend


@pytest.mark.parametrize("part", ["l1", "ssim", "mse", "alpha"])
def test_each_weight_alone(part: str) -> None:
    """A loss of one part alone has that part's figure and gradient: no weight acts on another's part."""
    view = view_of(25, 40)
    ssim_weight, others = {
        "l1": (0.0, {}),
        "ssim": (1.0, {}),
        "mse": (0.0, {"mse_weight": 2.0}),
        "alpha": (0.0, {"alpha_weight": 0.5}),
    }[part]
    options = {"ssim_weight": ssim_weight, "mse_weight": 0.0, "alpha_weight": 0.0, "encode": True, **others}
    ours, gradients = loss_and_gradients(view, "cuda", **options)
    expected, wanted = loss_and_gradients(view, "reference", **options)
    assert ours.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    assert relative_l2(gradients[0], wanted[0]) < 1e-11
    assert torch.equal(gradients[1].bool(), wanted[1].bool()) and bool(wanted[1].any()) == (part == "alpha")


def test_gradients_agree_with_differences() -> None:
    """Central differences in float64 confirm both gradients, across the border of two tiles.

    They are of fourth order, and the curve's fifth derivative at 0.1 leaves them six digits.
    """
    view = smooth_view(1, 34)
    rest = [view.pop(name) for name in ("target", "target_alpha", "background")]

    def loss(image: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        return 1e3 * photometric_loss(image, alpha, *rest, encode=True, **WEIGHTS, backend="cuda").loss

    errors = worst_relative_errors(loss, view)
    assert max(errors.values()) < 5e-6, errors


@every_order
@pytest.mark.parametrize("ssim_weight", [0.2, 0.0])
def test_orders_do_not_change_a_bit(emulated: EmulatedLauncher, ssim_weight: float) -> None:
    """Figures and gradients are those of the forward order in every bit, whatever thread or block comes first."""
    view = view_of(24, 35, torch.float32)
    options = {"encode": True, "ssim_weight": ssim_weight}
    parts, gradients = loss_and_gradients(view, "cuda", **options)
    kernels = {"photometric_figures_f32", "photometric_pixels_f32"}
    if ssim_weight > 0:
        kernels = {"photometric_figures_f32", "photometric_tiles_f32", "photometric_gradient_f32"}
    assert set(emulated.launches) == kernels
    with emulated_by(EmulatedLauncher()):
        expected, wanted = loss_and_gradients(view, "cuda", **options)
    for got, want in zip((*parts, *gradients), (*expected, *wanted), strict=True):
        assert torch.equal(got, want)


def test_equal_pictures_cost_nothing() -> None:
    """A view that is its target has loss 0, SSIM 1 and no gradient of L1."""
    view = view_of(25, 25)
    view["background"] *= 0
    view["image"] = view["target"].clone()
    view["alpha"] = view["target_alpha"]
    ours, gradients = loss_and_gradients(view, "cuda", encode=True)
    assert ours.loss.item() == pytest.approx(0, abs=1e-12) and ours.ssim.item() == pytest.approx(1)
    assert gradients[0].abs().max() < 1e-12 and not gradients[1].any()


def test_pixels_that_do_not_count_steer_nothing() -> None:
    """Where ``valid`` is False no gradient arrives, and what stands there does not change the loss."""
    view = view_of(30, 40)
    valid = torch.ones(30, 40, dtype=torch.bool)
    valid[:, 10:25] = False
    first, gradients = loss_and_gradients(view, "cuda", encode=True, valid=valid)
    assert not gradients[0][~valid].any() and not gradients[1][~valid].any()
    assert gradients[0][valid].any() and gradients[1][valid].any()
    view["image"][~valid], view["alpha"][~valid] = math.nan, 0.1
    second, _ = loss_and_gradients(view, "cuda", encode=True, valid=valid)
    assert first.loss.item() == second.loss.item() > 0.05


@both_spaces
@pytest.mark.parametrize("ssim_weight", [0.2, 0.0])
def test_what_is_not_finite_is_seen(encode: bool, ssim_weight: float) -> None:
    """One pixel that is NaN makes the loss NaN: a fit must notice."""
    view = view_of(20, 40, torch.float32)
    view["image"][19, 39, 1] = math.nan
    ours, _ = loss_and_gradients(view, "cuda", encode=encode, ssim_weight=ssim_weight)
    assert math.isnan(ours.loss.item())


@pytest.mark.parametrize("ssim_weight", [0.2, 0.0])
def test_without_autograd_it_is_the_same(ssim_weight: float) -> None:
    """Value and gradients of the direct call are those of autograd in every bit; without a gradient the value stays."""
    view = view_of(33, 40, torch.float32)
    options = {**WEIGHTS, "encode": True, "ssim_weight": ssim_weight, "backend": "cuda"}
    direct, v_image, v_alpha = photometric_loss_and_gradients(*view.values(), **options)
    leaves = [view[name].clone().requires_grad_() for name in ("image", "alpha")]
    by_autograd = photometric_loss(*leaves, *list(view.values())[2:], **options).loss
    gradients = torch.autograd.grad(by_autograd, leaves)
    assert torch.equal(direct.loss, by_autograd.detach()) and direct.loss > 0.05
    assert torch.equal(v_image, gradients[0]) and torch.equal(v_alpha, gradients[1])
    assert torch.equal(photometric_loss(*view.values(), **options).loss, direct.loss)


def test_sums_are_as_good_as_double() -> None:
    """The figures of 40 tiles of float pixels are those of double arithmetic to 3e-7."""
    view = view_of(110, 250)
    exact, _ = loss_and_gradients({name: value.float().double() for name, value in view.items()}, encode=True)
    ours, _ = loss_and_gradients({name: value.float() for name, value in view.items()}, "cuda", encode=True)
    for name, got, want in zip(PhotometricLoss._fields, ours, exact, strict=True):
        assert got.item() == pytest.approx(want.item(), abs=3e-7), name
