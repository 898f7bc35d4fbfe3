"""The op ``photometric_loss``: against its reference and its parts, gradcheck, masks, odd sizes, threads."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from gradient_check import relative_l2, worst_relative_errors
from splat_scenes import threads
from torch import Tensor

from splat_engine.formats.errors import UserError
from splat_engine.native import call
from splat_engine.ops import PhotometricLoss, photometric_loss, ssim

SIZES = [(1, 1), (3, 5), (12, 10), (33, 31), (40, 257), (90, 16), (21, 600)]
"""Among them: smaller than the window, several strips of 256 pixels, several bands of 32 rows."""
WEIGHTS = {"ssim_weight": 0.2, "mse_weight": 0.3, "alpha_weight": 0.7}

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_spaces = pytest.mark.parametrize("encode", [True, False])


def view_of(height: int, width: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> dict[str, Tensor]:
    """A drawn view and a target of which a third is opaque and a third empty; bright and dark values."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    target_alpha = (3 * random(height, width) - 1).clamp(0, 1)
    made = {
        "image": 1.2 * random(height, width, 3) ** 2,
        "alpha": random(height, width),
        "target": random(height, width, 3) ** 2 * target_alpha[..., None],
        "target_alpha": target_alpha,
        "background": random(3),
    }
    return {name: value.to(dtype) for name, value in made.items()}


def loss_and_gradients(
    view: dict[str, Tensor], backend: str = "cpu", **options: Any
) -> tuple[PhotometricLoss, list[Tensor]]:
    leaves = [view[name].clone().requires_grad_() for name in ("image", "alpha")]
    rest = [view[name] for name in ("target", "target_alpha", "background")]
    result = photometric_loss(*leaves, *rest, backend=backend, **{**WEIGHTS, **options})
    return result, list(torch.autograd.grad(1.5 * result.loss, leaves))


@both_types
@both_spaces
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("masked", [False, True])
def test_cpu_equals_reference(dtype: torch.dtype, encode: bool, size: tuple[int, int], masked: bool) -> None:
    """Loss, parts and both gradients are those of the plain torch statement; float64 to 1e-11."""
    view = view_of(*size, dtype)
    valid = torch.rand(size, generator=torch.Generator().manual_seed(2)) > 0.3 if masked else None
    ours, our_gradients = loss_and_gradients(view, encode=encode, valid=valid)
    expected, gradients = loss_and_gradients(view, "reference", encode=encode, valid=valid)
    if not masked:
        assert expected.loss > 0.05 and gradients[0].abs().max() > 0
    tolerance = 1e-11 if dtype == torch.float64 else 3e-5
    for name, got, want in zip(PhotometricLoss._fields, ours, expected, strict=True):
        assert got.item() == pytest.approx(want.item(), rel=tolerance, abs=1e-7), name
    for got, want in zip(our_gradients, gradients, strict=True):
        assert relative_l2(got, want) < tolerance


@both_types
@both_spaces
@pytest.mark.parametrize("size", [(1, 1), (33, 31), (21, 600)])
@pytest.mark.parametrize("masked", [False, True])
def test_linear_light_equals_reference(
    dtype: torch.dtype, encode: bool, size: tuple[int, int], masked: bool
) -> None:
    """The comparison of linear light, given as such or as sRGB values above 1 and below 0 too, is the plain torch one's."""
    view = view_of(*size, dtype)
    view["image"] = 3 * view["image"] - 0.05
    view["target"] = 2 * view["target"]
    valid = torch.rand(size, generator=torch.Generator().manual_seed(2)) > 0.3 if masked else None
    options = {"encode": encode, "linear": True, "ssim_weight": 0.0, "valid": valid}
    ours, our_gradients = loss_and_gradients(view, **options)
    expected, gradients = loss_and_gradients(view, "reference", **options)
    if not masked:
        assert expected.squared > 0.05 and gradients[0].abs().max() > 0
    tolerance = 1e-11 if dtype == torch.float64 else 3e-5
    for name, got, want in zip(PhotometricLoss._fields, ours, expected, strict=True):
        assert got.item() == pytest.approx(want.item(), rel=tolerance, abs=1e-7), name
    for got, want in zip(our_gradients, gradients, strict=True):
        assert relative_l2(got, want) < tolerance


@pytest.mark.parametrize("encode", [True, False])
def test_near_the_target_linear_light_weighs_as_encoded_values_do(encode: bool) -> None:
    """For small differences the squared errors of both spaces are the same, dark or bright, and so are their gradients."""
    view = view_of(20, 30)
    view["target_alpha"] += 1 - view["target_alpha"]
    view["target"] = 0.05 + 3 * torch.rand(20, 30, 3, generator=torch.Generator().manual_seed(5)).double()
    view["image"] = view["target"] * (1 + 1e-4 * view["image"])
    squares = {"ssim_weight": 0.0, "mse_weight": 1e6, "alpha_weight": 0.0, "encode": encode}
    linear, v_linear = loss_and_gradients(view, linear=True, **squares)
    encoded, _ = loss_and_gradients(view, **squares)
    assert linear.squared.item() == pytest.approx(encoded.squared.item(), rel=2e-4) and encoded.squared > 0
    # without L1, which the loss of encoded values has too
    _, with_squares = loss_and_gradients(view, **squares)
    _, l1_alone = loss_and_gradients(view, **{**squares, "mse_weight": 0.0})
    assert relative_l2(v_linear[0], with_squares[0] - l1_alone[0]) < 2e-4


def constant_fitted_to(targets: Tensor, *, linear: bool, **weights: float) -> Tensor:
    """The colour [3] of linear light that a picture of one colour gets from noisy targets [H, W, 3]."""
    logarithms = torch.full((3,), -1.0, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Rprop([logarithms], lr=0.1)
    opaque, black = torch.ones(targets.shape[:2], dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for _ in range(80):
        optimiser.zero_grad()
        drawn = logarithms.exp().expand(targets.shape)
        photometric_loss(
            drawn, opaque, targets, opaque, black, encode=True, linear=linear, **weights
        ).loss.backward()
        optimiser.step()
    return logarithms.detach().exp()


def test_noise_does_not_bias_linear_light() -> None:
    """Fitted to 4096 noisy values a channel, linear light finds their mean, above 1 as well; encoded values miss it.

    The noise is exponential, as strong as the value itself: the mean is known to 1/64, and the encoded values of such noise
    have their mean at 0.75 of it, their median at 0.69.
    """
    mean = torch.tensor([0.02, 0.4, 5.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(11)
    uniform = torch.rand(64, 64, 3, generator=generator, dtype=torch.float64)
    targets = -mean * torch.log1p(-uniform)
    linear = constant_fitted_to(targets, linear=True, ssim_weight=0.0, mse_weight=10.0)
    assert (linear / targets.mean(dim=(0, 1)) - 1).abs().max() < 2e-3
    assert (linear / mean - 1).abs().max() < 4 / 64
    for weights in ({"ssim_weight": 0.0}, {"ssim_weight": 0.0, "mse_weight": 100.0}, {"ssim_weight": 0.2}):
        encoded = constant_fitted_to(targets, linear=False, **weights)
        assert (encoded / mean).max() < 0.85, weights


def smooth_view(height: int, width: int) -> dict[str, Tensor]:
    """A view near which the loss is smooth: L1 has a kink, and the curve one in its derivative at 0.0031."""
    view = view_of(height, width)
    view["image"] += 0.1
    view["image"][:2, : width // 2] = 0.0005 + 0.0004 * view["image"][:2, : width // 2]
    wanted = view["target"] + (1 - view["target_alpha"])[..., None] * view["background"]
    view["image"][(view["image"] - wanted).abs() < 5e-3] += 0.02
    view["alpha"][(view["alpha"] - view["target_alpha"]).abs() < 5e-3] += 0.02
    return view


@both_spaces
def test_gradients_agree_with_differences(encode: bool) -> None:
    """Central differences confirm both gradients, dark straight parts of the curve among them."""
    view = smooth_view(13, 17)
    rest = [view.pop(name) for name in ("target", "target_alpha", "background")]

    def loss(image: Tensor, alpha: Tensor) -> Tensor:
        return 1e3 * photometric_loss(image, alpha, *rest, encode=encode, **WEIGHTS).loss

    errors = worst_relative_errors(loss, view)
    assert max(errors.values()) < 1e-6, errors


def test_parts_are_their_formulas() -> None:
    """The parts are mean |d|, the op ``ssim``, mean d^2 and mean |alpha difference|; the loss is their weighted sum."""
    view = view_of(30, 41)
    ours, _ = loss_and_gradients(view, encode=False)
    wanted = view["target"] + (1 - view["target_alpha"])[..., None] * view["background"]
    difference = view["image"] - wanted
    assert ours.l1.item() == pytest.approx(difference.abs().mean().item(), rel=1e-12)
    assert ours.squared.item() == pytest.approx(difference.square().mean().item(), rel=1e-12)
    assert ours.ssim.item() == pytest.approx(ssim(view["image"], wanted).item(), rel=1e-12)
    assert ours.alpha.item() == pytest.approx((view["alpha"] - view["target_alpha"]).abs().mean().item())
    total = 0.8 * ours.l1 + 0.2 * (1 - ours.ssim) + 0.3 * ours.squared + 0.7 * ours.alpha
    assert ours.loss.item() == pytest.approx(total.item(), rel=1e-12)


@both_spaces
def test_without_ssim(encode: bool) -> None:
    """A weight of 0 leaves SSIM out: told as 0, and the gradient is that of the other parts."""
    view = view_of(20, 300)
    ours, gradients = loss_and_gradients(view, encode=encode, ssim_weight=0.0)
    expected, wanted = loss_and_gradients(view, "reference", encode=encode, ssim_weight=0.0)
    assert ours.ssim.item() == 0 and ours.loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
    assert relative_l2(gradients[0], wanted[0]) < 1e-12 and wanted[0].abs().max() > 0


def test_equal_pictures_cost_nothing() -> None:
    """A view that is its target has loss 0, SSIM 1 and no gradient of L1."""
    view = view_of(25, 25)
    view["background"] *= 0
    view["image"] = view["target"].clone()
    view["alpha"] = view["target_alpha"]
    ours, gradients = loss_and_gradients(view, encode=True)
    assert ours.loss.item() == pytest.approx(0, abs=1e-12) and ours.ssim.item() == pytest.approx(1)
    assert gradients[0].abs().max() < 1e-12 and not gradients[1].any()


def test_pixels_that_do_not_count_steer_nothing() -> None:
    """Where ``valid`` is False no gradient arrives, and what stands there does not change the loss."""
    view = view_of(30, 40)
    valid = torch.ones(30, 40, dtype=torch.bool)
    valid[:, 10:25] = False
    first, gradients = loss_and_gradients(view, encode=True, valid=valid)
    assert not gradients[0][~valid].any() and not gradients[1][~valid].any()
    assert gradients[0][valid].any() and gradients[1][valid].any()
    view["image"][~valid], view["alpha"][~valid] = 0.9, 0.1
    second, _ = loss_and_gradients(view, encode=True, valid=valid)
    assert first.loss.item() == second.loss.item() > 0.05


@both_spaces
def test_what_is_not_finite_is_seen(encode: bool) -> None:
    """One pixel that is NaN makes the loss NaN: a fit must notice."""
    view = view_of(20, 20, torch.float32)
    view["image"][7, 9, 1] = math.nan
    ours, _ = loss_and_gradients(view, encode=encode)
    assert math.isnan(ours.loss.item())


def test_threads_do_not_change_the_picture() -> None:
    """1, 2 and 5 threads give the same figures and gradients in every bit: sums go by row and strip."""
    view = view_of(150, 300, torch.float32)
    results = []
    for count in (1, 2, 5):
        with threads(count):
            results.append(loss_and_gradients(view, encode=True))
    for parts, gradients in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(parts, results[0][0], strict=True))
        assert all(torch.equal(a, b) for a, b in zip(gradients, results[0][1], strict=True))


def test_no_gradient_is_made_where_none_is_wanted() -> None:
    """Without a gradient the value is the same, and strided pictures give the same as contiguous ones."""
    view = view_of(33, 40, torch.float32)
    with_gradient, _ = loss_and_gradients(view, encode=True)
    without = photometric_loss(*view.values(), encode=True, **WEIGHTS)
    assert not without.loss.requires_grad and torch.equal(without.loss, with_gradient.loss.detach())
    strided = {**view, "image": torch.cat((view["image"], view["image"]), dim=2)[..., :3]}
    assert torch.equal(photometric_loss(*strided.values(), encode=True, **WEIGHTS).loss, without.loss)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": torch.zeros(4, 5, 4)}, "image"),
        ({"alpha": torch.zeros(5, 4)}, "alpha"),
        ({"target": torch.zeros(4, 5, 3).double()}, "target"),
        ({"background": torch.zeros(4)}, "background"),
        ({"ssim_weight": 1.5}, "ssim_weight"),
        ({"linear": True}, "ssim_weight: expected 0 with linear"),
        ({"valid": torch.zeros(4, 5)}, "valid: expected bool"),
        ({"backend": "gpu"}, "backend"),
    ],
)
def test_wrong_arguments(change: dict[str, Any], message: str) -> None:
    """Each wrong shape, type or number is refused by name."""
    arguments = {**view_of(4, 5, torch.float32), "encode": True, "ssim_weight": 0.2, **change}
    with pytest.raises(ValueError, match=message):
        photometric_loss(**arguments)


def test_the_library_refuses_null() -> None:
    """The C entry point checks what Python cannot get wrong."""
    with pytest.raises(UserError, match="null"):
        call("photometric_loss", "f32", height=2, width=2)
    with pytest.raises(UserError, match="1 x 1"):
        call("photometric_loss", "f32")
    arrays = dict.fromkeys(("image", "alpha", "target", "target_alpha", "background", "figures"), 8)
    with pytest.raises(UserError, match="no SSIM of linear light"):
        call("photometric_loss", "f32", height=1, width=1, linear=1, ssim_weight=0.2, **arrays)
