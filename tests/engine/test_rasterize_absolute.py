"""Absolute gradients of the rasterizer: sums over pixels of |dL/dmeans2d| (AbsGS)."""

from __future__ import annotations

import pytest
import torch
from gradient_check import STEP, relative_l2
from raster_scenes import cast, margin, scene
from torch import Tensor

from splat_engine.ops.rasterize import RasterPass, rasterize

SIZE = (33, 21)


def cotangents(channels: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    width, height = SIZE
    v_image = torch.randn(height, width, channels, generator=generator, dtype=torch.float64)
    return v_image.to(dtype), torch.randn(height, width, generator=generator, dtype=torch.float64).to(dtype)


def absolute_of(tensors: dict[str, Tensor], backend: str) -> list[Tensor]:
    drawing = RasterPass(**tensors, width=SIZE[0], height=SIZE[1], backend=backend)
    v_image, v_alpha = cotangents(tensors["features"].shape[1], drawing.image.dtype)
    return drawing.backward(v_image, v_alpha, absolute=True)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cpu_equals_the_reference(dtype: torch.dtype, channels: int) -> None:
    """All five gradients, for every compiled number of channels and some between."""
    tensors = cast(scene(80, *SIZE, channels, seed=1), dtype)
    ours, theirs = absolute_of(tensors, "cpu"), absolute_of(tensors, "reference")
    for mine, stated in zip(ours, theirs, strict=True):
        assert stated.any()
        assert relative_l2(mine, stated) < (1e-4 if dtype is torch.float32 else 1e-10)


def test_they_equal_differences_of_each_pixels_loss() -> None:
    """Central differences of the map of losses, their absolute values summed, where no pixel is near a decision."""
    tensors = scene(6, *SIZE, seed=3, sigma_px=(15.0, 30.0), opacity=(0.3, 0.6))
    tensors["means2d"] = tensors["means2d"] * 0.5 + torch.tensor([8.0, 5.0], dtype=torch.float64)
    assert margin(tensors, *SIZE).min() > 1e-2
    v_image, v_alpha = cotangents(3, torch.float64)

    def losses(means2d: Tensor) -> Tensor:
        image, alpha = rasterize(**{**tensors, "means2d": means2d}, width=SIZE[0], height=SIZE[1])
        return (image * v_image).sum(-1) + alpha * v_alpha

    expected = torch.zeros_like(tensors["means2d"])
    for splat in range(6):
        for axis in range(2):
            step = torch.zeros_like(expected)
            step[splat, axis] = STEP
            far = losses(tensors["means2d"] + 2 * step) - losses(tensors["means2d"] - 2 * step)
            near = losses(tensors["means2d"] + step) - losses(tensors["means2d"] - step)
            expected[splat, axis] = ((8 * near - far) / (12 * STEP)).abs().sum()
    for backend in ("cpu", "reference"):
        found = absolute_of(tensors, backend)
        assert relative_l2(found[4], expected) < 1e-6
        assert (found[4] > 1.5 * found[0].abs()).any(), "nothing cancels in this scene"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_other_gradients_do_not_change(dtype: torch.dtype) -> None:
    """With and without: the same four, to rounding; and the absolute ones are at least as large as the plain."""
    tensors = cast(scene(500, *SIZE, seed=4, sigma_px=(0.5, 4.0)), dtype)
    drawing = RasterPass(**tensors, width=SIZE[0], height=SIZE[1])
    plain, with_absolute = drawing.backward(*cotangents(3, dtype)), absolute_of(tensors, "cpu")
    assert len(plain) == 4 and len(with_absolute) == 5
    for without, same in zip(plain, with_absolute, strict=False):
        assert relative_l2(without, same) < 1e-6
    assert (with_absolute[4] >= plain[0].abs() * (1 - 1e-5)).all()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("count", [0, 3])
def test_splats_that_are_not_drawn_have_none(count: int, backend: str) -> None:
    """N = 0, or all outside: zeros."""
    tensors = scene(count, *SIZE)
    tensors["means2d"] = tensors["means2d"] + 1e4
    absolute = absolute_of(tensors, backend)[4]
    assert absolute.shape == (count, 2) and not absolute.any()
