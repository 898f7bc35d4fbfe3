"""addon.edit.points: points of a splat object deleted, split off and selected, in real Blender."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bpy
import numpy as np
import pytest

from addon.edit import points
from addon.scene import splat_object
from splat_engine.formats.errors import UserError
from splat_engine.formats.splats import ARRAY_NAMES, Splats
from tests.addon.clouds import cloud


def with_objects(count: int = 50) -> Splats:
    return replace(cloud(count), object_indices=np.arange(count) % 3, object_names=("Cube", "Floor"))


def add(splats: Splats) -> Any:
    return splat_object.add_splats(
        splats, bpy.context.scene, provenance=splat_object.Provenance(run="/runs/7")
    ).object


def assert_same(found: Splats, expected: Splats) -> None:
    """Asserts that two clouds read from Blender are equal to the last bit."""
    for name in (*ARRAY_NAMES, "object_indices"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.object_names == expected.object_names


def add_own_attribute(object: Any, data_type: str, key: str, width: int) -> np.ndarray:
    """Gives the object an attribute of the user's and returns its values [N, width]."""
    attribute = object.data.attributes.new(f"my {data_type}", data_type, "POINT")
    values = np.arange(len(attribute.data) * width).reshape(-1, width) % 100
    values = values % 2 if data_type == "BOOLEAN" else values
    values = (values / 100).astype(np.float32) if "COLOR" in data_type else values
    attribute.data.foreach_set(key, values.reshape(-1))
    read = np.empty(values.size, np.float32)
    attribute.data.foreach_get(key, read)
    return read.reshape(values.shape)


@pytest.fixture
def kept() -> np.ndarray:
    return np.random.default_rng(1).random(50) < 0.4


def test_what_is_kept_stays_to_the_last_bit(kept):
    """Every array of the splats, their objects and the run that made them; the transform and the name too."""
    object = add(with_objects())
    object.location.x = 3
    name, before = object.data.name, splat_object.read_splats(object)
    points.keep(object, kept)
    assert_same(splat_object.read_splats(object), before.select(kept))
    assert object.location.x == 3 and object.data.name == name and len(object.data.points) == kept.sum()
    assert splat_object.get_provenance(object).run == "/runs/7"
    assert len(bpy.data.pointclouds) == 1 and len(bpy.data.objects) == 1 and not bpy.data.meshes


@pytest.mark.parametrize("data_type", points._KINDS)
def test_the_users_attributes_stay_with_their_points(data_type, kept):
    """Of every type that this Blender has."""
    known = bpy.types.Attribute.bl_rna.properties["data_type"].enum_items
    if data_type not in known:
        pytest.skip(f"this Blender has no attributes of type {data_type}")
    object = add(cloud())
    shape, key, _ = points._KINDS[data_type]
    values = add_own_attribute(object, data_type, key, shape[0] if shape else 1)
    points.keep(object, kept)
    found = np.empty(values[kept].size, np.float32)
    object.data.attributes[f"my {data_type}"].data.foreach_get(key, found)
    np.testing.assert_array_equal(found, values[kept].reshape(-1))


def test_what_cannot_be_kept_is_an_error_and_no_loss(kept):
    """Text has no array: the error names the attribute, and nothing has changed."""
    object = add(cloud())
    object.data.attributes.new("notes", "STRING", "POINT")
    for change in (lambda: points.keep(object, kept), lambda: points.split_off(object, kept)):
        with pytest.raises(UserError, match="'notes'"):
            change()
    assert len(object.data.points) == 50 and len(bpy.data.objects) == 1 and len(bpy.data.pointclouds) == 1


def test_materials_and_properties_of_the_data_stay(kept):
    """Also where the data has to be made anew."""
    object = add(cloud())
    object.data.materials.append(bpy.data.materials.new("Mine"))
    object.data["note"] = "keep"
    points.keep(object, kept)
    assert [m.name for m in object.data.materials] == ["Mine"] and object.data["note"] == "keep"


def test_objects_that_share_the_data_follow(kept):
    """As in Blender's own edit mode."""
    object = add(cloud())
    twin = bpy.data.objects.new("Twin", object.data)
    bpy.context.scene.collection.objects.link(twin)
    points.keep(object, kept)
    assert twin.data == object.data and len(twin.data.points) == kept.sum()


def test_keeping_all_changes_nothing_and_none_is_refused():
    """An object without splats would be no splat object any more."""
    object = add(cloud())
    points.keep(object, np.ones(50, bool))
    with pytest.raises(UserError, match="All 50 splats would go"):
        points.keep(object, np.zeros(50, bool))
    assert len(object.data.points) == 50


def test_a_part_is_an_object_of_its_own(kept):
    """Both together hold what there was, where it was, with the same origin and parent."""
    parent = bpy.data.objects.new("Parent", None)
    collection = bpy.data.collections.new("Things")
    bpy.context.scene.collection.children.link(collection)
    object = add(with_objects())
    collection.objects.link(object)
    object.parent, object.location.y = parent, 2
    bpy.context.view_layer.update()
    before, objects = splat_object.read_splats(object), set(bpy.data.objects)
    part = points.split_off(object, kept)
    bpy.context.view_layer.update()
    assert set(bpy.data.objects) - objects == {part} and part.data != object.data
    assert_same(splat_object.read_splats(part), before.select(kept))
    assert_same(splat_object.read_splats(object), before.select(~kept))
    assert part.matrix_world == object.matrix_world and part.parent == parent
    assert set(part.users_collection) == set(object.users_collection)
    assert splat_object.get_provenance(part).run == "/runs/7" and not part.select_get()
    assert len(bpy.data.pointclouds) == 2


@pytest.mark.parametrize("amount", [0, 1])
def test_no_part_and_all_cannot_be_split_off(amount):
    """There would be an object without splats."""
    object = add(cloud())
    with pytest.raises(UserError, match="splats are selected"):
        points.split_off(object, np.full(50, bool(amount)))
    assert len(bpy.data.objects) == 1


def test_selection_is_blenders_own(kept):
    """What is selected here is selected in Edit Mode, and the other way round."""
    object = add(cloud())
    assert points.selected(object).all(), "without the attribute Blender takes all as selected"
    points.select(object, kept)
    np.testing.assert_array_equal(points.selected(object), kept)
    points.select(object, ~kept, extend=True)
    assert points.selected(object).all()
    bpy.context.view_layer.objects.active = object
    points.select(object, kept)
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.pointcloud.delete()
    bpy.ops.object.mode_set(mode="OBJECT")
    assert len(object.data.points) == (~kept).sum()


def test_edit_mode(kept):
    """Where Blender can shorten a point cloud, in Edit Mode too; elsewhere it is refused in words."""
    object = add(cloud())
    bpy.context.view_layer.objects.active = object
    bpy.ops.object.mode_set(mode="EDIT")
    if hasattr(object.data, "resize"):
        points.keep(object, kept)
        assert len(object.data.points) == kept.sum()
    else:
        with pytest.raises(UserError, match="Edit Mode"):
            points.keep(object, kept)
    bpy.ops.object.mode_set(mode="OBJECT")


def test_bare_splats_stand_in_the_world():
    """Centres, sizes and opacities are those of the whole reading; only the directional colour is left out."""
    object = add(cloud())
    object.scale, object.rotation_euler.x = (1, 2, 3), 0.7
    bpy.context.view_layer.update()
    whole, bare = splat_object.read_splats(object, world=True), points.bare_splats(object)
    for name in ("means", "log_scales", "opacity_logits"):
        np.testing.assert_allclose(getattr(bare, name), getattr(whole, name), atol=1e-5)
    assert bare.sh_degree == 0


def test_only_splats_of_this_file_are_editable(tmp_path):
    """A cube, a mesh of splats, nothing, and what is linked are refused, each in words."""
    object = add(cloud())
    assert points.editable(object) == object
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (found, wanted):
        wanted.objects = found.objects
    (linked,) = wanted.objects
    bpy.context.scene.collection.objects.link(linked)
    bpy.ops.mesh.primitive_cube_add()
    for item, words in (
        (linked, "linked from another file"),
        (bpy.context.object, "No splat"),
        (None, "No splat"),
    ):
        with pytest.raises(UserError, match=words):
            points.editable(item)
