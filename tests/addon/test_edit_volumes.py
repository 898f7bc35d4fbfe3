"""addon.edit.volumes: which splats lie inside an object."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
import pytest

from addon.edit.measures import REACH_SIGMAS
from addon.edit.volumes import axes_of, volume_of
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud

POINTS = np.random.default_rng(0).uniform(-3, 3, (3000, 3))


def volume(object: Any = None, **options: Any) -> Any:
    bpy.context.view_layer.update()
    found = bpy.context.object if object is None else object
    return volume_of(found, bpy.context.evaluated_depsgraph_get(), **options)


def empty(display: str, size: float = 1.0) -> Any:
    object = bpy.data.objects.new("Empty", None)
    object.empty_display_type, object.empty_display_size = display, size
    bpy.context.scene.collection.objects.link(object)
    return object


def place(object: Any) -> None:
    """Turns, moves and stretches an object."""
    object.location, object.rotation_euler, object.scale = (0.5, -0.3, 0.2), (0.4, 1.1, -0.6), (1.5, 0.7, 2)


def local(object: Any) -> np.ndarray:
    """Returns the points in the object's frame."""
    bpy.context.view_layer.update()
    inverse = np.array(object.matrix_world.inverted())
    return POINTS @ inverse[:3, :3].T + inverse[:3, 3]


def test_cube_empty():
    """What lies inside the lines that Blender draws, turned and stretched as they are."""
    object = empty("CUBE", 0.8)
    place(object)
    expected = (np.abs(local(object)) <= 0.8).all(axis=1)
    assert 100 < expected.sum() < 2000
    np.testing.assert_array_equal(volume(object).contains(POINTS), expected)


def test_sphere_empty():
    """The same for a sphere."""
    object = empty("SPHERE", 1.2)
    place(object)
    expected = np.linalg.norm(local(object), axis=1) <= 1.2
    assert 100 < expected.sum() < 2000
    np.testing.assert_array_equal(volume(object).contains(POINTS), expected)


def test_other_empties_enclose_nothing():
    """Axes are no volume: the error says what to set."""
    with pytest.raises(UserError, match="shows no volume") as caught:
        volume(empty("PLAIN_AXES"))
    assert "Cube or Sphere" in caught.value.hint


@pytest.mark.parametrize("mirrored", [False, True])
def test_mesh_cube(mirrored):
    """A closed mesh, also under a stretch and a mirror."""
    bpy.ops.mesh.primitive_cube_add(size=2)
    object = bpy.context.object
    place(object)
    if mirrored:
        object.scale.x *= -1
    expected = (np.abs(local(object)) <= 1).all(axis=1)
    np.testing.assert_array_equal(volume().contains(POINTS), expected)


def test_hollow_and_concave_mesh():
    """The hole of a torus is outside; so is all that only its box holds."""
    bpy.ops.mesh.primitive_torus_add(major_radius=1.5, minor_radius=0.6, major_segments=96, minor_segments=48)
    ring = np.hypot(np.hypot(POINTS[:, 0], POINTS[:, 1]) - 1.5, POINTS[:, 2])
    sure = np.abs(ring - 0.6) > 0.01
    inside = volume().contains(POINTS)
    np.testing.assert_array_equal(inside[sure], (ring < 0.6)[sure])
    assert volume(as_box=True).contains(POINTS).sum() > inside.sum()


def test_overlapping_parts_are_one_volume():
    """Suzanne's eyes stand in her head; where two closed parts overlap it is inside, not outside."""
    bpy.ops.mesh.primitive_cube_add(size=2)
    bpy.ops.mesh.primitive_cube_add(size=2, location=(1, 0.3, 0.2))
    bpy.data.objects["Cube"].select_set(True)
    bpy.ops.object.join()
    expected = (np.abs(POINTS) <= 1).all(axis=1) | (np.abs(POINTS - [1, 0.3, 0.2]) <= 1).all(axis=1)
    np.testing.assert_array_equal(volume().contains(POINTS), expected)


def test_modifiers_count():
    """What one sees is what crops."""
    bpy.ops.mesh.primitive_cube_add(size=1)
    modifier = bpy.context.object.modifiers.new("Array", "ARRAY")
    modifier.count, modifier.relative_offset_displace = 2, (2, 0, 0)
    assert volume().contains(np.array([[2.0, 0, 0], [1.0, 0, 0], [0, 0, 0]])).tolist() == [True, False, True]


def test_curves_that_become_surfaces():
    """A text with depth is a volume; a curve without is not, and the error says so."""
    bpy.ops.object.text_add()
    text = bpy.context.object
    text.data.body, text.data.extrude = "I", 0.5
    bpy.context.view_layer.update()
    box = np.array(text.bound_box)
    middle = (box.min(axis=0) + box.max(axis=0)) / 2
    assert volume().contains(np.array([middle, middle + [0, 0, 0.6]])).tolist() == [True, False]
    bpy.ops.curve.primitive_bezier_circle_add()
    with pytest.raises(UserError, match="has no surface"):
        volume()


def test_flattened_object_is_refused():
    """A scale of zero has no inside."""
    bpy.ops.mesh.primitive_cube_add()
    bpy.context.object.scale = (1, 0, 1)
    with pytest.raises(UserError, match="scale of 'Cube' is zero"):
        volume()


def surface_points(splats: Splats) -> np.ndarray:
    """Returns [N, 200, 3] points on what one sees of each splat."""
    directions = np.random.default_rng(1).normal(size=(200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return splats.means[:, None] + np.einsum("nij,kj->nki", axes_of(splats), directions)


@pytest.mark.parametrize("kind", ["CUBE", "SPHERE", "MESH"])
def test_whole_splats(kind):
    """Of a splat that is wholly inside no point sticks out; one whose centre is inside may not be whole."""
    splats = cloud(400)
    if kind == "MESH":
        bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=3, radius=1.2)
        object = bpy.context.object
    else:
        object = empty(kind, 1.2)
    place(object)
    tested = volume(object)
    whole, centres = tested.contains_whole(splats), tested.contains(splats.means)
    assert 20 < whole.sum() < centres.sum() and not (whole & ~centres).any()
    all_in = np.array([tested.contains(points).all() for points in surface_points(splats)])
    if kind == "MESH":  # of a splat that reaches the surface 14 points decide
        assert (whole != all_in).mean() < 0.05
    else:  # 200 points of an ellipsoid do not reach as far as the ellipsoid
        assert not (whole & ~all_in).any() and (whole != all_in).mean() < {"CUBE": 0.02, "SPHERE": 0.1}[kind]


def test_axes_are_what_one_sees():
    """Two standard deviations long, along the splat's own axes."""
    splats = cloud(5)
    lengths = np.linalg.norm(axes_of(splats), axis=1)
    np.testing.assert_allclose(lengths, REACH_SIGMAS * splats.scales(), rtol=1e-5)


def test_no_splats():
    """N = 0 gives none, for each kind of volume."""
    bpy.ops.mesh.primitive_cube_add()
    for tested in (volume(), volume(empty("CUBE")), volume(empty("SPHERE"))):
        assert tested.contains(np.zeros((0, 3))).shape == tested.contains_whole(Splats.empty()).shape == (0,)
