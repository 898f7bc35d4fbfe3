"""The image formations: what the ``blender`` one takes from Cycles' pixel filter."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from splat_engine.fit.drawing import camera_options
from splat_engine.fit.formation import ImageFormation
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import PIXEL_FILTER_VARIANCE_PX2
from splat_engine.ops import project, rasterize

SIZE_PX = 24
FINE = 9
"""Samples along a pixel's side; odd, so that one of them is the pixel's centre."""
FILTER_HALF_PX = 1.5
FOCAL_PX, DISTANCE = 30.0, 4.0


def pose() -> NDArray[np.float64]:
    """world_from_camera, OpenCV axes: DISTANCE before the origin, looking at it along z."""
    matrix = np.eye(4)
    matrix[2, 3] = -DISTANCE
    return matrix


def blackman_harris(offset_px: Tensor) -> Tensor:
    """The window of Harris 1978 (4 terms, minimum), 1.5 px to each side, not normalised."""
    turn = math.pi * offset_px / FILTER_HALF_PX
    window = 0.35875 + 0.48829 * turn.cos() + 0.14128 * (2 * turn).cos() + 0.01168 * (3 * turn).cos()
    return torch.where(offset_px.abs() < FILTER_HALF_PX, window, torch.zeros(()))


def drawn_alpha(camera: Camera, scale: float, *, dilation_px2: float, antialiased: bool, zoom: int) -> Tensor:
    """Alpha [H, W] of one splat of opacity 0.9, flat and turned, with `zoom` samples along a pixel's side."""
    options = {**camera_options(camera, ImageFormation("blender")), "dilation_px2": dilation_px2}
    viewmat = torch.tensor(camera.viewmat, dtype=torch.float64)
    intrinsics = torch.tensor(camera.intrinsics, dtype=torch.float64) * zoom
    size = SIZE_PX * zoom
    splat = project(
        torch.tensor([[0.013, -0.021, 0.0]], dtype=torch.float64),
        torch.tensor([[scale, 2.5 * scale, 0.3 * scale]], dtype=torch.float64).log(),
        torch.tensor([[0.9, 0.2, 0.1, 0.4]], dtype=torch.float64),
        torch.tensor([math.log(9.0)], dtype=torch.float64),
        viewmat,
        intrinsics,
        size,
        size,
        **{**options, "antialiased": antialiased},  # type: ignore[arg-type]
    )
    features = torch.ones(1, 3, dtype=torch.float64)
    background = torch.zeros(3, dtype=torch.float64)
    _, alpha = rasterize(
        splat.means2d,
        splat.conics,
        splat.opacities,
        features,
        splat.depths,
        size,
        size,
        background=background,
    )
    return alpha


def filtered(fine: Tensor) -> Tensor:
    """Sums [FINE H, FINE W] samples up as Cycles' pixel filter does: [H, W]."""
    half = int(FILTER_HALF_PX * FINE)
    window = blackman_harris(torch.arange(-half, half + 1, dtype=torch.float64) / FINE)
    kernel = torch.outer(window, window) / window.sum() ** 2
    sums = torch.nn.functional.conv2d(fine[None, None], kernel[None, None], padding=half)[0, 0]
    return sums[FINE // 2 :: FINE, FINE // 2 :: FINE]


def test_the_filter_has_the_variance_of_its_window() -> None:
    """The constant is the variance of the window that Cycles samples pixels with."""
    offsets = torch.linspace(-FILTER_HALF_PX, FILTER_HALF_PX, 20001, dtype=torch.float64)
    window = blackman_harris(offsets)
    variance = float((window * offsets.square()).sum() / window.sum())
    assert variance == pytest.approx(PIXEL_FILTER_VARIANCE_PX2, rel=1e-3)


@pytest.mark.parametrize("sigma_px", [0.3, 0.6, 1.5])
def test_the_blender_formation_draws_through_the_pixel_filter(sigma_px: float) -> None:
    """One splat, small or large, looks as its unfiltered picture does after the window; unfiltered it does not."""
    camera = Camera(SIZE_PX, SIZE_PX, FOCAL_PX, FOCAL_PX, SIZE_PX / 2, SIZE_PX / 2, pose())
    scale = sigma_px * DISTANCE / FOCAL_PX
    formation = ImageFormation("blender")
    options = {"dilation_px2": formation.dilation_px2, "antialiased": formation.antialiased}
    drawn = drawn_alpha(camera, scale, **options, zoom=1)  # type: ignore[arg-type]
    plain = drawn_alpha(camera, scale, dilation_px2=0.0, antialiased=False, zoom=1)
    expected = filtered(drawn_alpha(camera, scale, dilation_px2=0.0, antialiased=False, zoom=FINE))
    assert expected.max() > 0.1
    error, error_without = (float((x - expected).abs().max()) for x in (drawn, plain))
    # A Gaussian stands for the window, whose tails are cut, and alpha below 1/255 is not drawn.
    assert error < 0.012
    assert error_without > 4 * error


def test_classic_has_no_filter() -> None:
    """The formation of web viewers keeps its 0.3 px^2, and does not dim."""
    formation = ImageFormation("classic")
    assert formation.dilation_px2 == 0.3
    assert not formation.antialiased
