"""What renders, and only that, is what a rig looks at."""

from __future__ import annotations

import bpy
import numpy as np
import pytest
from mathutils import Matrix

from addon.capture.bounds import Bodies, collect_bodies, target_test
from addon.capture.render import Stage
from addon.capture.survey import survey
from splat_engine.formats.errors import UserError
from tests.addon.capture_scenes import camera, cube


def bodies(target: str = "") -> Bodies:
    scene = bpy.context.scene
    with Stage(scene, scene.view_layers[0]) as stage:
        return survey(scene, stage.view_layer, lambda graph: collect_bodies(graph, target_test(target)))


def box(found: Bodies, name: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    rows = [number for number, own in enumerate(found.names) if name is None or own == name]
    assert rows, f"{name} is not among {found.names}"
    points = found.points[rows].reshape(-1, 3)
    return points.min(axis=0), points.max(axis=0)


def link(name: str, data: bpy.types.ID | None) -> bpy.types.Object:
    obj = bpy.data.objects.new(name, data)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def test_turned_and_scaled_object() -> None:
    """The points are on the object, not on its turned box: a sphere's ball is the sphere."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=1, segments=64, ring_count=33)
    obj = bpy.context.object
    obj.matrix_world = Matrix.LocRotScale((1, 2, 3), Matrix.Rotation(0.7, 3, "X").to_quaternion(), (2, 2, 2))
    low, high = box(bodies())
    np.testing.assert_allclose(low, [-1, 0, 1], atol=0.02)
    np.testing.assert_allclose(high, [3, 4, 5], atol=0.02)


def test_what_does_not_render_does_not_count() -> None:
    """Lights, cameras, empties, hidden things, bare edges, holdouts and what the camera does not see are left out."""
    cube("Seen")
    for name, attribute in (
        ("Hidden", "hide_render"),
        ("Holdout", "is_holdout"),
        ("Catcher", "is_shadow_catcher"),
    ):
        setattr(cube(name, (100, 0, 0)), attribute, True)
    cube("Indirect", (100, 0, 0)).visible_camera = False
    camera("Camera", (0, -100, 0))
    link("Empty", None).location.x = 100
    link("Light", bpy.data.lights.new("Light", "POINT")).location.x = 100
    edges = bpy.data.meshes.new("Edges")
    edges.from_pydata([(0, 0, 0), (200, 0, 0)], [(0, 1)], [])
    link("Edges", edges)
    path = bpy.data.curves.new("Path", "CURVE")
    path.splines.new("POLY").points.add(1)
    path.splines[0].points[1].co = (0, 300, 0, 1)
    link("Path", path)
    excluded = bpy.data.collections.new("Excluded")
    bpy.context.scene.collection.children.link(excluded)
    excluded.objects.link(cube("Elsewhere", (100, 0, 0)))
    bpy.context.scene.collection.objects.unlink(bpy.data.objects["Elsewhere"])
    bpy.context.view_layer.layer_collection.children["Excluded"].exclude = True
    found = bodies()
    assert set(found.names) == {"Seen"}
    assert "Seen" in found.objects and "Hidden" not in found.objects


def test_hidden_in_the_viewport_but_rendered() -> None:
    """The render's dependency graph decides, not the viewport's; modifiers count at render level."""
    obj = cube("Shy")
    obj.hide_viewport = True
    array = obj.modifiers.new("Array", "ARRAY")
    array.count, array.show_viewport, array.show_render = 3, False, True
    low, high = box(bodies())
    np.testing.assert_allclose(low, [-1, -1, -1], atol=1e-5)
    np.testing.assert_allclose(high, [5, 1, 1], atol=1e-5)


def test_curves_text_and_metaballs() -> None:
    """What becomes a mesh when rendered counts as that mesh."""
    curve = bpy.data.curves.new("Tube", "CURVE")
    curve.dimensions, curve.bevel_depth = "3D", 0.25
    curve.splines.new("POLY").points.add(1)
    curve.splines[0].points[0].co, curve.splines[0].points[1].co = (0, 0, 0, 1), (0, 0, 4, 1)
    link("Tube", curve)
    text = bpy.data.curves.new("Text", "FONT")
    text.body = "splat"
    link("Text", text).location.x = 10
    ball = bpy.data.metaballs.new("Ball")
    ball.elements.new(type="BALL").radius = 2
    link("Ball", ball).location.x = -10
    found = bodies()
    low, high = box(found, "Tube")
    np.testing.assert_allclose(high - low, [0.5, 0.5, 4.0], atol=0.02)
    low, high = box(found, "Text")
    assert 10 <= low[0] < 10.2 and 11 < high[0] < 13
    low, high = box(found, "Ball")
    assert np.ptp(np.stack([low, high]), axis=0) == pytest.approx([2.3, 2.3, 2.3], abs=0.6)


def test_collection_instances_and_particles() -> None:
    """Instances count where they stand; the thing instanced need not be in the scene."""
    inner = bpy.data.collections.new("Inner")
    part = cube("Part", size=0.5)
    inner.objects.link(part)
    bpy.context.scene.collection.objects.unlink(part)
    instancer = link("Instancer", None)
    instancer.instance_type, instancer.instance_collection, instancer.location.x = "COLLECTION", inner, 20
    bpy.ops.mesh.primitive_plane_add(size=4, location=(0, 0, 5))
    plane = bpy.context.object
    plane.name = "Emitter"
    settings = plane.modifiers.new("Grains", "PARTICLE_SYSTEM").particle_system.settings
    settings.type, settings.render_type, settings.count, settings.hair_length = "HAIR", "OBJECT", 30, 1.0
    settings.instance_object, settings.particle_size = part, 1.0
    plane.show_instancer_for_render = False
    found = bodies()
    assert found.names.count("Part") == 31
    assert "Emitter" not in found.names
    low, high = box(found, "Part")
    assert high[0] == pytest.approx(20.25, abs=1e-4)
    assert 4.5 < high[2] < 6.6
    assert set(bodies("Instancer").names) == {"Part"}
    assert len(bodies("Instancer").names) == 1


def test_hair_strands() -> None:
    """Hair that is drawn as strands reaches as far as its tips."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=1, location=(7, 0, 0))
    settings = bpy.context.object.modifiers.new("Hair", "PARTICLE_SYSTEM").particle_system.settings
    settings.type, settings.count, settings.hair_length, settings.render_type = "HAIR", 500, 2.0, "PATH"
    low, high = box(bodies())
    np.testing.assert_allclose(low, [4, -3, -3], atol=0.35)
    np.testing.assert_allclose(high, [10, 3, 3], atol=0.35)


def test_geometry_nodes_instances_and_new_hair() -> None:
    """Instances made by geometry nodes count, and so do the points of hair curves."""
    obj = cube("Host", size=1.0)
    tree = bpy.data.node_groups.new("Line", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    given, output = tree.nodes.new("NodeGroupInput"), tree.nodes.new("NodeGroupOutput")
    line, place = tree.nodes.new("GeometryNodeMeshLine"), tree.nodes.new("GeometryNodeInstanceOnPoints")
    line.inputs["Count"].default_value = 5
    line.inputs["Offset"].default_value = (0, 0, 3)
    tree.links.new(line.outputs[0], place.inputs["Points"])
    tree.links.new(given.outputs[0], place.inputs["Instance"])
    tree.links.new(place.outputs[0], output.inputs[0])
    obj.modifiers.new("Nodes", "NODES").node_group = tree
    curves = bpy.data.hair_curves.new("Curves")
    curves.add_curves([2])
    curves.attributes["position"].data.foreach_set("vector", [50.0, 0, 0, 50.0, 0, 9.0])
    link("Strand", curves)
    found = bodies()
    low, high = box(found, "Host")
    np.testing.assert_allclose(low, [-0.5, -0.5, -0.5], atol=1e-5)
    np.testing.assert_allclose(high, [0.5, 0.5, 12.5], atol=1e-5)
    np.testing.assert_allclose(box(found, "Strand")[1], [50, 0, 9], atol=1e-5)


def test_targets() -> None:
    """An object brings its children, a collection its objects; an unknown name is refused with known ones."""
    parent, child, other = cube("Parent"), cube("Child", (5, 0, 0)), cube("Other", (0, 50, 0))
    child.parent = parent
    group = bpy.data.collections.new("Group")
    bpy.context.scene.collection.children.link(group)
    group.objects.link(other)
    assert sorted(bodies("Parent").names) == ["Child", "Parent"]
    assert bodies("Group").names == ["Other"]
    assert sorted(bodies("Group").objects) == ["Child", "Other", "Parent"]  # all are numbered
    with pytest.raises(UserError, match="Nothing here") as caught:
        bodies("Nothing here")
    assert "Parent" in caught.value.hint


def test_not_a_number_does_not_spread() -> None:
    """An object without a finite place, and a vertex without one, are left out."""
    cube("Good")
    cube("Lost").location.x = float("nan")
    cube("Bad").data.vertices[0].co.x = float("inf")
    found = bodies()
    assert np.isfinite(found.points).all()
    assert sorted(found.names) == ["Bad", "Good"]
    np.testing.assert_allclose(box(found)[1], [1, 1, 1])
