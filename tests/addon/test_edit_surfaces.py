"""addon.edit.surfaces: which splats lie near the objects that they were made from."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
import pytest

from addon.edit.surfaces import near_bodies, source_bodies
from addon.scene import splat_object
from splat_engine.formats.errors import UserError
from tests.addon.clouds import cloud

POINTS = np.random.default_rng(0).uniform(-4, 4, (2000, 3))


def near(distance: float, names: Any = None, points: np.ndarray = POINTS) -> np.ndarray:
    bpy.context.view_layer.update()
    return near_bodies(points, source_bodies(bpy.context, names), distance)


def sphere(**options: Any) -> Any:
    bpy.ops.mesh.primitive_uv_sphere_add(segments=96, ring_count=64, **options)
    return bpy.context.object


def expected_of_sphere(centre: Any, radius: float, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns which points are near the surface, and where the facets do not matter."""
    off = np.abs(np.linalg.norm(POINTS - np.array(centre), axis=1) - radius)
    return off <= distance, np.abs(off - distance) > 0.01 * radius


def test_near_a_sphere_inside_and_outside():
    """Distance to the surface counts, to both sides."""
    sphere(radius=2, location=(0.5, 0, 0))
    expected, sure = expected_of_sphere((0.5, 0, 0), 2, 0.4)
    assert 100 < expected.sum() < 1500
    np.testing.assert_array_equal(near(0.4)[sure], expected[sure])


def test_hidden_originals_count_and_stay_hidden():
    """A fit hides them by eye and for renders; afterwards they are as hidden as before."""
    original = sphere(radius=2)
    original.hide_render = True
    original.hide_set(True)
    expected, sure = expected_of_sphere((0, 0, 0), 2, 0.4)
    np.testing.assert_array_equal(near(0.4)[sure], expected[sure])
    assert original.hide_get() and original.hide_render


def test_instances_count():
    """A collection's instance, moved and enlarged, hidden too; distances are the world's."""
    collection = bpy.data.collections.new("Ball")
    ball = sphere(radius=0.5)
    bpy.context.scene.collection.objects.unlink(ball)
    collection.objects.link(ball)
    holder = bpy.data.objects.new("Holder", None)
    holder.instance_type, holder.instance_collection = "COLLECTION", collection
    holder.location, holder.scale = (1, 0, 0), (3, 3, 3)
    bpy.context.scene.collection.objects.link(holder)
    holder.hide_set(True)
    expected, sure = expected_of_sphere((1, 0, 0), 1.5, 0.3)
    np.testing.assert_array_equal(near(0.3, {"Sphere"})[sure], expected[sure])


def test_stretched_objects_are_measured_in_the_world():
    """A sphere stretched to a long body: near its tip is near."""
    stretched = sphere(radius=1)
    stretched.scale = (3, 0.5, 1)
    tip = np.array([[3.2, 0, 0], [3.5, 0, 0], [0, 0.7, 0], [0, 0.9, 0]])
    assert near(0.3, points=tip).tolist() == [True, False, True, False]


def test_modifiers_count():
    """What was captured is what the modifiers leave."""
    bpy.ops.mesh.primitive_cube_add(size=1)
    modifier = bpy.context.object.modifiers.new("Array", "ARRAY")
    modifier.count, modifier.relative_offset_displace = 2, (3, 0, 0)
    assert near(0.1, points=np.array([[3.55, 0, 0], [1.5, 0, 0]])).tolist() == [True, False]


def test_only_named_objects_count():
    """What the run did not capture holds no floaters; nor do splats hold splats."""
    sphere(radius=1, location=(0, 0, 0))
    sphere(radius=1, location=(3, 0, 0))
    splat_object.add_splats(cloud(), bpy.context.scene)
    points = np.array([[1.05, 0, 0.1], [3, 1.05, 0], [0.1, 0.1, 0.1]])
    assert near(0.2, {"Sphere"}, points).tolist() == [True, False, False]
    assert near(0.2, None, points).tolist() == [True, True, False]


def test_what_has_no_surface_counts_with_its_box():
    """Hair and Grease Pencil: all that is in the box is near."""
    hair = bpy.data.hair_curves.new("Hair")
    hair.add_curves([2])
    hair.points.foreach_set("position", np.array([0, 0, 0, 1, 1, 1], np.float32))
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Hair", hair))
    assert near(0.1, points=np.array([[0.5, 0.2, 0.9], [1.05, 1, 1], [1.3, 1, 1]])).tolist() == [
        True,
        True,
        False,
    ]


def test_nothing_to_compare_with():
    """Lights and cameras have no surface; an error in words says how to go on without."""
    bpy.ops.object.light_add()
    bpy.ops.object.camera_add()
    for names in (None, {"Gone"}):
        with pytest.raises(UserError, match="None of the objects") as caught:
            near(1, names)
    assert "Compare with Objects" in caught.value.hint


def test_curves_and_text_have_surfaces():
    """Also where Blender makes the mesh on demand."""
    bpy.ops.object.text_add()
    bpy.context.object.data.body = "I"
    bpy.context.view_layer.update()
    box = np.array(bpy.context.object.bound_box)
    middle = (box.min(axis=0) + box.max(axis=0)) / 2
    assert near(0.05, points=np.array([middle, middle + [0, 0, 0.2]])).tolist() == [True, False]
