"""Start points lie on what the training views see, in its colour, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import bpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.capture.capture import capture_scene
from addon.capture.points import Samples, merge_samples, view_samples
from addon.capture.rigs import look_at
from splat_engine.formats.cameras import Camera
from splat_engine.formats.point_ply import Points, read_point_ply
from tests.addon.capture_scenes import cube
from tests.addon.capture_scenes import settings as quick

CAMERA = Camera(6, 4, 10.0, 12.0, 3.3, 2, look_at(np.array([0.0, -5, 0]), np.zeros(3)))


def passes(camera: Camera = CAMERA) -> dict[str, np.ndarray]:
    """Returns the passes of a wall at y = 0 of one colour, half covered."""
    shape = (camera.height, camera.width)
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    reach = 5 if camera.model == "perspective" else 1
    x, z = (columns - camera.cx) / camera.fx * reach, -(rows - camera.cy) / camera.fy * reach
    return {
        "color": np.tile(np.float32([0.4, 0.2, 0.1, 0.8]), (*shape, 1)),
        "depth": np.full(shape, 5, np.float32),
        "normal": np.tile(np.float32([0, -2, 0]), (*shape, 1)),
        "position": np.stack([x, np.zeros(shape), z], axis=-1).astype(np.float32),
    }


@pytest.mark.parametrize("model", ["perspective", "orthographic"])
def test_a_view_s_samples(model: str) -> None:
    """Places are the wall's, colours are divided by alpha, normals are unit, footprints are a pixel's width there."""
    camera = replace(CAMERA, model=model)
    full = passes(camera)
    samples = view_samples(full, camera, 1000, 0)
    assert len(samples.points) == 24
    np.testing.assert_allclose(samples.points.positions, full["position"].reshape(-1, 3), atol=1e-6)
    np.testing.assert_allclose(samples.points.colors, np.tile([0.5, 0.25, 0.125], (24, 1)), rtol=1e-6)
    np.testing.assert_allclose(samples.points.normals, np.tile([0, -1, 0], (24, 1)))
    np.testing.assert_allclose(samples.footprints, 0.5 if model == "perspective" else 0.1)
    assert len(view_samples(full, camera, 5, 0).points) == 5


def test_background_noise_and_nonsense_are_left_out() -> None:
    """Misses, faint pixels, NaN and infinity give no point; a normal that is NaN or another surface's is none."""
    full = passes()
    full["depth"][0] = 1e10
    full["depth"][1, 0] = 0
    full["depth"][1, 3] = np.nan
    full["color"][1, 1, 3] = 0.3
    full["color"][1, 2, 0] = np.inf
    full["position"][1, 4, 0] = np.nan
    full["position"][2, 1] = 0  # Grease Pencil
    full["normal"][1, 5] = np.nan
    full["color"][2, 0, 0] = -0.1
    samples = view_samples(full, CAMERA, 1000, 0)
    assert len(samples.points) == 24 - 6 - 4
    assert np.isfinite(samples.points.positions).all() and np.isfinite(samples.points.normals).all()
    assert samples.points.colors.min() == 0
    assert (np.linalg.norm(samples.points.normals, axis=1) == 0).sum() == 3


def test_missing_passes() -> None:
    """Without depth there are no samples; without position or normal they have zero normals."""
    full = passes()
    assert (
        len(view_samples({"color": full["color"], "position": full["position"]}, CAMERA, 10, 0).points) == 0
    )
    for name in ("normal", "position"):
        some = {key: value for key, value in full.items() if key != name}
        samples = view_samples(some, CAMERA, 100, 0)
        assert len(samples.points) == 24 and (samples.points.normals == 0).all()


@given(
    count=st.integers(0, 400), most=st.integers(1, 300), seed=st.integers(0, 99), scale=st.floats(1e-3, 1e5)
)
@settings(max_examples=60, deadline=None)
def test_merge_keeps_the_limit_and_the_box(count: int, most: int, seed: int, scale: float) -> None:
    """Never more points than asked for, some where there are some, all within the box and the colours' range."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(count, 3)).astype(np.float32) for _ in range(3)]
    arrays[0] *= np.float32(scale)
    merged = merge_samples(Samples(Points(*arrays), np.full(count, 0.01 * scale, np.float32)), most)
    assert len(merged) <= most
    assert (len(merged) > 0) == (count > 0)
    if count > most:
        assert len(merged) >= most * 0.4
    for values, own in zip((merged.positions, merged.colors), arrays, strict=False):
        if count:
            assert values.min() >= own.min() - 1e-4 * scale and values.max() <= own.max() + 1e-4 * scale


def test_near_things_stay_dense_before_a_far_ground() -> None:
    """A ground a thousand times as large, seen from afar, does not take the subject's points."""
    rng = np.random.default_rng(1)
    subject, ground = (
        rng.uniform(-1, 1, (20000, 3)) * [1, 1, 0],
        rng.uniform(-1000, 1000, (20000, 3)) * [1, 1, 0],
    )
    positions = np.concatenate([subject, ground]).astype(np.float32)
    footprints = np.repeat(np.float32([0.01, 10]), 20000)
    color = np.zeros_like(positions)
    merged = merge_samples(Samples(Points(positions, color, color), footprints), 4000)
    near = (np.abs(merged.positions) < 1.01).all(axis=1).sum()
    assert 1000 < near < 3500


def test_the_two_sides_of_a_sheet_keep_a_normal() -> None:
    """Opposite normals in one cube do not cancel to nothing."""
    normals = np.tile(np.float32([[0, 0, 1], [0, 0, -1]]), (50, 1))
    positions = np.zeros((100, 3), np.float32)
    merged = merge_samples(Samples(Points(positions, positions, normals), np.ones(100, np.float32)), 10)
    np.testing.assert_allclose(np.abs(merged.normals[:, 2]), 1)


def test_points_of_a_capture_lie_on_the_surface(tmp_path: Path) -> None:
    """Points of a cube lie on its faces, with their normals and the emitted colour, above 1 too."""
    obj = cube(color=(3.0, 0.5, 0.0))
    obj.rotation_euler = (0.3, 0.4, 0.5)
    bpy.context.view_layer.update()
    capture = capture_scene(bpy.context, quick(views=6, hold_out=0, samples=4, points=500), tmp_path)
    points = read_point_ply(capture.init)
    assert 250 < len(points) <= 500
    rotation = np.array(obj.matrix_world)[:3, :3]
    local = points.positions @ rotation
    np.testing.assert_allclose(np.abs(local).max(axis=1), 1, atol=1e-4)
    local_normals = points.normals @ rotation
    face = np.argmax(np.abs(local), axis=1)
    inner = np.sort(np.abs(local), axis=1)[:, 1] < 0.8  # away from the edges, where faces are merged
    assert inner.sum() > 100
    along = np.take_along_axis(local_normals * np.sign(local), face[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(along[inner], 1, atol=0.03)
    np.testing.assert_allclose(
        points.colors, np.tile([3.0, 0.5, 0.0], (len(points), 1)), rtol=5e-3, atol=1e-3
    )


def test_held_out_views_give_no_points(tmp_path: Path) -> None:
    """What only a held-out view sees has no start point."""
    cube("Left", (-3, 0, 0), size=0.5, color=(1, 0, 0))
    cube("Right", (3, 0, 0), size=0.5, color=(0, 1, 0))
    wall = cube("Wall", size=1.0, color=(0, 0, 1))
    wall.scale = (0.1, 20, 20)
    capture = capture_scene(
        bpy.context,
        quick(rig="ring", elevation_deg=0.0, views=2, hold_out=2, distance=8.0, target="Wall", lens_mm=18.0),
        tmp_path,
    )
    (held_out,), (train,) = capture.of_split("test"), capture.of_split("train")
    side = np.sign(train.camera.position[0])
    assert side == -np.sign(held_out.camera.position[0])
    points = read_point_ply(capture.init)
    assert len(points) > 20
    assert (points.positions[:, 0] * side > 0).all()
    near = points.colors[np.abs(points.positions[:, 0]) > 2]
    assert len(near) and (np.argmax(near, axis=1) == (1 if side > 0 else 0)).all()


def test_glass_and_volumes(tmp_path: Path) -> None:
    """Points of glass lie on its first surface; a scene of a volume alone has none, and says so."""
    glass = cube("Glass")
    made = glass.data.materials[0]
    tree = made.node_tree
    tree.nodes.clear()
    shader, output = tree.nodes.new("ShaderNodeBsdfGlass"), tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(shader.outputs[0], output.inputs["Surface"])
    capture = capture_scene(bpy.context, quick(hold_out=0), tmp_path / "glass")
    np.testing.assert_allclose(np.abs(read_point_ply(capture.init).positions).max(axis=1), 1, atol=1e-4)
    tree.nodes.remove(shader)
    fog = tree.nodes.new("ShaderNodeVolumePrincipled")
    fog.inputs["Density"].default_value, fog.inputs["Emission Strength"].default_value = 3.0, 1.0
    tree.links.new(fog.outputs[0], output.inputs["Volume"])
    capture = capture_scene(bpy.context, quick(hold_out=0), tmp_path / "fog")
    assert capture.init is None
    assert [n for n in capture.notes if "no start points" in n] and [n for n in capture.notes if "Glass" in n]
