"""addon.scene.blender_render: an imported object, alone, as Cycles draws it for the engine's cameras."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from addon.scene import blender_render, splat_object
from splat_engine.formats.cameras import Camera
from splat_engine.formats.splats import Splats

POSE = np.array([[1.0, 0, 0, 0.2], [0, 0, 1, -5], [0, -1, 0, 0.1], [0, 0, 0, 1]])
"""OpenCV axes: looks along +y, up is +z."""


def one_splat(where: tuple[float, float, float]) -> Splats:
    """A red one, thinnest along y: Cycles 5.3 draws a splat black whose thinnest axis is exactly across the ray."""
    return Splats(
        means=[where],
        log_scales=np.log([[0.15, 0.14, 0.15]]),
        quats_wxyz=[[1, 0, 0, 0]],
        opacity_logits=[6.0],
        sh=[[[1.7, -1.7, -1.7]]],
    )


def perspective(width: int = 60, height: int = 40) -> Camera:
    return Camera(width, height, 70.0, 70.0, width / 2 + 3, height / 2 - 4, POSE, name="view")


def orthographic() -> Camera:
    return Camera(50, 50, 12.0, 12.0, 25.0, 25.0, POSE, model="orthographic", name="view")


def test_drawn_where_the_cameras_project_it():
    """A splat's centre of mass in the picture is where ``Camera.project`` says, for both kinds of camera."""
    where = (0.5, 0.4, -0.3)
    object = splat_object.add_splats(one_splat(where), bpy.context.scene).object
    cameras = [perspective(), orthographic()]
    for camera, image in zip(
        cameras, blender_render.render_object_views(object, cameras, samples=64), strict=True
    ):
        assert image.shape == (camera.height, camera.width, 4) and image.dtype == np.float32
        alpha = image[..., 3]
        assert alpha.max() > 0.9 and alpha[0].max() < 0.05
        rows, columns = np.mgrid[: camera.height, : camera.width] + 0.5
        found = [(columns * alpha).sum() / alpha.sum(), (rows * alpha).sum() / alpha.sum()]
        pixel, _ = camera.project(np.array([where]))
        np.testing.assert_allclose(found, pixel[0], atol=0.2)
        assert image[..., 0].max() > 5 * image[..., 1].max(), "the splat is red"


def test_alone_and_nothing_changes(tmp_path):
    """Originals, world and lights stay out of the picture, a hidden object is shown, and the file is as before."""
    bpy.ops.mesh.primitive_cube_add(size=3)
    current: Any = bpy.context.scene
    current.world = bpy.data.worlds.new("Bright")
    object = splat_object.add_splats(one_splat((0, 0, 0)), current).object
    object.hide_render = True
    before = (
        sorted(s.name for s in bpy.data.scenes),
        current.render.filepath,
        current.camera,
        len(bpy.data.cameras),
    )
    told: list[tuple[int, int]] = []
    path = tmp_path / "deep" / "0001.exr"
    blender_render.render_files(
        object, [perspective()], [path], samples=4, progress=lambda *step: told.append(step)
    )
    assert path.is_file() and told == [(1, 1)]
    image = blender_render.render_object_views(object, [perspective()], samples=4)[0]
    assert 0.005 < (image[..., 3] > 0.5).mean() < 0.2
    assert before == (
        sorted(s.name for s in bpy.data.scenes), current.render.filepath, current.camera, len(bpy.data.cameras)
    )  # fmt: skip
    assert object.hide_render and list(object.users_scene) == [current]
