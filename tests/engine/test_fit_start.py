"""The first splats and the scene's size are sane for every number and kind of points and cameras."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from splat_engine.fit.start import start_splats
from splat_engine.fit.start.points import (
    NEAR_SHARE,
    NORMAL_SHARE,
    RANDOM_OPACITY,
    random_points,
    splats_from_points,
)
from splat_engine.fit.start.scene import scene_bounds, scene_extent
from splat_engine.fit.strategies.children import rotate
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, CaptureInfo, View
from splat_engine.formats.conventions import SH_C0, srgb_from_linear
from splat_engine.formats.errors import UserError
from splat_engine.formats.point_ply import Points, write_point_ply
from splat_engine.formats.settings import RANDOM_START, FitSettings, RunSettings, StartSettings
from splat_engine.formats.splat_ply import write_splat_ply
from splat_engine.formats.splats import Splats
from tests.engine.tiny_capture import known_splats, look_at, ring_cameras


def grid_points(normals: bool = True) -> Points:
    """A 10 x 10 grid in the plane z = 0 with spacing 0.1, facing a slanted direction."""
    axis = np.arange(10) * 0.1
    positions = np.stack((*np.meshgrid(axis, axis), np.zeros((10, 10))), axis=-1).reshape(-1, 3)
    normal = np.array([0.6, 0.0, -0.8]) if normals else np.zeros(3)
    colors = np.random.default_rng(0).uniform(0, 2, positions.shape)
    return Points(
        positions.astype(np.float32), colors.astype(np.float32), np.tile(normal, (100, 1)).astype(np.float32)
    )


def captured(cameras: list[Camera], root: Path = Path(), **more: object) -> Capture:
    return Capture(root, tuple(View(camera, exr="x.exr") for camera in cameras), **more)  # type: ignore[arg-type]


def started_from(path: Path, **fit: object) -> RunSettings:
    return RunSettings(fit=FitSettings(**fit), start=StartSettings(start=str(path)))  # type: ignore[arg-type]


def assert_sane(splats: Splats) -> None:
    """Every number finite, sizes positive."""
    assert splats.finite().all()
    assert (splats.scales() > 0).all() and np.isfinite(splats.scales()).all()


def test_splats_lie_flat_on_the_surface() -> None:
    """Width is the way to the neighbours, thickness 0.2 of it, and the thin axis is the normal."""
    splats = splats_from_points(grid_points(), extent=5.0, opacity=0.3)
    inner = np.array([row * 10 + column for row in range(2, 8) for column in range(2, 8)])
    scales = splats.scales()[inner]
    assert np.allclose(scales[:, :2], 0.1, rtol=1e-3) and np.allclose(
        scales[:, 2], 0.1 * NORMAL_SHARE, rtol=1e-3
    )
    import torch

    z = torch.tensor([[0.0, 0.0, 1.0]]).expand(100, 3)
    turned = rotate(torch.from_numpy(splats.quats_wxyz), z).numpy()
    assert np.allclose(turned, [0.6, 0.0, -0.8], atol=1e-6)
    assert np.allclose(splats.opacities(), 0.3, atol=1e-6)


def test_normals_of_every_direction_turn_the_thin_axis() -> None:
    """Also straight down, where the shortest turn is not unique, and absent normals give round splats."""
    import torch

    rng = np.random.default_rng(2)
    normals = rng.normal(size=(50, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals[0], normals[1], normals[2] = [0, 0, -1], [0, 0, 1], [0, 0, 0]
    points = Points(
        rng.normal(size=(50, 3)).astype(np.float32), np.ones((50, 3), np.float32), normals.astype(np.float32)
    )
    splats = splats_from_points(points, extent=5.0, opacity=0.5)
    assert_sane(splats)
    z = torch.tensor([[0.0, 0.0, 1.0]]).expand(50, 3)
    turned = rotate(torch.from_numpy(splats.quats_wxyz), z).numpy()
    chosen = np.arange(50) != 2
    assert np.allclose(turned[chosen], normals[chosen], atol=1e-5)
    assert splats.log_scales[2, 2] == splats.log_scales[2, 0]


def test_colours_are_encoded() -> None:
    """A point's scene-linear colour becomes the encoded value of the constant coefficient, above 1 too."""
    points = grid_points()
    splats = splats_from_points(points, extent=5.0, opacity=0.5)
    encoded = 0.5 + SH_C0 * splats.sh[:, 0]
    assert np.allclose(encoded, srgb_from_linear(points.colors.astype(np.float64)), atol=1e-5)
    assert encoded.max() > 1.2


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 10])
def test_few_points_are_enough(count: int) -> None:
    """0 to 10 points give as many finite splats, no wider than a tenth of the extent."""
    points = grid_points()
    few = Points(points.positions[:count] * 100, points.colors[:count], points.normals[:count])
    splats = splats_from_points(few, extent=5.0, opacity=0.5)
    assert len(splats) == count
    assert_sane(splats)
    assert (splats.scales() <= 0.5 * 1.001).all()


def test_coincident_points_keep_a_size() -> None:
    """A thousand points in one spot give finite, small, positive sizes."""
    positions = np.ones((1000, 3), np.float32)
    splats = splats_from_points(Points(positions, positions, 0 * positions), extent=5.0, opacity=0.5)
    assert len(splats) == 1000
    assert_sane(splats)
    assert (splats.scales() < 1e-3).all()


def test_points_at_a_camera_are_left_out() -> None:
    """Points near a perspective camera vanish, those a bit farther stay small against their distance."""
    camera = ring_cameras(1)[0]
    offsets = np.array([[0, 0, 0], [0.01, 0, 0], [0.2, 0, 0], [3, 0, 0], [3, 1, 0]])
    positions = (camera.position + offsets).astype(np.float32)
    points = Points(positions, np.ones_like(positions), np.zeros_like(positions))
    splats = splats_from_points(points, extent=4.0, opacity=0.5, cameras=[camera])
    assert NEAR_SHARE * 4.0 == 0.04 and len(splats) == 3
    assert_sane(splats)
    assert splats.scales()[0].max() <= 0.2 * 0.1 * 1.001
    orthographic = replace(camera, model="orthographic")
    assert len(splats_from_points(points, extent=4.0, opacity=0.5, cameras=[orthographic])) == 5


def test_extent_is_that_of_3dgs() -> None:
    """1.1 times the largest distance of a camera from the cameras' centre."""
    cameras = ring_cameras(8)
    centres = np.array([camera.position for camera in cameras])
    expected = 1.1 * np.linalg.norm(centres - centres.mean(axis=0), axis=1).max()
    assert scene_extent(captured(cameras)) == pytest.approx(expected)
    assert 4.0 < expected < 5.0


def test_extent_falls_back_on_the_bounds() -> None:
    """One camera, cameras in one spot, or orthographic ones: the bounds' radius, of the capture or of the points."""
    one = ring_cameras(1)
    points = np.random.default_rng(0).uniform(-1, 1, (1000, 3)).astype(np.float32)
    by_points = scene_extent(captured(one), points)
    assert 1.5 < by_points < 1.8
    stated = CaptureInfo(bounds_min=(0.0, 0.0, 0.0), bounds_max=(2.0, 4.0, 4.0))
    assert scene_extent(captured(one, info=stated), points) == pytest.approx(3.0)
    assert scene_extent(captured(one * 5), points) == by_points
    orthographic = [replace(camera, model="orthographic", fx=10.0, fy=10.0) for camera in ring_cameras(4)]
    assert scene_extent(captured(orthographic), points) == by_points
    assert scene_extent(captured(orthographic)) == pytest.approx(1.8)  # half of 36 px at 10 px a unit
    assert scene_extent(captured(one)) > 0
    assert scene_extent(captured(one), points[:1]) > 0


def test_bounds_are_where_the_cameras_look() -> None:
    """Without points the centre is where the axes meet, the radius what the pictures cover there."""
    target = np.array([5.0, -2.0, 1.0])
    cameras = []
    for camera in ring_cameras(6):
        position = camera.position + target
        cameras.append(replace(camera, world_from_camera=look_at(position, target)))
    centre, radius = scene_bounds(captured(cameras))
    assert np.allclose(centre, target, atol=0.01)
    assert radius == pytest.approx(4.1 * 0.5 * 36 / (1.1 * 44), rel=0.05)
    points = random_points(captured(cameras), 500, np.random.default_rng(0))
    distance = np.linalg.norm(points.positions - target, axis=1)
    assert distance.max() <= radius * 1.01 and np.median(distance) > 0.6 * radius


def test_start_reads_points_and_splats(tmp_path: Path) -> None:
    """A PLY of points or of splats starts the fit, told apart by what is in it; SH is cut to the setting's degree."""
    capture = captured(ring_cameras(8), tmp_path)
    rng = np.random.default_rng(0)
    write_point_ply(tmp_path / "points.ply", grid_points())
    splats, extent, _ = start_splats(capture, started_from(tmp_path / "points.ply"), rng, pytest.fail)
    assert len(splats) == 100 and extent > 4
    write_splat_ply(tmp_path / "splats.ply", known_splats(30).with_sh_degree(3))
    settings = started_from(tmp_path / "splats.ply", sh_degree=1)
    splats, *_ = start_splats(capture, settings, rng, pytest.fail)
    assert len(splats) == 30 and splats.sh_degree == 1
    assert np.array_equal(splats.means, known_splats(30).means)
    splats, *_ = start_splats(capture, RunSettings(start=StartSettings(random_points=77)), rng, pytest.fail)
    assert len(splats) == 77 and np.allclose(splats.opacities(), RANDOM_OPACITY)
    assert_sane(splats)


def test_start_reads_colmap_points(tmp_path: Path) -> None:
    """A folder of a reconstruction, its text or its binary file; the data set's transform puts the points in place."""
    (tmp_path / "sparse" / "0").mkdir(parents=True)
    rows = "".join(f"{number} {number} 0 1 255 0 0 0.5 1 2\n" for number in range(1, 6))
    file = tmp_path / "sparse" / "0" / "points3D.txt"
    file.write_text(rows)
    moved = ((1.0, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, -1.0))
    capture = captured(ring_cameras(8), tmp_path, world_from_colmap=moved)
    for start in (tmp_path, file):
        splats, extent, _ = start_splats(capture, started_from(start), np.random.default_rng(0), pytest.fail)
        assert_sane(splats)
        # Cameras stand 4.1 from the centre: the points at 4 and 5 are not near one of the eight.
        assert np.array_equal(splats.means, np.stack((np.arange(1, 6), np.zeros(5), np.zeros(5)), axis=1))
        assert np.allclose(0.5 + SH_C0 * splats.sh[:, 0], [1, 0, 0], atol=1e-6) and extent > 4


def test_start_at_random_leaves_the_captures_points(tmp_path: Path) -> None:
    """The word is no file's name, and counts also where init.ply is there."""
    write_point_ply(tmp_path / "init.ply", grid_points())
    capture = captured(ring_cameras(8), tmp_path, init=tmp_path / "init.ply")
    assert len(start_splats(capture, RunSettings(), np.random.default_rng(0), pytest.fail)[0]) == 100
    settings = RunSettings(start=StartSettings(start=RANDOM_START, random_points=77))
    splats, *_ = start_splats(capture, settings, np.random.default_rng(0), pytest.fail)
    assert len(splats) == 77 and np.allclose(splats.opacities(), RANDOM_OPACITY)


def test_start_keeps_to_the_most_splats(tmp_path: Path) -> None:
    """Too many points are thinned at random, the same for the same seed, and it is said."""
    write_point_ply(tmp_path / "points.ply", grid_points())
    capture = captured(ring_cameras(8), init=tmp_path / "points.ply")
    said: list[str] = []
    settings = RunSettings(fit=FitSettings(max_splats=40))
    chosen = [start_splats(capture, settings, np.random.default_rng(7), said.append)[0] for _ in range(2)]
    assert len(chosen[0]) == 40 and np.array_equal(chosen[0].means, chosen[1].means)
    assert "100 points; 40" in said[0]


def test_start_without_points_is_an_error(tmp_path: Path) -> None:
    """A file without points, with points at the cameras alone, or that is missing: an error that names it."""
    empty = np.zeros((0, 3), np.float32)
    write_point_ply(tmp_path / "none.ply", Points(empty, empty, empty))
    capture = captured(ring_cameras(8), tmp_path)
    for name, words in (("none.ply", "holds no usable point"), ("absent.ply", "There is no file")):
        with pytest.raises(UserError, match=rf"{words}|{name}.*{words}") as caught:
            start_splats(capture, started_from(tmp_path / name), np.random.default_rng(0), pytest.fail)
        assert name in caught.value.headline and caught.value.hint
    broken = known_splats(3)
    broken.means[:] = math.nan
    write_splat_ply(tmp_path / "nan.ply", broken)
    with pytest.raises(UserError, match="no usable point"):
        start_splats(capture, started_from(tmp_path / "nan.ply"), np.random.default_rng(0), lambda text: None)
