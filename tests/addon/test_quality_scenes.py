"""The scenes of the quality benchmark: each is built, is the same again, and shows what its name says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon.capture.capture import capture_scene
from splat_engine.formats.exr import read_passes
from tests.addon.capture_scenes import settings
from tools.bench.quality.scenes.__main__ import SCENES, save_scene

# Meshes, strands and instances that each scene is made of; the counts are those of its script.
CAMERAS_IN_ROOMS = 96
STRANDS, LEAVES_AND_BLADES = 6000, 3500


def build(name: str, folder: Path) -> Any:
    """Builds a scene; returns it."""
    save_scene(name, folder / f"{name}.blend")
    assert (folder / f"{name}.blend").stat().st_size > 10_000
    return bpy.context.scene


def places() -> dict[str, tuple[float, ...]]:
    """Returns where every object stands."""
    return {obj.name: tuple(np.array(obj.matrix_world).ravel()) for obj in bpy.data.objects}


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_built_and_is_the_same_again(name: str, tmp_path: Path) -> None:
    """Everything renders, has a material, and stands where it stood in the first build."""
    scene = build(name, tmp_path)
    shapes = [obj for obj in scene.objects if obj.type in ("MESH", "CURVE", "CURVES")]
    assert len(shapes) >= 2
    for obj in shapes:
        assert obj.data.materials[0] is not None, obj.name
    first = places()
    build(name, tmp_path)
    assert places() == first


@pytest.mark.parametrize("name", ["interior", "emitter"])
def test_rooms_have_cameras_inside(name: str, tmp_path: Path) -> None:
    """All cameras stand between the walls, and look to all sides."""
    scene = build(name, tmp_path)
    cameras = [obj for obj in scene.objects if obj.type == "CAMERA"]
    walls = [obj for obj in scene.objects if obj.name.startswith("Wall")]
    assert len(cameras) == CAMERAS_IN_ROOMS and len(walls) == 4
    scene.view_layers[0].update()
    room = np.array([wall.location for wall in walls])
    at = np.array([camera.matrix_world.translation for camera in cameras])
    assert (at[:, :2] > room[:, :2].min(axis=0)).all() and (at[:, :2] < room[:, :2].max(axis=0)).all()
    looks = np.array([-np.array(camera.matrix_world)[:3, 2] for camera in cameras])
    assert (looks[:, :2].min(axis=0) < -0.8).all() and (looks[:, :2].max(axis=0) > 0.8).all()


def test_hair_and_foliage_are_many(tmp_path: Path) -> None:
    """Strands of hair curves; leaves and blades as instances, none of them real."""
    build("hair", tmp_path)
    assert len(bpy.data.hair_curves[0].curves) == STRANDS
    scene = build("foliage", tmp_path)
    graph = bpy.context.evaluated_depsgraph_get()
    names = [item.object.name for item in graph.object_instances if item.is_instance]
    assert names.count("Leaf") + names.count("Blade") == LEAVES_AND_BLADES
    assert len(scene.objects) < 10


def test_the_emitter_is_a_hundred_times_as_bright_as_the_walls(tmp_path: Path) -> None:
    """A captured view of the dark room holds values far above 1, and its median is far below."""
    scene = build("emitter", tmp_path)
    for obj in list(scene.objects):
        if obj.type == "CAMERA" and not obj.name.endswith(("0000", "0001")):
            bpy.data.objects.remove(obj)
    wanted = settings(rig="scene", resolution=48, samples=4, points=0, hold_out=0)
    capture_scene(bpy.context, wanted, tmp_path / "capture")
    colors = [read_passes(tmp_path / f"capture/views/{n:04d}.exr")["color"] for n in (1, 2)]
    light = np.stack(colors)[..., :3].max(axis=-1)
    assert light.max() > 30 and np.median(light) < 0.3
