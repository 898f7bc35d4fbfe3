"""Blender's cameras are the engine's cameras to a hundredth of a pixel, and back."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import bpy
import numpy as np
import pytest
from mathutils import Euler, Matrix

from addon.capture.cameras import apply_camera, camera_of, image_frame
from addon.capture.rigs import look_at
from splat_engine.formats.cameras import Camera
from splat_engine.formats.errors import UserError
from splat_engine.formats.exr import read_passes

TOLERANCE_PX = 0.01
"""The claim of FACTS.md section 4. Blender's own matrices are single precision: about 1e-4 px at 1920 px."""

SIZES = [(1920, 1080, 100), (1080, 1920, 50), (333, 777, 37), (640, 640, 100)]
ASPECTS = [(1.0, 1.0), (2.0, 1.0), (1.0, 1.4)]
FITS = ["AUTO", "HORIZONTAL", "VERTICAL"]
SHIFTS = [(0.0, 0.0), (0.13, -0.21)]
SENSORS = [(36.0, 24.0), (32.0, 18.0)]


def new_object(name: str, data: bpy.types.ID | None = None) -> bpy.types.Object:
    obj = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def new_camera(name: str = "Camera") -> bpy.types.Object:
    return new_object(name, bpy.data.cameras.new(name))


def evaluated(obj: bpy.types.Object) -> bpy.types.Object:
    bpy.context.view_layer.update()
    return obj.evaluated_get(bpy.context.evaluated_depsgraph_get())


def engine_camera(obj: bpy.types.Object) -> tuple[Camera, list[str]]:
    """Returns the camera under test, as the capture would make it."""
    ready = evaluated(obj)
    return camera_of(ready.data, ready.matrix_world, image_frame(bpy.context.scene.render), obj.name)


def oracle_pixels(obj: bpy.types.Object, points: np.ndarray) -> np.ndarray:
    """Projects by Blender's own matrix: the picture [N, 2] in pixels of the uncropped image."""
    render = bpy.context.scene.render
    frame = image_frame(render)
    ready = evaluated(obj)
    projection = ready.calc_matrix_camera(
        bpy.context.evaluated_depsgraph_get(),
        x=frame.width,
        y=frame.height,
        scale_x=render.pixel_aspect_x,
        scale_y=render.pixel_aspect_y,
    )
    pose = np.array(ready.matrix_world, dtype=np.float64)
    pose[:3, :3] /= np.linalg.norm(pose[:3, :3], axis=0)
    clip = (
        np.array(projection, dtype=np.float64) @ np.linalg.inv(pose) @ np.c_[points, np.ones(len(points))].T
    )
    x, y = clip[0] / clip[3], clip[1] / clip[3]
    return np.stack([(x + 1) / 2 * frame.width, (1 - y) / 2 * frame.height], axis=1)


def points_in_view(camera: Camera, seed: int = 0) -> np.ndarray:
    """Returns [40, 3] world points that the camera sees, 1 to 30 units away."""
    rng = np.random.default_rng(seed)
    pixels = rng.uniform(0, [camera.width, camera.height], (40, 2))
    depth = rng.uniform(1, 30, 40)
    plane = (pixels - [camera.cx, camera.cy]) / [camera.fx, camera.fy]
    local = np.c_[plane if camera.model == "orthographic" else plane * depth[:, None], depth]
    return local @ camera.world_from_camera[:3, :3].T + camera.world_from_camera[:3, 3]


def worst_error_px(obj: bpy.types.Object) -> float:
    camera, notes = engine_camera(obj)
    assert not notes
    points = points_in_view(camera)
    pixels, depth = camera.project(points)
    assert (depth > 0).all()
    assert np.ptp(pixels, axis=0).min() > 10, "the check looks at nothing"
    return float(np.abs(pixels - oracle_pixels(obj, points)).max())


def set_up(
    obj: bpy.types.Object, size: tuple, aspect: tuple, fit: str, shift: tuple, sensor: tuple, kind: str
) -> None:
    render, data = bpy.context.scene.render, obj.data
    render.resolution_x, render.resolution_y, render.resolution_percentage = size
    render.pixel_aspect_x, render.pixel_aspect_y = aspect
    data.type, data.sensor_fit = kind, fit
    data.shift_x, data.shift_y = shift
    data.sensor_width, data.sensor_height = sensor
    data.lens, data.ortho_scale = 41.0, 7.3


@pytest.mark.parametrize("kind", ["PERSP", "ORTHO"])
def test_intrinsics_over_the_whole_matrix(kind: str, record_property) -> None:
    """Size, percentage, pixel aspect, sensor fit, shift and sensor size in every combination: 288 set-ups."""
    camera = new_camera()
    camera.matrix_world = Matrix.LocRotScale((3, -4, 2), Euler((1.1, 0.1, 0.6)), (1, 1, 1))
    worst = 0.0
    for setup in itertools.product(SIZES, ASPECTS, FITS, SHIFTS, SENSORS):
        set_up(camera, *setup, kind)
        error = worst_error_px(camera)
        assert error < TOLERANCE_PX, (setup, error)
        worst = max(worst, error)
    record_property("worst_px", worst)
    print(f"worst error over the {kind} matrix: {worst:.2e} px")


def posed(name: str) -> bpy.types.Object:
    """Returns a camera whose world matrix is hard to get right."""
    camera = new_camera()
    camera.location, camera.rotation_euler = (0.4, -2.0, 0.7), (1.2, 0.2, -0.4)
    parent = new_object("Parent")
    parent.location, parent.rotation_euler = (1, 2, 3), (0.3, -0.5, 1.9)
    grandparent = new_object("Grandparent")
    parent.parent = grandparent
    grandparent.rotation_euler = (0.1, 0.9, -0.2)
    if name != "free":
        camera.parent = parent
    if name in ("uniform scale", "tracked"):
        parent.scale = (3, 3, 3)
    if name == "own scale":
        camera.scale = (0.3, 2.0, 5.0)
    if name == "tracked":
        target = new_object("Target")
        target.location = (5, 5, 0)
        constraint = camera.constraints.new("TRACK_TO")
        constraint.target, constraint.track_axis, constraint.up_axis = target, "TRACK_NEGATIVE_Z", "UP_Y"
    if name == "shear":
        grandparent.scale = (1, 3, 0.5)
    if name == "mirror":
        grandparent.scale = (-2, 2, 2)
    if name == "mirror all":
        camera.scale = (-1, -1, -1)
    set_up(camera, (1920, 1080, 100), (1.0, 1.0), "AUTO", (0.05, 0.1), (36, 24), "PERSP")
    return camera


@pytest.mark.parametrize("name", ["free", "parented", "uniform scale", "own scale", "tracked"])
def test_pose_under_parents_and_constraints(name: str) -> None:
    """Scaled and turned parents, an own scale and a Track To constraint leave no error."""
    error = worst_error_px(posed(name))
    print(f"worst error, {name}: {error:.2e} px")
    assert error < TOLERANCE_PX


@pytest.mark.parametrize("name", ["mirror", "mirror all"])
def test_mirrored_camera_is_unmirrored(name: str) -> None:
    """Under a negative scale the view is Blender's picture, mirrored about the principal point, and a note says so."""
    obj = posed(name)
    camera, notes = engine_camera(obj)
    points = points_in_view(camera)
    expected = oracle_pixels(obj, points)
    expected[:, 0] = 2 * camera.cx - expected[:, 0]
    assert np.abs(camera.project(points)[0] - expected).max() < TOLERANCE_PX
    assert any("mirrored" in note for note in notes)


def test_sheared_camera_keeps_its_direction_of_view() -> None:
    """Shear has no rigid camera: the line of sight agrees with Blender's picture, and a note says so."""
    obj = posed("shear")
    camera, notes = engine_camera(obj)
    line = camera.position + np.linspace(1, 30, 40)[:, None] * camera.forward
    assert np.abs(camera.project(line)[0] - oracle_pixels(obj, line)).max() < TOLERANCE_PX
    assert any("sheared" in note for note in notes)


def test_apply_camera_is_the_inverse() -> None:
    """Any camera given to Blender by ``apply_camera`` is read back, and drawn by Blender's matrix, the same.

    Up to a focal length of 4000 px: Blender's single-precision rotation is itself off by 5e-7 rad.
    """
    obj, render = new_camera(), bpy.context.scene.render
    pose = look_at(np.array([2.0, 3.0, -1.0]), np.array([0.5, 0.0, 0.2]))
    worst = 0.0
    for model, size, fx, fy, shift in itertools.product(
        ("perspective", "orthographic"),
        [(800, 480), (301, 777)],
        [20.0, 350.0, 4000.0],
        [1.0, 0.6, 1.7],
        [0.0, 0.3],
    ):
        if model == "orthographic":
            fx = fx / 10
        width, height = size
        camera = Camera(
            width,
            height,
            fx,
            fx * fy,
            width * (0.5 + shift),
            height * (0.5 - shift),
            pose,
            model,
            0.1,
            500.0,
            "made",
        )
        apply_camera(camera, obj, render)
        back, notes = engine_camera(obj)
        assert not notes
        np.testing.assert_allclose(back.intrinsics, camera.intrinsics, rtol=2e-5, atol=2e-4)
        points = points_in_view(camera)
        worst = max(worst, float(np.abs(camera.project(points)[0] - oracle_pixels(obj, points)).max()))
        assert (back.model, back.width, back.height, back.near) == (model, width, height, pytest.approx(0.1))
    print(f"worst error of a given camera: {worst:.2e} px")
    assert worst < TOLERANCE_PX


def test_crop_moves_the_principal_point_and_a_border_alone_does_not() -> None:
    """The crop is cut as Blender cuts it; a border without crop leaves the full picture."""
    obj, render = posed("parented"), bpy.context.scene.render
    whole, _ = engine_camera(obj)
    render.use_border = True
    render.border_min_x, render.border_max_x, render.border_min_y, render.border_max_y = 0.1, 0.613, 0.2, 0.9
    assert engine_camera(obj)[0] == replace(whole, world_from_camera=engine_camera(obj)[0].world_from_camera)
    render.use_crop_to_border = True
    cropped, _ = engine_camera(obj)
    assert (cropped.width, cropped.height) == (1176 - 192, 972 - 216)
    assert (whole.cx - cropped.cx, whole.cy - cropped.cy) == (192, 1080 - 972)
    assert (cropped.fx, cropped.fy) == (whole.fx, whole.fy)


def emissive_marker(position: tuple[float, float, float], size: float) -> None:
    """Adds a white glowing cube."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=size, location=position, segments=48, ring_count=24)
    material = bpy.data.materials.new("Glow")
    material.node_tree or setattr(material, "use_nodes", True)
    tree = material.node_tree
    tree.nodes.clear()
    emission, output = tree.nodes.new("ShaderNodeEmission"), tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(emission.outputs[0], output.inputs["Surface"])
    bpy.context.object.data.materials.append(material)


def rendered_alpha(path: Path) -> np.ndarray:
    """Renders the scene as it stands with Cycles and returns alpha [H, W]."""
    scene = bpy.context.scene
    render = scene.render
    render.engine, scene.cycles.samples, scene.cycles.use_denoising = "CYCLES", 64, False
    scene.cycles.device = "CPU"
    render.film_transparent, render.filepath, render.use_file_extension = True, str(path), False
    if hasattr(render.image_settings, "media_type"):
        render.image_settings.media_type = "MULTI_LAYER_IMAGE"
    render.image_settings.file_format = "OPEN_EXR_MULTILAYER"
    render.image_settings.color_depth = "32"
    bpy.ops.render.render(write_still=True)
    return read_passes(path, ("color",))["color"][..., 3]


MARKER_CASES = {
    "shift, aspect, vertical fit": {
        "aspect": (1.0, 1.5),
        "fit": "VERTICAL",
        "shift": (0.1, -0.15),
        "kind": "PERSP",
    },
    "crop": {"aspect": (1.0, 1.0), "fit": "AUTO", "shift": (0, 0), "kind": "PERSP", "crop": True},
    "orthographic": {"aspect": (1.3, 1.0), "fit": "HORIZONTAL", "shift": (-0.1, 0.1), "kind": "ORTHO"},
    "scaled parent": {"aspect": (1.0, 1.0), "fit": "AUTO", "shift": (0, 0), "kind": "PERSP", "parent": True},
}


@pytest.mark.parametrize("name", MARKER_CASES)
def test_agrees_with_a_rendered_marker(name: str, tmp_path: Path) -> None:
    """The centre of a small sphere in a real render lies where the camera projects it, within 0.05 px.

    At 64 samples the centroid of a sphere of 8 px itself wanders by a few hundredths of a pixel.
    """
    case = MARKER_CASES[name]
    obj = new_camera()
    obj.location, obj.rotation_euler = (0.5, -6.0, 1.0), (math.radians(80), 0.0, 0.1)
    if case.get("parent"):
        parent = new_object("Parent")
        parent.scale, parent.rotation_euler, parent.location = (2, 2, 2), (0.1, 0.2, 0.3), (1, 2, 0)
        obj.parent = parent
        bpy.context.view_layer.update()
        obj.matrix_parent_inverse = Matrix.LocRotScale(
            (0, 0, 0), Euler((0.1, 0.2, 0.3)), (1, 1, 1)
        ).inverted()
    set_up(obj, (96, 64, 100), case["aspect"], case["fit"], case["shift"], (36, 24), case["kind"])
    bpy.context.scene.camera = obj
    render = bpy.context.scene.render
    if case.get("crop"):
        render.use_border = render.use_crop_to_border = True
        render.border_min_x, render.border_max_x, render.border_min_y, render.border_max_y = (
            0.13,
            0.91,
            0.07,
            0.83,
        )
    camera, _ = engine_camera(obj)
    point = camera.position + 6 * camera.forward
    offset = np.array([camera.width * 0.64, camera.height * 0.41]) - [camera.cx, camera.cy]
    depth = 1.0 if camera.model == "orthographic" else 6.0
    point = point + camera.world_from_camera[:3, :2] @ (offset / [camera.fx, camera.fy] * depth)
    emissive_marker(tuple(point), 8 * depth / camera.fx / 2)
    alpha = rendered_alpha(tmp_path / "marker.exr")
    assert alpha.shape == (camera.height, camera.width)
    assert 20 < alpha.sum() < 200
    rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
    centroid = np.array([(alpha * columns).sum(), (alpha * rows).sum()]) / alpha.sum()
    expected = camera.project(point[None])[0][0]
    print(f"{name}: {np.abs(centroid - expected).max():.3f} px off")
    assert np.abs(centroid - expected).max() < 0.05


def test_published_pixels_of_cameras_ortho_persp(shared_data: Path) -> None:
    """Both cameras of blendtorch's test file see the cube's corners where its authors say."""
    expected = json.loads((shared_data / "blend" / "cameras_ortho_persp.expected.json").read_text())
    bpy.ops.wm.open_mainfile(filepath=str(shared_data / "blend" / "cameras_ortho_persp.blend"))
    cube = evaluated(bpy.data.objects["Cube"])
    corners = np.array([cube.matrix_world @ vertex.co for vertex in cube.data.vertices])
    for name, key in (("CamOrtho", "CamOrtho_xy"), ("CamProj", "CamProj_xy")):
        camera, _ = engine_camera(bpy.data.objects[name])
        pixels, depth = camera.project(corners)
        np.testing.assert_allclose(pixels, expected[key], atol=TOLERANCE_PX)
        np.testing.assert_allclose(depth, expected["z"], atol=1e-4)


def test_panorama_is_refused_in_words(shared_data: Path) -> None:
    """A panoramic camera names itself and the way out."""
    bpy.ops.wm.open_mainfile(filepath=str(shared_data / "blend" / "panorama.blend"))
    with pytest.raises(UserError, match="panoramic") as caught:
        engine_camera(bpy.context.scene.camera)
    assert "Camera" in caught.value.headline
    assert caught.value.hint


@pytest.mark.parametrize("scale", [(0, 0, 0), (1, 1, 0), (0, 0, 1)])
def test_flat_camera_is_refused(scale: tuple[float, float, float]) -> None:
    """A camera scaled to nothing has no picture."""
    obj = new_camera()
    obj.scale = scale
    with pytest.raises(UserError, match="scale"):
        engine_camera(obj)


def test_nan_camera_is_refused() -> None:
    """A transform that is not a number is refused by name."""
    obj = new_camera("Broken")
    obj.location.x = math.nan
    with pytest.raises(UserError, match="Broken"):
        engine_camera(obj)
