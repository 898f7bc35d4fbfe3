"""The dense start lies on the surfaces that the views show, in their colours, for every number of samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from splat_engine.fit.start import start_splats
from splat_engine.fit.start.cells import cells_of, means_of, sizes_of
from splat_engine.fit.start.dense import dense_splats
from splat_engine.fit.start.points import NEAR_SHARE, NORMAL_SHARE
from splat_engine.fit.start.surfaces import SurfaceSamples, joined, read_surfaces, view_samples
from splat_engine.fit.strategies.children import rotate
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, CaptureInfo, View
from splat_engine.formats.conventions import SH_C0, CameraModel, linear_from_srgb, srgb_from_linear
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import FitSettings, RunSettings, StartSettings
from splat_engine.formats.splats import Splats
from tests.engine.tiny_capture import look_at, write_tiny_capture, write_view

SIZE = 48
NOTHING = 1e10
"""Blender's depth where a ray meets nothing."""


def camera_at(*position: float, model: CameraModel = "perspective") -> Camera:
    """A camera that looks at the origin; an orthographic one covers 4.8 scene units."""
    focal = 1.0 * SIZE if model == "perspective" else 10.0
    return Camera(SIZE, SIZE, focal, focal, SIZE / 2, SIZE / 2, look_at(np.array(position)), model=model)


def rays(camera: Camera) -> tuple[np.ndarray, np.ndarray]:
    """Returns the origins and directions [H, W, 3] of the pixels' rays; a direction's planar length is 1."""
    rows, columns = np.mgrid[:SIZE, :SIZE] + 0.5
    x, y = (columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy
    zero, one = np.zeros_like(x), np.ones_like(x)
    origin, way = (zero, zero, zero), (x, y, one)
    if camera.model == "orthographic":
        origin, way = (x, y, zero), (zero, zero, one)
    turn = camera.world_from_camera[:3, :3].T
    return np.stack(origin, -1) @ turn + camera.position, np.stack(way, -1) @ turn


def plane_depth(camera: Camera, normal: np.ndarray, offset: float = 0.0) -> np.ndarray:
    """[H, W] planar depth of the plane normal . x = offset."""
    origins, ways = rays(camera)
    return (offset - origins @ normal) / (ways @ normal)


def sphere_depth(camera: Camera, radius: float = 1.0) -> np.ndarray:
    """[H, W] planar depth of a sphere about the origin; 1e10 beside it."""
    origins, ways = rays(camera)
    a, b = (ways * ways).sum(-1), (origins * ways).sum(-1)
    inside = b * b - a * ((origins * origins).sum(-1) - radius**2)
    return np.where(inside > 0, (-b - np.sqrt(np.maximum(inside, 0))) / a, NOTHING)


def opaque(color: object = (0.5, 0.25, 0.125)) -> np.ndarray:
    """[H, W, 4] of one colour [3], or of a colour a pixel [H, W, 3]."""
    return np.concatenate((np.broadcast_to(color, (SIZE, SIZE, 3)), np.ones((SIZE, SIZE, 1))), axis=-1)  # type: ignore[arg-type]


def sphere_samples(views: int = 6) -> SurfaceSamples:
    """What a ring of cameras sees of the unit sphere, with its normals."""
    parts = []
    for number in range(views):
        angle = 2 * np.pi * number / views
        camera = camera_at(3 * np.cos(angle), 3 * np.sin(angle), 1.5 * (-1) ** number)
        depth = sphere_depth(camera)
        origins, ways = rays(camera)
        with np.errstate(over="ignore"):
            parts.append(view_samples(camera, opaque(), depth, origins + ways * depth[..., None]))
    return joined(parts)


def plain(positions: np.ndarray, colors: np.ndarray, normals: np.ndarray) -> SurfaceSamples:
    """Samples without detail."""
    return SurfaceSamples(positions, colors, normals, np.zeros(len(positions)))


def dense(samples: SurfaceSamples, count: int, cameras: list[Camera] | None = None, seed: int = 0) -> Splats:
    """Dense splats of a scene of extent 5."""
    return dense_splats(
        samples,
        count,
        extent=5.0,
        opacity=0.4,
        cameras=cameras or [],
        rng=np.random.default_rng(seed),
        workers=1,
    )


def assert_sane(splats: Splats) -> None:
    """Every number finite, sizes positive and no more than a tenth of the extent."""
    assert splats.finite().all()
    assert (splats.scales() > 0).all() and (splats.scales() <= 0.5 * 1.001).all()


def thin_axes(splats: Splats) -> np.ndarray:
    """[N, 3] the splats' own z axes."""
    z = torch.tensor([[0.0, 0.0, 1.0]]).expand(len(splats), 3)
    return rotate(torch.from_numpy(splats.quats_wxyz), z).numpy()


@pytest.mark.parametrize("model", ["perspective", "orthographic"])
def test_a_plane_is_covered_flat_and_evenly(model: CameraModel) -> None:
    """Splats lie in the plane, thin along its normal, in its colour; each pixel's place is near one of them."""
    camera = camera_at(1.0, -3.0, 2.0, model=model)
    normal = np.array([0.0, 0.6, -0.8])
    samples = view_samples(
        camera, opaque(), plane_depth(camera, normal), np.tile(2 * normal, (SIZE, SIZE, 1))
    )
    assert len(samples) == SIZE * SIZE
    splats = dense(samples, 150)
    assert 140 < len(splats) <= 150
    assert_sane(splats)
    assert np.abs(splats.means @ normal).max() < 1e-5
    assert np.allclose(np.abs(thin_axes(splats) @ normal), 1, atol=1e-4)
    scales = splats.scales()
    assert np.allclose(scales[:, 2], NORMAL_SHARE * np.sqrt(scales[:, 0] * scales[:, 1]), rtol=1e-3)
    assert np.allclose(0.5 + SH_C0 * splats.sh[:, 0], [0.735357, 0.537099, 0.388573], atol=1e-4)
    assert np.allclose(splats.opacities(), 0.4, atol=1e-6)
    apart = np.linalg.norm(samples.positions[:, None] - splats.means[None], axis=-1)
    assert (apart.min(axis=1) < 3 * scales[apart.argmin(axis=1), 0]).all()


def test_a_splat_reaches_as_far_as_its_patch() -> None:
    """A strip of samples gives one splat as long and as wide as the strip, turned with it."""
    rng = np.random.default_rng(0)
    along, across = np.array([0.6, 0.8, 0.0]), np.array([0.0, 0.0, 1.0])
    places = rng.uniform(-1, 1, (400, 1)) * along * 0.3 + rng.uniform(-1, 1, (400, 1)) * across * 0.1
    normal = np.tile(np.cross(along, across), (400, 1))
    splats = dense(plain(places, np.ones((400, 3)), normal), 1)
    assert len(splats) == 1
    x = rotate(torch.from_numpy(splats.quats_wxyz), torch.tensor([[1.0, 0.0, 0.0]])).numpy()[0]
    assert abs(x @ along) > 0.99 and abs(thin_axes(splats)[0] @ normal[0]) > 0.9999
    assert splats.scales()[0, 0] / splats.scales()[0, 1] == pytest.approx(3.0, rel=0.1)


def test_a_sphere_s_splats_face_outward() -> None:
    """Splats lie on the unit sphere, up to the sag of their patch, and turn their thin side along the radius."""
    splats = dense(sphere_samples(), 400)
    assert_sane(splats)
    radii = np.linalg.norm(splats.means, axis=1)
    assert radii.min() > 0.98 and radii.max() < 1.0 + 1e-4
    assert (np.abs((thin_axes(splats) * splats.means).sum(axis=1)) > 0.98 * radii).all()


@pytest.mark.parametrize("model", ["perspective", "orthographic"])
def test_no_point_flies_between_two_planes(model: CameraModel) -> None:
    """Where an antialiased depth mixes a near and a far plane, no splat stands in the gap; both planes keep theirs."""
    camera = camera_at(0.0, -3.0, 0.0, model=model)
    depth = np.where(np.arange(SIZE) < 20, 2.0, 4.0) * np.ones((SIZE, 1))
    depth[:, 20] = 2.9
    samples = view_samples(camera, opaque(), depth)
    y = dense(samples, 200).means[:, 1]
    assert len(samples) == SIZE * (SIZE - 1)
    assert (np.minimum(abs(y + 1), abs(y - 1)) < 0.51).all()
    assert (abs(y + 1) < 1e-4).sum() > 50 and (abs(y - 1) < 1e-4).sum() > 50


@pytest.mark.parametrize("model", ["perspective", "orthographic"])
def test_faint_edges_and_mixed_depths_against_nothing_are_left_out(model: CameraModel) -> None:
    """Pixels of mostly background, of a depth mixed with the background's, and not finite ones give no sample."""
    camera = camera_at(0.0, -3.0, 0.0, model=model)
    depth = np.where(np.arange(SIZE) < 20, 2.0, NOTHING) * np.ones((SIZE, 1))
    depth[:, 20] = 17.0
    color = opaque()
    color[0, :, 3] = 0.4
    color[1, 3, 1] = np.nan
    samples = view_samples(camera, color, depth)
    assert len(samples) == (SIZE - 1) * 20 - 1
    assert np.isfinite(samples.colors).all() and np.allclose(samples.positions[:, 1], -1)


def test_hairs_and_steep_slopes_stay() -> None:
    """A line of one pixel in front of a wall is no flying point, nor is a floor seen at a grazing angle."""
    camera = camera_at(0.0, -3.0, 0.0)
    depth = np.full((SIZE, SIZE), 4.0)
    depth[:, 10] = 2.0
    assert len(view_samples(camera, opaque(), depth)) == SIZE * SIZE
    low = camera_at(0.0, -3.0, 0.2)
    floor = plane_depth(low, np.array([0.0, 0.0, 1.0]))
    floor = np.where(floor > 0, floor, NOTHING)
    assert 400 < (floor < NOTHING).sum() == len(view_samples(low, opaque(), floor))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 10])
def test_few_samples_are_enough(count: int) -> None:
    """0 to 10 samples give at most as many sane splats, and a budget of 1 a single one."""
    whole = sphere_samples()
    few = whole.select(np.arange(count))
    splats = dense(few, 100)
    assert len(splats) == count
    assert_sane(splats)
    one = dense(few, 1)
    assert len(one) == min(count, 1)
    assert_sane(one)


def test_coincident_samples() -> None:
    """A thousand samples in one spot give small, sane splats."""
    spot = np.ones((1000, 3))
    for count in (1, 10, 2000):
        splats = dense(plain(spot, spot, 0 * spot), count)
        assert 1 <= len(splats) <= count
        assert_sane(splats)
        assert count == 1 or (splats.scales() < 1e-3).all()


def test_nothing_is_put_at_a_camera() -> None:
    """Patches close to a perspective camera vanish, those a bit farther stay small against their distance."""
    camera = camera_at(0.0, -3.0, 0.0)
    offsets = np.array([[0, 0.001, 0], [0, NEAR_SHARE * 5 * 1.1, 0], [0, 3, 0]])
    samples = plain(camera.position + offsets, np.ones((3, 3)), np.zeros((3, 3)))
    splats = dense(samples, 3, [camera])
    assert len(splats) == 2
    assert splats.scales()[0].max() <= 0.1 * NEAR_SHARE * 5 * 1.1 * 1.001


def test_the_budget_is_kept_and_used() -> None:
    """Never more splats than asked for, and nearly as many where there are samples enough; the same for one seed."""
    samples = sphere_samples()
    for count in (7, 100, 900):
        assert 0.95 * count <= len(dense(samples, count)) <= count
    first, again, other = dense(samples, 100), dense(samples, 100), dense(samples, 100, seed=1)
    for name in ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.means[:50], other.means[:50])
    threads = [cells_of(samples, 100, np.random.default_rng(3), workers) for workers in (1, 2)]
    assert np.array_equal(*threads)


def test_there_are_more_splats_where_there_is_detail() -> None:
    """Of a wall half plain and half checked in one-pixel squares, the checked half gets more than twice the splats."""
    camera = camera_at(0.0, -3.0, 0.0)
    color = np.full((SIZE, SIZE, 3), 0.2)
    color[::2, SIZE // 2 :: 3] = color[1::2, SIZE // 2 + 1 :: 3] = 1.0
    splats = dense(view_samples(camera, opaque(color), np.full((SIZE, SIZE), 3.0)), 200)
    checked = int((splats.means[:, 0] > 0).sum())
    assert checked > 2 * (len(splats) - checked) > 60


def test_a_cell_does_not_reach_through_a_sheet() -> None:
    """Two sides of a thin sheet, red and blue, stay apart though they are closer than a cell is wide."""
    rng = np.random.default_rng(0)
    places = np.concatenate(
        [np.c_[rng.uniform(-1, 1, (800, 2)), np.full(800, side)] for side in (0.01, -0.01)]
    )
    up = np.repeat([[0, 0, 1.0], [0, 0, -1.0]], 800, axis=0)
    colors = np.repeat([[1.0, 0, 0], [0, 0, 1.0]], 800, axis=0)
    labels = cells_of(plain(places, colors, up), 60, rng, 1)
    red = means_of(labels, colors)[:, 0]
    assert ((red == 0) | (red == 1)).mean() > 0.9 and 0.3 < red.mean() < 0.7
    assert sizes_of(labels).min() >= 1 and sizes_of(labels).sum() == 1600


def test_colours_are_the_mean_of_the_views_that_see(tmp_path: Path) -> None:
    """A wall that two views see takes the mean of their linear light; where a screen hides it from one, the other's."""
    seeing, hidden = camera_at(0.0, -3.0, 0.0), camera_at(0.0, -3.0, 0.0)
    wall = np.full((SIZE, SIZE), 3.0)
    behind = np.where(np.arange(SIZE) < SIZE // 2, 1.5, 3.0) * np.ones((SIZE, 1))
    bright, dark = (0.8, 0.8, 0.8), np.where(behind[..., None] == 1.5, 0.1, [0.2, 0.2, 0.2])
    views = []
    for name, camera, depth, color in (("a", seeing, wall, bright), ("b", hidden, behind, dark)):
        views.append(View(camera, exr=f"{name}.exr"))
        write_view(tmp_path / f"{name}.exr", opaque(color), Depth=depth[..., None])
    capture = Capture(tmp_path, tuple(views), CaptureInfo(passes=("depth",)))
    splats, *_ = start_splats(
        capture, RunSettings(start=StartSettings(start_splats=300)), np.random.default_rng(0), pytest.fail
    )
    linear = linear_from_srgb(0.5 + SH_C0 * splats.sh[:, 0].astype(np.float64)).mean(axis=1)
    x, y = splats.means[:, 0], splats.means[:, 1]
    on_wall, shadowed = abs(y) < 1e-4, x < -0.25
    assert (on_wall & shadowed).sum() > 20 and (on_wall & (x > 0.25)).sum() > 20 and (y < -1).sum() > 20
    assert np.allclose(linear[on_wall & shadowed], 0.8, atol=1e-3)
    assert np.abs(linear[on_wall & (x > 0.25)] - 0.5).mean() < 0.05
    assert np.allclose(linear[y < -1], 0.1, atol=1e-3)


def test_the_fit_s_target_decides_the_colours(tmp_path: Path) -> None:
    """A fit to display pictures begins in their colours, a fit to linear light in those of the EXR files."""
    capture = write_tiny_capture(tmp_path, pictures=True)
    spoilt = replace(capture, views=tuple(replace(view, image="grey.png") for view in capture.views))
    from PIL import Image

    Image.new("RGBA", (capture.views[0].camera.width, capture.views[0].camera.height), (255, 0, 0, 255)).save(
        tmp_path / "grey.png"
    )
    for target, is_red in (("display", True), ("linear", False)):
        settings = RunSettings(fit=FitSettings(target=target), start=StartSettings(start_splats=50))  # type: ignore[arg-type]
        splats, *_ = start_splats(spoilt, settings, np.random.default_rng(0), pytest.fail)
        encoded = 0.5 + SH_C0 * splats.sh[:, 0]
        assert np.allclose(encoded, [1, 0, 0], atol=1e-5) == is_red


def test_where_no_surface_shows_the_next_best_start_is_taken(tmp_path: Path) -> None:
    """Views whose depth is empty everywhere (a volume alone) fall to init.ply, and without it to random splats."""
    capture = write_tiny_capture(tmp_path)
    for view in capture.views:
        assert view.exr is not None
        shape = (view.camera.height, view.camera.width)
        write_view(
            tmp_path / view.exr,
            np.ones((*shape, 4)),
            Depth=np.full((*shape, 1), NOTHING),
            Normal=np.zeros((*shape, 3)),
        )
    settings = RunSettings(start=StartSettings(random_points=33))
    assert len(start_splats(capture, settings, np.random.default_rng(0), pytest.fail)[0]) == 120
    bare = replace(capture, init=None)
    assert len(start_splats(bare, settings, np.random.default_rng(0), pytest.fail)[0]) == 33


def test_samples_do_not_depend_on_the_threads_that_read_them(tmp_path: Path) -> None:
    """The same pixels in the same order; and of damaged views the first is named, whoever comes to it first."""
    capture = write_tiny_capture(tmp_path)

    def samples(workers: int) -> SurfaceSamples:
        return read_surfaces(capture, 400, "auto", np.random.default_rng(0), workers)

    one, three = samples(1), samples(3)
    assert len(one) > 300
    for name in ("positions", "colors", "normals", "detail"):
        assert np.array_equal(getattr(one, name), getattr(three, name))
    damaged = [view.exr for view in capture.of_split("train")[2:4]]
    for name in damaged:
        (tmp_path / str(name)).write_bytes(b"no picture")
    with pytest.raises(UserError, match=str(damaged[0])):
        samples(3)


def test_detail_of_half_floats_is_that_of_the_same_values_in_full() -> None:
    """Blender writes colours as half floats; what is not finite is no detail that a cell could begin at."""
    rng = np.random.default_rng(0)
    colors = rng.uniform(0, 2, (9, 7, 4)).astype(np.float16)
    colors[..., 3] = 1
    depth = np.full((9, 7), 3.0, np.float32)
    half, full = (
        view_samples(camera_at(0.0, -3.0, 0.0), values, depth).detail
        for values in (colors, colors.astype(np.float64))
    )
    assert np.allclose(half, full, rtol=1e-5) and (half > 0.05).all()
    encoded = srgb_from_linear(colors[..., :3].astype(np.float64))
    across, down = np.gradient(encoded, axis=1)[4, 3], np.gradient(encoded, axis=0)[4, 3]
    assert np.isclose(half.reshape(9, 7)[4, 3], np.sqrt(np.square(across).sum() + np.square(down).sum()))
