"""Coarse views show what fine ones show: cameras agree about where points are, pixels are means, splats look the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from splat_engine.fit.coarse import (
    SIDE_MIN_PX,
    CoarseViews,
    coarse_camera,
    coarse_cost,
    coarse_factor,
    coarse_view,
)
from splat_engine.fit.drawing import draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.views import ViewList, ViewTensors, view_tensors
from tests.engine.tiny_capture import known_splats, ring_cameras, tensors

W, H = 2 * SIDE_MIN_PX + 1, 2 * SIDE_MIN_PX + 3


def view_of(depth: torch.Tensor | None = None, valid: torch.Tensor | None = None) -> ViewTensors:
    """A view with fewer whole blocks than pixels on both sides."""
    values = torch.rand((H, W, 7), generator=torch.Generator().manual_seed(1))
    camera = ring_cameras(1, W, H)[0]
    normals = torch.nn.functional.normalize(values[..., 4:] - 0.3, dim=-1)
    return view_tensors(camera, values[..., :3], values[..., 3], depth=depth, normals=normals, valid=valid)


def test_a_point_falls_where_it_fell_before() -> None:
    """Pixel coordinates, counted from the upper left corner, are divided exactly, whatever is cut off at the borders."""
    camera = replace(ring_cameras(1, W, H)[0], cx=40.25, cy=71.5)
    points = np.random.default_rng(0).normal(size=(20, 3))
    coarse = coarse_camera(camera, 2)
    assert (coarse.width, coarse.height) == (W // 2, H // 2)
    fine_px, depth = camera.project(points)
    coarse_px, coarse_depth = coarse.project(points)
    assert np.allclose(coarse_px, fine_px / 2, atol=1e-9) and np.array_equal(depth, coarse_depth)


def test_no_side_becomes_too_short() -> None:
    """A small view stays as it is; one that allows half of its resolution gets no less."""
    small = view_of()
    small = replace(small, camera=replace(small.camera, width=100, height=100))
    assert coarse_view(small, 4) is small and coarse_camera(small.camera, 2) is small.camera
    assert coarse_view(view_of(), 4).color.shape == (H // 2, W // 2, 3)


def test_pixels_are_means_of_premultiplied_values() -> None:
    """Colour and alpha are averaged as they are; a block with a pixel that does not count does not count."""
    valid = torch.ones(H, W, dtype=torch.bool)
    valid[5, 8] = False
    view = view_of(valid=valid)
    coarse = coarse_view(view, 2)
    assert torch.allclose(coarse.color[3, 4], view.color[6:8, 8:10].mean(dim=(0, 1)))
    assert torch.allclose(coarse.alpha[0, 0], view.alpha[:2, :2].mean())
    assert coarse.valid is not None and not coarse.valid[2, 4] and int((~coarse.valid).sum()) == 1
    assert coarse.color.is_contiguous() and coarse.alpha.is_contiguous()
    assert coarse.intrinsics.tolist() == pytest.approx((view.intrinsics / 2).tolist())


def test_depth_is_of_one_surface() -> None:
    """A block with a pixel without depth has none, the others their mean; normals keep length 1."""
    depth = torch.full((H, W), 3.0)
    depth[0, 0], depth[2, 2] = 5.0, 0.0
    coarse = coarse_view(view_of(depth), 2)
    assert coarse.depth is not None and coarse.normals is not None
    assert coarse.depth[0, 0] == 3.5 and coarse.depth[1, 1] == 0 and coarse.depth[2, 2] == 3
    assert torch.allclose(torch.linalg.vector_norm(coarse.normals, dim=-1), torch.ones(()), atol=1e-5)


@pytest.mark.parametrize("name", ["blender", "classic"])
def test_splats_drawn_coarsely_are_the_coarse_drawing(name: str) -> None:
    """Splats of many pixels look the same either way: no half pixel is lost between them."""
    formation = ImageFormation(name)  # type: ignore[arg-type]
    params = tensors(known_splats())
    camera = ring_cameras(1, 4 * SIDE_MIN_PX, 4 * SIDE_MIN_PX)[0]
    view = view_tensors(camera, torch.zeros(1), torch.zeros(1))
    with torch.no_grad():
        drawn = draw(params, view.viewmat, view.intrinsics, camera, formation, background=torch.zeros(3))
        fine = coarse_view(view_tensors(camera, drawn.blended, drawn.alpha), 4)
        drawn = draw(params, fine.viewmat, fine.intrinsics, fine.camera, formation, background=torch.zeros(3))
    assert fine.alpha.mean() > 0.1
    difference = (drawn.alpha - fine.alpha).abs()
    shifted = (drawn.alpha - fine.alpha.roll(1, dims=1)).abs()
    assert difference.mean() < 0.01 and difference.mean() < 0.2 * shifted.mean()
    assert (drawn.blended - fine.color).abs().mean() < 0.01


def test_what_coarse_steps_cost() -> None:
    """Half, then three quarters of a step's time; without coarse steps the cost is the share itself."""
    assert coarse_cost(0.7, 0.0) == pytest.approx(0.7)
    assert coarse_cost(0.1, 0.5) == pytest.approx(0.05) and coarse_cost(0.15, 0.5) == pytest.approx(0.075)
    assert coarse_cost(0.5, 0.5) == pytest.approx(0.075 + 0.75 * 0.35)
    assert coarse_cost(1.0, 0.5) - coarse_cost(0.5, 0.5) == pytest.approx(0.5)


def test_views_and_their_resolutions() -> None:
    """A quarter, then half, then all of the resolution; the cameras are those of the views."""
    assert [coarse_factor(share, 0.5) for share in (0.0, 0.14, 0.16, 0.49, 0.5, 1.0)] == [4, 4, 2, 2, 1, 1]
    assert coarse_factor(0.0, 0.0) == 1
    views = CoarseViews(ViewList([view_of(), view_of()]), 2)
    assert len(views) == 2 and [view.camera for view in (views[0], views[1])] == views.cameras
