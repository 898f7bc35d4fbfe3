"""addon.scene.splat_object: splats into the scene and back, in real Blender."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import bpy
import numpy as np
import pytest

from addon.scene import ellipsoids, encoding, point_cloud, splat_object, transforms
from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import read_splat_ply, write_splat_ply
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud

needs_native = pytest.mark.skipif(not point_cloud.has_native_splats(), reason="this Blender draws no splats")
needs_fallback = pytest.mark.skipif(point_cloud.has_native_splats(), reason="this Blender draws splats")


def add(splats: Splats, **options: Any) -> Any:
    return splat_object.add_splats(splats, bpy.context.scene, **options).object


def assert_same(found: Splats, expected: Splats) -> None:
    np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_array_equal(found.sh, expected.sh)
    np.testing.assert_allclose(found.log_scales, expected.log_scales, atol=1e-6)
    np.testing.assert_allclose(found.opacity_logits, expected.opacity_logits, atol=1e-5)
    norms = np.linalg.norm(found.quats_wxyz, axis=1) * np.linalg.norm(expected.quats_wxyz, axis=1)
    np.testing.assert_allclose(np.abs((found.quats_wxyz * expected.quats_wxyz).sum(1)), norms, rtol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_round_trip(degree):
    """Reading the object gives the splats that were added, at every degree."""
    splats = cloud(300, degree)
    assert_same(splat_object.read_splats(add(splats)), splats)


def test_object_stands_in_place():
    """A point cloud with the identity as its transform, in the scene's own collection, with the name asked."""
    object = add(cloud(), name="Splats of a run")
    assert object.type == "POINTCLOUD" and object.name == "Splats of a run"
    assert object.matrix_world == object.matrix_world.Identity(4)
    assert object.name in bpy.context.scene.collection.objects
    assert len(object.data.points) == 50


@needs_native
def test_native_attributes():
    """Blender 5.3 gets exactly the attributes it draws splats from."""
    object = add(cloud(5, 1))
    assert object.data.type == "GAUSSIAN_SPLAT"
    found = {a.name: (a.data_type, a.domain) for a in object.data.attributes}
    expected = {"position": "FLOAT_VECTOR", "scale": "FLOAT_VECTOR", "rotation": "QUATERNION"}
    expected |= {"radiance:base": "FLOAT4"} | {f"radiance:sh_{k}": "FLOAT_VECTOR" for k in range(3)}
    assert found == {name: (kind, "POINT") for name, kind in expected.items()}
    assert ellipsoids.modifier_of(object) is None


@needs_fallback
def test_ellipsoids_where_splats_are_unknown():
    """Older Blenders get the same attribute names, a display modifier, and a note that says so."""
    added = splat_object.add_splats(cloud(5, 1), bpy.context.scene)
    names = {a.name for a in added.object.data.attributes}
    assert names == {*encoding.REQUIRED, "radiance:sh_0", "radiance:sh_1", "radiance:sh_2"}
    assert ellipsoids.modifier_of(added.object) is not None
    assert any("ellipsoids" in note for note in added.notes)


@needs_fallback
def test_node_trees_are_shared():
    """A second object uses the same node group and material."""
    add(cloud()), add(cloud())
    assert len(bpy.data.node_groups) == 1 and len(bpy.data.materials) == 1


def test_users_state_is_untouched():
    """Selection, active object, mode, scenes, meshes: all as before, even in edit mode."""
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.mesh.primitive_uv_sphere_add()
    bpy.ops.object.mode_set(mode="EDIT")
    cube = bpy.data.objects["Cube"]
    cube.select_set(True)

    def state() -> Any:
        chosen = sorted(o.name for o in bpy.context.selected_objects)
        ids = [sorted(x.name for x in kind) for kind in (bpy.data.scenes, bpy.data.meshes)]
        context = bpy.context
        return chosen, context.mode, context.object.name, context.scene.name, context.view_layer.name, ids

    before = state()
    object = add(cloud())
    assert state() == before
    assert not object.select_get()
    assert {o.name for o in bpy.context.scene.objects} == {"Cube", "Sphere", object.name}


def test_provenance_travels_on_the_object():
    """Custom properties say which run made it; reading back gives them as metadata."""
    made = splat_object.Provenance("/runs/7", "blender", "0.1.0", 50, 31.25)
    object = add(cloud(), provenance=made)
    assert object["splatfit_run"] == "/runs/7" and object["splatfit_psnr_db"] == 31.25
    assert splat_object.get_provenance(object) == made
    assert splat_object.read_splats(object).metadata["formation"] == "blender"
    assert splat_object.get_provenance(add(cloud())) == splat_object.Provenance()


def with_objects(splats: Splats) -> Splats:
    indices = np.arange(len(splats)) % 3
    return replace(splats, object_indices=indices, object_names=("Cube", "Flo\u00f6r"))


def test_objects_travel_on_the_object(tmp_path):
    """The splats' objects are an int attribute, and the names a property; a PLY takes both out and in again."""
    splats = with_objects(cloud(7))
    object = add(splats)
    assert object.data.attributes["object_index"].data_type == "INT"
    write_splat_ply(tmp_path / "x.ply", splat_object.read_splats(object, world=True))
    found = splat_object.read_splats(add(read_splat_ply(tmp_path / "x.ply")[0]))
    np.testing.assert_array_equal(found.object_indices, splats.object_indices)
    assert found.object_names == splats.object_names
    splat_object.replace_splats(object, cloud(7))
    assert "object_index" not in object.data.attributes and splat_object.object_names_of(object) is None


def test_objects_without_a_name_are_unknown():
    """What an edit or a join made of the attribute never breaks the reading of the splats."""
    object = add(with_objects(cloud(4)))
    object.data.attributes["object_index"].data.foreach_set("value", [-1, 2, 3, 99])
    assert splat_object.read_splats(object).object_indices.tolist() == [0, 2, 0, 0]
    object["splatfit_object_names"] = "none"
    assert splat_object.read_splats(object).object_indices is None


def test_an_attribute_of_the_same_name_may_be_the_users():
    """A float attribute object_index is not ours: the splats are read without it."""
    object = add(cloud(4))
    object.data.attributes.new("object_index", "FLOAT", "POINT")
    object["splatfit_object_names"] = ["Cube"]
    assert splat_object.read_splats(object).object_indices is None


def test_non_finite_splats_are_dropped_and_told():
    """Blender quantises over the object's range: what is not finite stays out, and the note counts it."""
    splats = cloud(20)
    splats.means[3] = np.inf
    splats.log_scales[5] = 1e30
    added = splat_object.add_splats(splats, bpy.context.scene)
    assert added.dropped == 2 and any("2 of 20" in note for note in added.notes)
    assert len(splat_object.read_splats(added.object)) == 18


def test_far_outliers_are_told():
    """A splat a thousand extents away stays, and the note says what it costs the others."""
    splats = cloud(1000)
    assert not any("far from" in note for note in splat_object.add_splats(splats, bpy.context.scene).notes)
    splats.means[7] = [5000, 0, 0]
    added = splat_object.add_splats(splats, bpy.context.scene)
    assert added.count == 1000 and any("1 splat lies far" in note for note in added.notes)


def test_nothing_to_draw():
    """A cloud without drawable splats is an error, and leaves no object behind."""
    broken = cloud(3)
    broken.means[:] = np.nan
    for splats in (Splats.empty(), broken):
        with pytest.raises(UserError, match="nothing to draw"):
            add(splats)
    assert not bpy.data.objects and not bpy.data.pointclouds


def test_classic_formation_is_told():
    """Splats fitted for web viewers look different in Blender, and the note says so."""
    added = splat_object.add_splats(
        cloud(), bpy.context.scene, provenance=splat_object.Provenance(formation="classic")
    )
    assert any("web viewers" in note for note in added.notes)


def test_world_transform_is_applied_on_request():
    """world=True gives the splats where they stand: moved, turned and scaled, SH included."""
    splats = cloud(40)
    object = add(splats)
    object.location, object.rotation_euler, object.scale = (1, 2, 3), (0.3, -0.8, 2.0), (2, 2, 2)
    bpy.context.view_layer.update()
    found = splat_object.read_splats(object, world=True)
    expected = transforms.transform(splats, np.array(object.matrix_world))
    np.testing.assert_allclose(found.means, expected.means, atol=1e-5)
    np.testing.assert_allclose(found.sh, expected.sh, atol=1e-5)
    assert np.abs(found.sh - splats.sh).max() > 0.1
    assert_same(splat_object.read_splats(object), splats)


def delete_points(object: Any, keep: np.ndarray) -> None:
    """Deletes points by a geometry-nodes modifier on the attribute "keep"."""
    attribute = object.data.attributes.new("keep", "BOOLEAN", "POINT")
    attribute.data.foreach_set("value", keep)
    tree = bpy.data.node_groups.new("Delete", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    start, end = tree.nodes.new("NodeGroupInput"), tree.nodes.new("NodeGroupOutput")
    delete, named = (tree.nodes.new(f"GeometryNode{k}") for k in ("DeleteGeometry", "InputNamedAttribute"))
    invert = tree.nodes.new("FunctionNodeBooleanMath")
    invert.operation = "NOT"
    named.data_type = "BOOLEAN"
    named.inputs["Name"].default_value = "keep"
    tree.links.new(next(o for o in named.outputs if o.enabled), invert.inputs[0])
    tree.links.new(invert.outputs[0], delete.inputs["Selection"])
    tree.links.new(start.outputs[0], delete.inputs["Geometry"])
    tree.links.new(delete.outputs[0], end.inputs[0])
    object.modifiers.new("Delete", "NODES").node_group = tree


def test_edited_object_gives_the_points_that_are_left():
    """Points deleted by geometry nodes are gone from the evaluated object; the stored one has them all."""
    splats = cloud(30)
    object = add(splats)
    for modifier in list(object.modifiers):
        object.modifiers.remove(modifier)
    keep = np.arange(30) % 3 != 0
    delete_points(object, keep)
    found = splat_object.read_splats(object, depsgraph=bpy.context.evaluated_depsgraph_get())
    assert_same(found, splats.select(keep))
    assert_same(splat_object.read_splats(object), splats)


@needs_fallback
def test_evaluated_ellipsoids_read_as_splats():
    """The display modifier alone does not hide the splats; with others it is an error, not nonsense."""
    splats = cloud(30)
    object = add(splats)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    assert_same(splat_object.read_splats(object, depsgraph=depsgraph), splats)
    delete_points(object, np.ones(30, bool))
    with pytest.raises(UserError, match="display modifier"):
        splat_object.read_splats(object, depsgraph=bpy.context.evaluated_depsgraph_get())


def test_mesh_made_of_splats():
    """Converted to a mesh and edited there, the object still reads as splats."""
    splats = cloud(30)
    object = add(splats)
    for modifier in list(object.modifiers):
        object.modifiers.remove(modifier)
    bpy.context.view_layer.objects.active = object
    object.select_set(True)
    bpy.ops.object.convert(target="MESH")
    assert object.type == "MESH"
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="DESELECT")
    bpy.ops.object.mode_set(mode="OBJECT")
    object.data.vertices.foreach_set("select", np.arange(30) < 10)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.delete(type="VERT")
    assert_same(splat_object.read_splats(object), splats.select(np.arange(30) >= 10))


def test_other_objects_are_refused():
    """A cube and an empty hold no splats; the error names the object and what it lacks."""
    bpy.ops.mesh.primitive_cube_add()
    with pytest.raises(UserError, match="'Cube' is not a splat object: it lacks the attribute scale"):
        splat_object.read_splats(bpy.context.object)
    bpy.ops.object.empty_add()
    with pytest.raises(UserError, match="'Empty' is not a splat object"):
        splat_object.read_splats(bpy.context.object)
    assert not splat_object.is_splat_object(bpy.context.object) and not splat_object.is_splat_object(None)
    with pytest.raises(UserError, match="not a point cloud"):
        splat_object.replace_splats(bpy.data.objects["Cube"], cloud())


def test_wrong_attribute_type_is_refused():
    """An attribute of the right name and the wrong type is an error, not garbage."""
    object = add(cloud())
    object.data.attributes.remove(object.data.attributes["scale"])
    object.data.attributes.new("scale", "FLOAT", "POINT")
    with pytest.raises(UserError, match="scale is FLOAT on POINT"):
        splat_object.read_splats(object)


@pytest.mark.parametrize("count, degree", [(10, 0), (80, 3), (50, 1)])
def test_replace(count, degree):
    """Other splats, more or fewer and of another degree, take the place; transform and material stay."""
    object = add(cloud(50, 2))
    object.location.x = 5
    object.data.materials.append(bpy.data.materials.new("Mine"))
    name = object.data.name
    broken = cloud(count + 1, degree, seed=9)
    broken.means[-1] = np.nan
    replaced = splat_object.replace_splats(object, broken)
    assert (replaced.object, replaced.count, replaced.dropped) == (object, count, 1)
    assert_same(splat_object.read_splats(object), broken.select(np.arange(count)))
    assert object.location.x == 5 and object.data.name == name
    assert [m.name for m in object.data.materials] == ["Mine"]
    assert len(bpy.data.pointclouds) == 1 and len(bpy.data.objects) == 1


def test_a_million_splats_are_quick():
    """A million splats of degree 3 become an object in 3 seconds of processor time at most (idle: 0.5 s)."""
    random = np.random.default_rng(0)
    count = 1_000_000
    splats = Splats(
        means=random.random((count, 3), np.float32),
        log_scales=random.random((count, 3), np.float32) - 6,
        quats_wxyz=random.random((count, 4), np.float32) + 0.1,
        opacity_logits=random.random(count, np.float32),
        sh=np.broadcast_to(random.random((1, 16, 3), np.float32), (count, 16, 3)),
    )
    since_s = time.process_time()
    added = splat_object.add_splats(splats, bpy.context.scene)
    assert time.process_time() - since_s < 3
    assert added.count == count


def test_survives_the_file(tmp_path):
    """Saved and loaded, the object still holds the same splats and its provenance."""
    splats = cloud(25)
    name = add(splats, provenance=splat_object.Provenance(run="r")).name
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "a.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "a.blend"))
    object = bpy.data.objects[name]
    assert_same(splat_object.read_splats(object), splats)
    assert splat_object.get_provenance(object).run == "r"


def test_object_in_edit_mode_is_refilled_or_refused():
    """Where Blender would silently keep the old splats of an object that is edited, replacing them is refused in words."""
    object = splat_object.add_splats(cloud(30), bpy.context.scene).object
    bpy.context.view_layer.objects.active = object
    bpy.ops.object.mode_set(mode="EDIT")
    try:
        if point_cloud.can_resize():
            splat_object.replace_splats(object, cloud(40))
        else:
            with pytest.raises(UserError, match="is being edited"):
                splat_object.replace_splats(object, cloud(40))
    finally:
        bpy.ops.object.mode_set(mode="OBJECT")
    assert len(object.data.points) == (40 if point_cloud.can_resize() else 30)
    assert len(bpy.data.pointclouds) == 1 and not bpy.data.meshes
