"""Losses and metrics are what their formulas say, and agree with torchmetrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

from splat_engine.fit.drawing import Drawn
from splat_engine.fit.formation import ImageFormation, decode_srgb, encode_srgb
from splat_engine.fit.losses import (
    CLEAN_SAMPLES,
    LINEAR_LIGHT_WEIGHT,
    depth_loss,
    fit_loss,
    loss_space_of,
    normal_loss,
)
from splat_engine.fit.metrics import PSNR_MAX_DB, ViewScore, compare, mean_scores, psnr_db
from splat_engine.fit.views import ViewTensors, view_tensors
from splat_engine.formats.capture import CaptureInfo, View
from splat_engine.formats.conventions import linear_from_srgb
from splat_engine.formats.conventions import srgb_from_linear as numpy_srgb_from_linear
from splat_engine.formats.settings import LossSettings
from splat_engine.ops import ssim
from tests.engine.tiny_capture import ring_cameras

H, W = 26, 31


def pictures(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    target = torch.rand(H, W, 3, generator=generator, dtype=dtype)
    return (target + 0.1 * torch.randn(H, W, 3, generator=generator, dtype=dtype)).clamp(0, 1), target


def test_psnr_and_ssim_agree_with_torchmetrics() -> None:
    """PSNR to 1e-4 dB and SSIM to 1e-5 of torchmetrics."""
    picture, target = pictures()
    score = compare(picture, target, "x")
    planes = [image.permute(2, 0, 1)[None] for image in (picture, target)]
    assert score.psnr == pytest.approx(peak_signal_noise_ratio(*planes, data_range=1.0).item(), abs=1e-4)
    expected = structural_similarity_index_measure(*planes, data_range=1.0, gaussian_kernel=True, sigma=1.5)
    assert isinstance(expected, torch.Tensor)
    assert score.ssim == pytest.approx(expected.item(), abs=1e-5)
    assert 0.3 < score.ssim < 0.98 and 15 < score.psnr < 25


def test_metrics_cut_to_the_displayed_range() -> None:
    """Values outside 0 to 1 count as cut; equal pictures get 120 dB; small pictures have an SSIM too."""
    picture, target = pictures()
    assert compare(picture + 2 * (picture >= 1), target) == compare(picture, target)
    same = compare(target, target)
    assert same.psnr == PSNR_MAX_DB and same.ssim == pytest.approx(1.0, abs=1e-6)
    assert compare(target[:5, :7].contiguous(), target[:5, :7].contiguous()).ssim == pytest.approx(
        1.0, abs=1e-6
    )
    assert psnr_db(0.01) == pytest.approx(20.0) and psnr_db(0.0) == PSNR_MAX_DB
    scores = [ViewScore("a", 20.0, 0.5), ViewScore("b", 30.0, 0.7)]
    assert mean_scores(scores) == {"engine.psnr": 25.0, "engine.ssim": pytest.approx(0.6)}
    assert mean_scores([*scores, ViewScore("c", 120.0, 1.0, empty=True)]) == mean_scores(scores)
    assert mean_scores([ViewScore("c", 120.0, 1.0, empty=True)])["engine.psnr"] == 120.0
    assert mean_scores([]) == {}


def test_geometry_losses_are_gated() -> None:
    """Only pixels that both sides cover count; the depth loss is relative to the extent; without any, both are 0."""
    alpha = torch.tensor([[1.0, 1.0, 0.2, 1.0]])
    target_alpha = torch.tensor([[1.0, 0.3, 1.0, 1.0]])
    depth = torch.tensor([[3.0, 9.0, 9.0, 5.0]], requires_grad=True)
    target = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    loss = depth_loss(depth, alpha, target, target_alpha, extent=4.0)
    assert loss.item() == pytest.approx(0.25)
    (gradient,) = torch.autograd.grad(loss, depth)
    assert gradient.tolist() == [[0.25, 0.0, 0.0, 0.0]]
    assert depth_loss(depth, 0 * alpha, target, target_alpha, extent=4.0).item() == 0

    normals = torch.tensor([[[0.0, 0.0, 0.5], [1, 0, 0], [1, 0, 0], [0, 3, 0]]], requires_grad=True)
    wanted = torch.tensor([[[0.0, 0.0, 1.0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]])
    assert normal_loss(normals, alpha, wanted, target_alpha).item() == pytest.approx(0.5)
    assert normal_loss(normals, alpha, 0 * wanted, target_alpha).item() == 0


def view_and_drawn(valid: torch.Tensor | None = None) -> tuple[ViewTensors, Drawn]:
    picture, target = pictures()
    camera = ring_cameras(1, W, H)[0]
    alpha = torch.rand(H, W, generator=torch.Generator().manual_seed(5))
    alpha[:5], alpha[5:9] = 0.0, 1.0
    view = view_tensors(camera, target * alpha[..., None], alpha, valid=valid)
    drawn = Drawn(picture.clone().requires_grad_(True), torch.zeros(H, W).requires_grad_(True), None, None)
    return view, drawn


@pytest.mark.parametrize("name", ["blender", "classic"])
def test_fit_loss_puts_both_over_the_same_background(name: str) -> None:
    """The target is composed over the background in the blending space, then both are compared encoded."""
    formation = ImageFormation(name)  # type: ignore[arg-type]
    view, drawn = view_and_drawn()
    background = torch.tensor([0.2, 0.5, 0.9])
    settings = LossSettings(alpha_weight=0.5, mse_weight=0.25)
    loss, squared = fit_loss(
        drawn, view, background, formation, settings, extent=1.0, geometry_share=1.0, backend="cpu"
    )
    blended = view.color + (1 - view.alpha[..., None]) * background
    target = encode_srgb(blended) if name == "blender" else blended
    picture = encode_srgb(drawn.blended.detach()) if name == "blender" else drawn.blended.detach()
    difference = picture - target
    expected = 0.8 * difference.abs().mean() + 0.2 * (1 - ssim(picture, target))
    expected += 0.25 * difference.square().mean() + 0.5 * view.alpha.mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert squared.item() == pytest.approx(difference.square().mean().item(), rel=1e-5)


@pytest.mark.parametrize("name", ["blender", "classic"])
def test_linear_loss_compares_light(name: str) -> None:
    """In linear light the colour loss is the squared error times the curve's slope at the drawn value, and no SSIM."""
    formation = ImageFormation(name)  # type: ignore[arg-type]
    view, drawn = view_and_drawn()
    settings = LossSettings(loss_space="linear", mse_weight=2.0, alpha_weight=0.5)
    loss, squared = fit_loss(
        drawn, view, torch.zeros(3), formation, settings, extent=1.0, geometry_share=1.0, backend="cpu"
    )
    light, wanted = drawn.blended.detach().double(), view.color.double()
    if name == "classic":
        light, wanted = decode_srgb(light), decode_srgb(wanted)
    step = 1e-6
    slope = (encode_srgb(light + step) - encode_srgb(light - step)) / (2 * step)
    expected = (slope * (light - wanted)).square().mean()
    assert squared.item() == pytest.approx(expected.item(), rel=1e-4) and expected > 1e-3
    total = (LINEAR_LIGHT_WEIGHT + 2.0) * expected + 0.5 * view.alpha.mean()
    assert loss.item() == pytest.approx(total.item(), rel=1e-4)


def test_auto_is_linear_where_views_are_noisy() -> None:
    """Few samples of Cycles in EXR files; not many, denoised, unknown, of a rasteriser, or in a display picture."""
    camera = ring_cameras(1, W, H)[0]
    light, picture = View(camera, exr="views/0.exr"), View(camera, image="images/0.png")
    noisy = CaptureInfo(engine="CYCLES", samples=16)
    assert loss_space_of(noisy, [light, light], LossSettings(loss_space="auto")) == "linear"
    clean = (
        replace(noisy, samples=CLEAN_SAMPLES),
        replace(noisy, denoised=True),
        replace(noisy, samples=0),
        replace(noisy, engine="EEVEE"),
    )
    assert {loss_space_of(info, [light], LossSettings(loss_space="auto")) for info in clean} == {"encoded"}
    assert loss_space_of(noisy, [light, picture], LossSettings(loss_space="auto")) == "encoded"
    assert loss_space_of(noisy, [light], LossSettings(loss_space="encoded")) == "encoded"
    assert loss_space_of(clean[0], [picture], LossSettings(loss_space="linear")) == "linear"


def test_masked_pixels_have_no_gradient() -> None:
    """A pixel that was not finite in the file steers nothing, through L1, SSIM or alpha."""
    valid = torch.ones(H, W, dtype=torch.bool)
    valid[:, 10:] = False
    view, drawn = view_and_drawn(valid=valid)
    loss, _ = fit_loss(
        drawn, view, torch.zeros(3), ImageFormation("classic"), LossSettings(), extent=1.0, geometry_share=1.0,
        backend="cpu",
    )  # fmt: skip
    by_color, by_alpha = torch.autograd.grad(loss, [drawn.blended, drawn.alpha])
    assert by_color[~valid].abs().max() == 0 and by_alpha[~valid].abs().max() == 0
    assert by_color[valid].abs().min() > 0 or by_color[valid].abs().mean() > 1e-6
    assert loss.item() > 0.01


def test_geometry_enters_with_its_share() -> None:
    """The depth loss is multiplied by its weight and by the share that fades out."""
    view, drawn = view_and_drawn()
    view = replace(view, depth=torch.full((H, W), 2.0), alpha=torch.ones(H, W))
    drawn = drawn._replace(depth=torch.full((H, W), 3.0), alpha=torch.ones(H, W))
    formation, black = ImageFormation("classic"), torch.zeros(3)

    def loss(weight: float, share: float) -> float:
        settings = LossSettings(depth_weight=weight)
        value, _ = fit_loss(
            drawn, view, black, formation, settings, extent=2.0, geometry_share=share, backend="cpu"
        )
        return value.item()

    assert loss(0.4, 1.0) - loss(0.0, 1.0) == pytest.approx(0.4 * 0.5, abs=1e-6)
    assert loss(0.4, 0.25) - loss(0.0, 1.0) == pytest.approx(0.1 * 0.5, abs=1e-6)


def test_srgb_curve() -> None:
    """The torch curve equals the one of formats to 1e-6, inverts, and goes on straight below 0."""
    linear = torch.cat((torch.linspace(0.0, 0.02, 40), torch.linspace(0.02, 9.0, 60))).double()
    encoded = encode_srgb(linear)
    torch.testing.assert_close(encode_srgb(-linear), -12.92 * linear)
    torch.testing.assert_close(encoded, torch.from_numpy(numpy_srgb_from_linear(linear.numpy())))
    torch.testing.assert_close(decode_srgb(encoded), linear, rtol=1e-6, atol=2e-6)
    torch.testing.assert_close(decode_srgb(linear), torch.from_numpy(linear_from_srgb(linear.numpy())))
