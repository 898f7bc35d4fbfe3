"""The 2D fit: the ring example beyond the published figure, its covariances, its files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from splat_engine.fit.image2d import conics_of, draw_image, fit_image, ring_example, start_params
from splat_engine.fit.image2d_report import draw_curve, load_target, run_image_fit
from splat_engine.fit.metrics import psnr_db
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import ImageFitSettings


def test_ring_reaches_the_published_figure() -> None:
    """300 Gaussians and 600 steps on the 96 x 96 ring reach 44.26 dB, and what is drawn is what was measured."""
    target = ring_example()
    assert target.shape == (96, 96, 3) and target.min() >= 0 and target.max() <= 1 and target.std() > 0.2
    fit = fit_image(target, ImageFitSettings())
    assert fit.psnr[-1] >= 44.26
    assert 5 < fit.psnr[0] < 20 and fit.psnr[100] > 29.96 and len(fit.psnr) == 601
    drawn = draw_image(fit.params, 96, 96)
    assert psnr_db((drawn - target).square().mean().item()) == pytest.approx(fit.psnr[-1], abs=1e-3)


def test_ring_is_the_formula() -> None:
    """One pixel by hand: channels 0.65 (0.5 + 0.5 cos(9 r - p)) + 0.35 (u + 1) / 2, column by u, row by v."""
    target = ring_example()
    row, column = 20, 70
    u, v = -1 + 2 * column / 95, -1 + 2 * row / 95
    r = math.hypot(u + 0.25, v + 0.15)
    expected = [0.65 * (0.5 + 0.5 * math.cos(9 * r - p)) + 0.35 * (u + 1) / 2 for p in (0.0, 2.1, 4.2)]
    assert target[row, column].tolist() == pytest.approx(expected, abs=1e-5)


def test_conics_are_inverse_covariances() -> None:
    """For every angle and pair of scales the conic is the inverse of R S^2 R^T."""
    generator = torch.Generator().manual_seed(0)
    log_scales = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    angles = torch.rand(20, generator=generator, dtype=torch.float64) * 7
    a, b, c = conics_of(log_scales, angles).unbind(dim=1)
    cosine, sine = angles.cos(), angles.sin()
    rotation = torch.stack((cosine, -sine, sine, cosine), dim=1).reshape(-1, 2, 2)
    covariance = rotation @ torch.diag_embed((2 * log_scales).exp()) @ rotation.transpose(1, 2)
    inverse = torch.linalg.inv(covariance)
    torch.testing.assert_close(torch.stack((a, b, b, c), dim=1).reshape(-1, 2, 2), inverse)


def test_gradients_of_the_whole_chain() -> None:
    """All 27 numbers of 3 Gaussians on 16 x 16 pixels agree with central differences."""
    params = {
        name: value.double().requires_grad_(True)
        for name, value in start_params(ring_example(16), ImageFitSettings(count=3, seed=5)).items()
    }
    target = ring_example(16).double()

    def loss(*values: torch.Tensor) -> torch.Tensor:
        picture = draw_image(dict(zip(params, values, strict=True)), 16, 16)
        return (picture - target).square().sum()

    assert sum(value.numel() for value in params.values()) == 27
    assert draw_image(params, 16, 16).detach().max() > 0.2
    # eps so small that no pixel crosses the cut-off at 1/255, where the picture jumps
    assert torch.autograd.gradcheck(loss, tuple(params.values()), eps=1e-7, atol=1e-4, rtol=1e-4)


def test_same_seed_same_picture() -> None:
    """One seed gives one result; another seed another."""
    settings = [ImageFitSettings(count=30, steps=10, seed=seed) for seed in (1, 1, 2)]
    a, b, c = (fit_image(ring_example(32), setting).picture for setting in settings)
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_files_of_a_picture(tmp_path: Path) -> None:
    """A picture from disk gives picture, curve and montage that show it, and its figures."""
    target = (ring_example(40).numpy()[:30] * 255).astype(np.uint8)
    Image.fromarray(target).save(tmp_path / "in.png")
    metrics = run_image_fit(tmp_path / "in.png", ImageFitSettings(count=80, steps=150), tmp_path / "out")
    assert metrics["psnr"] > metrics["psnr.100"] > metrics["psnr.start"] and metrics["psnr"] > 25
    assert (metrics["width"], metrics["height"]) == (40, 30)
    picture = np.asarray(Image.open(tmp_path / "out" / "picture.png"), np.float64)
    error = np.square(picture / 255 - target / 255).mean()
    assert psnr_db(error) == pytest.approx(metrics["psnr"], abs=0.3)
    montage = Image.open(tmp_path / "out" / "montage.png")
    assert montage.size[0] > 4 * 280 and montage.size[1] > 280
    assert (np.asarray(Image.open(tmp_path / "out" / "curve.png")) != 255).any()


def test_curve_rises_with_the_figures() -> None:
    """A rising curve goes from the lower left to the upper right; a flat one is drawn too."""
    sheet = draw_curve([10.0 + 0.2 * step for step in range(101)])
    blue = np.argwhere((sheet[..., 2] > 150) & (sheet[..., 0] < 80))
    first, last = blue[blue[:, 1].argmin()], blue[blue[:, 1].argmax()]
    assert first[0] > last[0] + 100 and last[1] > first[1] + 400
    assert draw_curve([20.0, 20.0]).shape == (400, 720, 3)


def test_large_pictures_are_shrunk(tmp_path: Path) -> None:
    """The longer side is brought to the limit, the mean colour stays, transparent pixels are black."""
    pixels = np.zeros((60, 90, 4), np.uint8)
    pixels[:, :45] = (255, 128, 0, 255)
    pixels[:, 45:] = (255, 255, 255, 0)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    target = load_target(tmp_path / "a.png", 30)
    assert target.shape == (20, 30, 3) and target[..., 0].mean().item() == pytest.approx(0.5, abs=1e-6)
    assert load_target(tmp_path / "a.png", 0).shape == (60, 90, 3)
    with pytest.raises(UserError, match=r"no\.png"):
        load_target(tmp_path / "no.png", 0)
