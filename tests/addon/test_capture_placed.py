"""Cameras on faces and inside rooms, and cameras that stand in something or behind a wall."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
import pytest
from mathutils import Vector

from addon.capture.capture import plan_capture
from addon.capture.faces import face_cameras
from addon.capture.inside import Hit, free_places, inside_cameras
from addon.capture.plan import Plan
from addon.capture.rigs import Framing, Sphere
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float, is_rigid
from splat_engine.formats.errors import UserError
from tests.addon.capture_scenes import cube, settings


def plan(**values: Any) -> Plan:
    bpy.context.view_layer.update()
    return plan_capture(bpy.context.scene, settings(**values))


def cameras(**values: Any) -> list[Camera]:
    return [view.camera for view in plan(**values).views]


def places(found: list[Camera]) -> Float:
    return np.array([camera.position for camera in found])


def box(name: str, location: tuple, size: tuple) -> Any:
    made = cube(name, location, size=1)
    made.scale = size
    return made


def cage(name: str = "Cage") -> Any:
    bpy.ops.mesh.primitive_ico_sphere_add(radius=7, subdivisions=1)
    bpy.context.object.name = name
    return bpy.context.object


BOX = Framing(Sphere(np.array([0.0, 0, 1.5]), 3.9), np.array([-3.0, -2, 0]), np.array([3.0, 2, 3]))


def in_box(origin: Float, direction: Float) -> Hit | None:
    """An empty room: what a ray from within meets are the backs of its own walls."""
    with np.errstate(divide="ignore"):
        steps = np.maximum((BOX.bounds_min - origin) / direction, (BOX.bounds_max - origin) / direction)
    return Hit(float(steps.min()), True, 7.8)


def test_inside_cameras_look_to_all_sides() -> None:
    """They stand apart in the free space, look up, down and around evenly, and their poses are rigid."""
    found = inside_cameras(BOX, in_box, 64, size_px=32)
    assert len(found) == 64 and len({camera.name for camera in found}) == 64
    assert len(np.unique(places(found).round(6), axis=0)) == 8
    forward = np.array([camera.forward for camera in found])
    assert np.abs(forward.mean(axis=0)).max() < 0.05
    assert (forward[:, 2] > 0.7).sum() >= 8 and (forward[:, 2] < -0.7).sum() >= 8
    assert all(is_rigid(camera.world_from_camera) for camera in found)
    assert found[0].fx == pytest.approx(32 * 24 / 36)
    assert inside_cameras(BOX, in_box, 4, size_px=36, lens_mm=18)[0].fx == pytest.approx(18)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_any_number_of_inside_views(count: int) -> None:
    """Few views too."""
    assert len(inside_cameras(BOX, in_box, count, size_px=16)) == count


def test_free_places_keep_away_from_walls_and_solids() -> None:
    """Nearer than a twentieth of the room's middle extent to a wall is not free; nor is the middle of a solid."""
    found = free_places(BOX, in_box, 12)
    gap = np.minimum(found - BOX.bounds_min, BOX.bounds_max - found).min()
    assert gap >= 0.05 * 4 * 0.9  # rays are a few: the nearest wall is seen a little late
    solid = lambda origin, direction: Hit(1.0, True, 1.5) if origin[0] > 0 else in_box(origin, direction)  # noqa: E731
    assert (free_places(BOX, solid, 12)[:, 0] < 0).all()
    with pytest.raises(UserError, match="no free place"):
        free_places(BOX, lambda origin, direction: Hit(0.01, False, 8.0), 4)
    with pytest.raises(UserError, match="no free place"):
        free_places(BOX, lambda origin, direction: None, 4)


def test_a_room_with_furniture_is_seen_from_its_free_space() -> None:
    """A cube as room, its normals outward, with a wardrobe: cameras are in the room and none is in the wardrobe."""
    box("Room", (0, 0, 1.5), (6, 4, 3))
    box("Wardrobe", (1.5, 0, 1.0), (2.4, 3.4, 2.0))
    found = places(cameras(rig="inside", views=48, hold_out=0))
    assert len(found) == 48
    assert (np.abs(found - [0, 0, 1.5]) < [3, 2, 1.5]).all()
    assert not (np.abs(found - [1.5, 0, 1.0]) < [1.2, 1.7, 1.0]).all(axis=1).any()


def test_faces_are_cameras_along_their_normals() -> None:
    """Each face of a moved, scaled, mirrored mesh: the camera stands in its middle and looks along its world normal."""
    cube()
    mesh = box("Cage", (1, 2, 3), (-4, 6, 8))
    mesh.rotation_euler = (0.2, 0.5, 1.0)
    found = cameras(rig="faces", faces="Cage", views=100, hold_out=0)
    assert len(found) == 6
    middle = np.array([1, 2, 3])
    for camera in found:
        outward = (camera.position - middle) / np.linalg.norm(camera.position - middle)
        np.testing.assert_allclose(camera.forward, outward, atol=1e-5)
    inward = cameras(rig="faces", faces="Cage", faces_look="inward", views=100, hold_out=0)
    np.testing.assert_allclose(inward[0].forward, -found[0].forward, atol=1e-6)


def test_faces_that_look_at_the_target() -> None:
    """All look at its middle; the mesh itself is neither in their way nor rendered, and is as before afterwards."""
    cube(location=(0.5, 0, 0))
    mesh = cage()
    found = plan(rig="faces", faces="Cage", faces_look="target", views=100)
    assert len(found.views) == 20 and not found.notes
    assert found.framing is not None and found.framing.sphere.radius < 2
    for view in found.views:
        pixel, depth = view.camera.project(found.framing.sphere.center[None])
        np.testing.assert_allclose(pixel[0], [16, 16], atol=1e-3)
        assert depth[0] > 0
    assert not mesh.hide_render and mesh not in found.objects


def test_more_faces_than_views() -> None:
    """Evenly chosen ones, and a note says so."""
    cube()
    cage()
    found = plan(rig="faces", faces="Cage", views=5, hold_out=0)
    assert len(found.views) == 5 and "20 faces; 5 of them" in found.notes[0]


def test_a_camera_mesh_must_be_one() -> None:
    """None, one that is gone, a lamp, and a mesh without a face are refused in words."""
    cube()
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Nowhere", None))
    empty = bpy.data.objects.new("Empty Mesh", bpy.data.meshes.new("Empty Mesh"))
    bpy.context.scene.collection.objects.link(empty)
    for name, words in (
        ("", "No mesh is chosen"),
        ("Gone", "no object 'Gone'"),
        ("Nowhere", "No mesh"),
        ("Empty Mesh", "no face"),
    ):
        with pytest.raises(UserError, match=words):
            plan(rig="faces", faces=name)
    with pytest.raises(UserError, match="no face"):
        face_cameras(BOX.sphere.center[None], np.ones((1, 3)), "target", BOX, 4, size_px=8)


def test_a_wall_in_front_of_the_target() -> None:
    """Cameras behind the wall are dropped, others stand in for them, a note says how many; the number stays."""
    cube("Seen")
    box("Wall", (0, -4, 0), (40, 0.1, 40))
    found = plan(rig="ring", target="Seen", views=16, hold_out=0, elevation_deg=0.0)
    behind = places([view.camera for view in found.views])[:, 1] < -4
    assert len(found.views) == 16 and not behind.any()
    assert any("have the target behind a wall; others stand in for them" in note for note in found.notes)
    free = plan(rig="ring", target="Seen", views=16, hold_out=0, elevation_deg=0.0, distance=3.0)
    assert not any("wall" in note for note in free.notes)


def test_a_camera_inside_something() -> None:
    """A ring that runs through a block within the target: the cameras in it are dropped."""
    cube("Seen")
    block = box("Block", (5, 0, 0), (2, 2, 2))
    block.parent = bpy.data.objects["Seen"]
    found = plan(rig="ring", target="Seen", views=24, hold_out=0, distance=3.6, elevation_deg=0.0)
    middle = found.framing.sphere.center if found.framing else np.zeros(3)
    assert abs(middle[0] - 2.5) < 0.2
    inside = (np.abs(places([view.camera for view in found.views]) - [5, 0, 0]) < 0.99).all(axis=1)
    assert len(found.views) == 24 and not inside.any()
    assert any("would stand inside something" in note for note in found.notes)


def test_nothing_changes_where_no_camera_is_in_the_way() -> None:
    """A free target, flipped normals, a target that rays miss, and a target behind glass all around: all cameras are kept."""
    kept = cameras(rig="sphere", views=12, target="") if cube("Seen") else []
    assert len(kept) == 12 and [camera.name for camera in kept][0].startswith("sphere")
    bpy.data.objects["Seen"].data.flip_normals()
    assert [camera.name for camera in cameras(rig="sphere", views=12)] == [camera.name for camera in kept]
    bpy.data.objects["Seen"].data.flip_normals()
    box("Glass", (0, 0, 0), (3, 3, 3))
    boxed = plan(rig="sphere", views=12, target="Seen")
    assert len(boxed.views) == 12 and not boxed.notes


def test_vertical_views_have_a_pose() -> None:
    """Straight up and down are among them, and no pose fails."""
    up, down = (Vector((0, 0, z)) for z in (1, -1))
    for direction in (up, down):
        found = face_cameras(np.array([[0.0, 0, 5]]), np.array([direction[:]]), "outward", BOX, 1, size_px=8)
        assert is_rigid(found[0].world_from_camera)
