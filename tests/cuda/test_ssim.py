"""The kernels of csrc/cuda/ssim.cu, run on the CPU: against the other backends, gradients, odd sizes, orders of threads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from splat_engine.ops._cuda import losses
from splat_engine.ops._cuda.launch import emulated_by
from splat_engine.ops.ssim import PADDINGS, ssim
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order
from tests.engine.gradient_check import relative_l2
from tests.engine.test_ssim import pictures

SIZES = [(1, 1, 3), (5, 7, 3), (16, 16, 1), (17, 33, 2), (22, 32, 3), (64, 70, 3), (23, 97, 5)]
"""Among them: smaller than the window, exactly a tile, one row and one column more, several tiles."""

pytestmark = pytest.mark.usefixtures("emulated")


def value_and_gradient(
    image: Tensor, target: Tensor, backend: str, *, padding: str = "same", data_range: float = 1.0
) -> tuple[Tensor, Tensor]:
    leaf = image.clone().requires_grad_()
    value = ssim(leaf, target, padding=padding, data_range=data_range, backend=backend)
    (gradient,) = torch.autograd.grad(3.0 * value, leaf)
    return value.detach(), gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("size", SIZES)
def test_equals_the_other_backends(size: tuple[int, int, int], padding: str, dtype: torch.dtype) -> None:
    """Value and gradient are those of the CPU and of plain torch, for pictures smaller and larger than a tile."""
    if padding != "same" and min(size[:2]) < 11:
        size = (size[0] + 10, size[1] + 10, size[2])
    image, target = pictures(*size, dtype)
    value, gradient = value_and_gradient(image, target, "cuda", padding=padding)
    tolerance, of_value = (3e-5, 1e-5) if dtype == torch.float32 else (1e-11, 1e-12)
    for backend in ("cpu", "reference"):
        expected, wanted = value_and_gradient(image, target, backend, padding=padding)
        assert 0.01 < expected < 0.999 and wanted.abs().max() > 0
        assert abs(value - expected) < of_value, backend
        assert relative_l2(gradient, wanted) < tolerance, backend


@pytest.mark.parametrize("padding", PADDINGS)
def test_gradcheck(padding: str) -> None:
    """The gradient is that of central differences, across the border of two tiles."""
    image, target = pictures(12, 34 if padding == "same" else 12, 2)
    image.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a: ssim(a, target, padding=padding, backend="cuda"),
        (image,),
        atol=1e-9,
        rtol=1e-6,
        fast_mode=padding != "same",
    )


@every_order
def test_orders_do_not_change_a_bit(emulated: EmulatedLauncher) -> None:
    """Value and gradient are those of the forward order in every bit, whatever thread or block comes first."""
    image, target = pictures(24, 35, 3, torch.float32)
    value, gradient = value_and_gradient(image, target, "cuda")
    assert set(emulated.launches) == {"ssim_tiles_f32", "ssim_mean_f32", "ssim_bwd_f32"}
    with emulated_by(EmulatedLauncher()):
        expected, wanted = value_and_gradient(image, target, "cuda")
    assert torch.equal(value, expected) and torch.equal(gradient, wanted) and wanted.abs().max() > 0


def test_data_range() -> None:
    """Values up to 4 with a range of 4 have the similarity of values up to 1."""
    image, target = pictures(20, 30, 3)
    value, _ = value_and_gradient(image, target, "cuda")
    scaled, _ = value_and_gradient(4 * image, 4 * target, "cuda", data_range=4.0)
    assert float(scaled) == pytest.approx(float(value), rel=1e-12)


def test_sums_are_as_good_as_double() -> None:
    """The mean of 40 tiles of float pixels is that of double arithmetic to 3e-7: sums lose nothing."""
    image, target = pictures(110, 250, 1, torch.float32)
    value = ssim(image, target, backend="cuda")
    expected = ssim(image.double(), target.double(), backend="reference")
    assert float(value) == pytest.approx(float(expected), abs=3e-7)


def test_without_gradient_no_maps_are_written() -> None:
    """An image that needs no gradient gives the same bits."""
    image, target = pictures(33, 41, 3, torch.float32)
    value, _ = value_and_gradient(image, target, "cuda")
    assert torch.equal(ssim(image, target, backend="cuda"), value)


def test_what_is_not_finite_is_seen() -> None:
    """One pixel that is NaN makes the mean NaN."""
    image, target = pictures(30, 40, 3, torch.float32)
    image[29, 39, 2] = float("nan")
    assert torch.isnan(ssim(image, target, backend="cuda"))


def test_the_host_knows_the_tile() -> None:
    """Tile and blocks of the host's grids are those that window.h cuts."""
    text = (Path(__file__).parents[2] / "csrc/cuda/window.h").read_text()
    warp, warps = 32, int(re.search(r"WINDOW_WARPS = (\d+);", text)[1])
    assert "TILE_WIDTH = WARP;" in text and warp == losses.TILE_WIDTH
    assert "SPAN_HEIGHT = WARP;" in text and "TILE_HEIGHT = SPAN_HEIGHT - 2 * WINDOW_RADIUS;" in text
    assert warp - 2 * 5 == losses.TILE_HEIGHT and warps * warp == losses.WINDOW_BLOCK
