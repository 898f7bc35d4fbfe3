"""splat_engine.fit.pixel_filter: a view as Cycles filters it, and fits to views of a narrower one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from splat_engine.fit.commands import CommandQueue
from splat_engine.fit.data import CaptureImages
from splat_engine.fit.drawing import draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.loop import FitRequest, run_fit
from splat_engine.fit.metrics import mean_scores, score_views
from splat_engine.fit.model import SplatState
from splat_engine.fit.pixel_filter import draw_through_filter, window
from splat_engine.fit.views import camera_tensors
from splat_engine.formats.capture import CaptureInfo, read_capture
from splat_engine.formats.conventions import BOX_FILTER_VARIANCE_PX2, PIXEL_FILTER_VARIANCE_PX2
from splat_engine.formats.events import Event
from splat_engine.formats.settings import FitSettings, RunSettings
from splat_engine.formats.splat_ply import read_splat_ply
from tests.engine.tiny_capture import known_splats, ring_cameras, write_tiny_capture

BLACK = torch.zeros(3)
FINE = 9
"""Points a pixel of the picture that is compared with: three times as many as are drawn."""


def blackman_harris(offset_px: torch.Tensor) -> torch.Tensor:
    """The window of Harris 1978 (4 terms, minimum), 1.5 px to each side, not normalised."""
    turn = math.pi * offset_px / 1.5
    return 0.35875 + 0.48829 * turn.cos() + 0.14128 * (2 * turn).cos() + 0.01168 * (3 * turn).cos()


def test_the_window_is_that_of_cycles() -> None:
    """Its points have the sum 1 and the variance of Cycles' filter, and end within it."""
    weights = window().double().T.flatten()  # from left to right
    offsets_px = (torch.arange(9) - 4).double() / 3
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    assert (weights * offsets_px.square()).sum() == pytest.approx(PIXEL_FILTER_VARIANCE_PX2, rel=2e-3)
    expected = blackman_harris(offsets_px)
    assert torch.allclose(weights, expected / expected.sum(), atol=1e-6)


def test_a_view_is_filtered_after_it_is_blended() -> None:
    """Inside the picture it is what the window makes of a picture with many more points; a plain one is not."""
    params, camera = SplatState.from_splats(known_splats()).params, ring_cameras(3)[1]
    viewmat, intrinsics = camera_tensors(camera)
    drawn = draw_through_filter(params, viewmat, camera, background=BLACK)
    point = ImageFormation("blender", filter_px2=0.0)
    fine = replace(
        camera,
        width=camera.width * FINE,
        height=camera.height * FINE,
        **{name: getattr(camera, name) * FINE for name in ("fx", "fy", "cx", "cy")},
    )
    many = draw(params, *camera_tensors(fine), fine, point, background=BLACK).blended.double()
    half = FINE + FINE // 2
    kernel = blackman_harris(torch.arange(-half, half + 1, dtype=torch.float64) / FINE)
    kernel = torch.outer(kernel, kernel) / kernel.sum() ** 2
    sums = torch.nn.functional.conv2d(many.permute(2, 0, 1)[:, None], kernel[None, None], padding=half)
    expected = sums[:, 0, FINE // 2 :: FINE, FINE // 2 :: FINE].permute(1, 2, 0)
    inner = (slice(2, -2), slice(2, -2))
    plain = draw(params, viewmat, intrinsics, camera, point, background=BLACK).blended
    assert expected[inner].max() > 0.1
    error = (drawn.blended.double() - expected)[inner].square().mean().sqrt()
    error_without = (plain.double() - expected)[inner].square().mean().sqrt()
    assert error < 0.002 and error_without > 5 * error


def test_borders_see_what_lies_outside() -> None:
    """The picture of a part is the part of the picture: rays of a pixel at the border go beyond it."""
    params, camera = SplatState.from_splats(known_splats()).params, ring_cameras(3)[0]
    viewmat, _ = camera_tensors(camera)
    whole = draw_through_filter(params, viewmat, camera, background=BLACK)
    x, y, width, height = camera.width // 2, camera.height // 3, camera.width // 4, camera.height // 4
    part = replace(camera, width=width, height=height, cx=camera.cx - x, cy=camera.cy - y)
    drawn = draw_through_filter(params, viewmat, part, background=BLACK)
    expected = whole.blended[y : y + height, x : x + width]
    assert expected.max() > 0.1
    # Splats far outside of a picture are projected a little differently (the Jacobian's clamp), so that a few pixels have
    # another order: not bit for bit.
    assert ((drawn.blended - expected).abs() < 0.01).double().mean() > 0.99
    outer = torch.cat((expected[0], expected[-1], expected[:, 0], expected[:, -1]))
    drawn_outer = torch.cat((drawn.blended[0], drawn.blended[-1], drawn.blended[:, 0], drawn.blended[:, -1]))
    assert (outer - drawn_outer).abs().mean() < 0.002 < 0.1 * outer.mean()


def test_no_splats_leave_the_background() -> None:
    """N = 0 draws the background, with alpha 0."""
    splats = known_splats()
    params = {name: value[:0] for name, value in SplatState.from_splats(splats).params.items()}
    camera = ring_cameras(3)[0]
    drawn = draw_through_filter(
        params, camera_tensors(camera)[0], camera, background=torch.tensor([0.1, 0.2, 0.3])
    )
    assert torch.allclose(drawn.blended, torch.tensor([0.1, 0.2, 0.3]).expand_as(drawn.blended))
    assert drawn.alpha.abs().max() == 0


def test_the_capture_says_how_its_views_are_drawn() -> None:
    """Views through a box are drawn with splats that are wider for one; the look of web viewers keeps its own."""
    plain, box = CaptureInfo(), CaptureInfo(box_filtered=True)
    assert ImageFormation.of("blender", plain).dilation_px2 == PIXEL_FILTER_VARIANCE_PX2
    assert (
        ImageFormation.of("blender", box).dilation_px2 == BOX_FILTER_VARIANCE_PX2 < PIXEL_FILTER_VARIANCE_PX2
    )
    assert ImageFormation.of("classic", box).dilation_px2 == 0.3
    assert ImageFormation.of("blender", box).is_filtered_anew("test")
    assert not ImageFormation.of("blender", box).is_filtered_anew("train")
    assert not ImageFormation.of("classic", box).is_filtered_anew("test")
    assert not ImageFormation.of("blender", plain).is_filtered_anew("test")


def test_a_fit_to_views_of_a_box_is_measured_through_the_filter(tmp_path: Path) -> None:
    """The figures are those of filtered pictures against the filtered held-out views, and the splats come out right."""
    capture = write_tiny_capture(tmp_path / "capture", box_filtered=True)
    assert read_capture(capture.root).info.box_filtered
    events: list[Event] = []
    settings = RunSettings(fit=FitSettings(steps=60, strategy="none"))
    request = FitRequest(capture.root, tmp_path / "run", settings)
    finished = run_fit(request, events.append, CommandQueue())
    splats, _, _ = read_splat_ply(tmp_path / "run" / "splats.ply")
    params = SplatState.from_splats(splats).params
    formation = ImageFormation.of("blender", capture.info)
    images = CaptureImages(capture, "test", formation)
    through, plain = (
        mean_scores(list(score_views(params, images, formation, through_filter=filtered)))["engine.psnr"]
        for filtered in (True, False)
    )
    assert finished.metrics["engine.psnr"] == pytest.approx(through, abs=0.02)
    assert abs(through - plain) > 0.1


@pytest.mark.parametrize("formation", ["blender", "classic"])
def test_the_truth_scores_best_through_the_filter(formation: str, tmp_path: Path) -> None:
    """The splats that a capture was drawn from have no error in held-out views, in Blender's look."""
    capture = write_tiny_capture(tmp_path, box_filtered=True)
    params = SplatState.from_splats(known_splats()).params
    how = ImageFormation.of(formation, capture.info)  # type: ignore[arg-type]
    images = CaptureImages(capture, "test", how)
    score = mean_scores(list(score_views(params, images, how, through_filter=how.is_filtered_anew("test"))))
    assert (score["engine.psnr"] > 60) == (formation == "blender")
