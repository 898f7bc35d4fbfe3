"""addon.settings.choices and addon.settings.target_size: target, quality and result as a person chooses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np
import pytest

from addon import registration
from addon.settings import properties, target_size
from addon.settings.choices import governed_settings, named_choices, quality_lines, short_number
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import preset_values
from tests.addon.capture_scenes import camera, cube


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def chosen() -> Any:
    return bpy.context.scene.splatfit


def target() -> str:
    return properties.capture_settings(bpy.context.scene).target


def test_pointers_fill_the_target() -> None:
    """Object and collection arrive by name, of now: also after they were renamed; the scene is no target."""
    made = cube("Chair")
    group = bpy.data.collections.new("Furniture")
    bpy.context.scene.collection.children.link(group)
    chosen().target_kind, chosen().target_object = "OBJECT", made
    assert target() == "Chair"
    made.name = "Armchair"
    assert target() == "Armchair"
    chosen().target_kind, chosen().target_collection = "COLLECTION", group
    assert target() == "Furniture"
    chosen().target_kind = "SCENE"
    assert target() == ""


def test_a_target_that_is_not_there_is_told() -> None:
    """None chosen, one that was deleted, and a collection with an object's name are refused in words, not fitted as something else."""
    chosen().target_kind = "OBJECT"
    with pytest.raises(UserError, match="No object is chosen"):
        target()
    chosen().target_object = made = cube("Chair")
    bpy.context.scene.collection.objects.unlink(made)
    with pytest.raises(UserError, match="'Chair' is not in this scene"):
        target()
    cube("Both")
    chosen().target_kind, chosen().target_collection = "COLLECTION", bpy.data.collections.new("Both")
    with pytest.raises(UserError, match="an object has the same name"):
        target()


def test_a_typed_target_still_counts() -> None:
    """Files and scripts that name the target, without a pointer."""
    cube("Chair")
    chosen().capture.target = "Chair"
    assert target() == "Chair"


def test_the_camera_mesh_is_pointed_at() -> None:
    """Its name arrives for the rig 'faces' alone."""
    chosen().capture.rig = "faces"
    with pytest.raises(UserError, match="No mesh is chosen"):
        properties.capture_settings(bpy.context.scene)
    chosen().capture.rig = "sphere"
    chosen().faces_object = cube("Cage")
    assert properties.capture_settings(bpy.context.scene).faces == ""
    chosen().capture.rig = "faces"
    assert named_choices(chosen()) == {"faces": "Cage"}
    assert properties.capture_settings(bpy.context.scene).faces == "Cage"


def test_quality_sets_what_it_is_about_and_follows_it() -> None:
    """Chosen, it sets; changed by hand, it is custom; set back by hand, it is that quality again."""
    for quality in ("draft", "high", "standard"):
        chosen().quality = quality
        assert chosen().quality == chosen().fit.preset == quality
        for group, values in preset_values(quality).items():
            for name, value in values.items():
                assert getattr(getattr(chosen(), group), name) == value
    chosen().fit.steps += 1
    assert chosen().quality == "custom"
    chosen().fit.steps -= 1
    assert chosen().quality == "standard"


def test_custom_can_be_chosen() -> None:
    """It stays custom while the numbers are still those of a quality; a quality ends it."""
    before = chosen().fit.steps
    chosen().quality = "custom"
    assert chosen().quality == "custom" and chosen().fit.steps == before
    chosen().quality = "draft"
    assert chosen().quality == "draft"


def test_what_a_quality_is_about_stands_as_declared() -> None:
    """Views before samples, steps before splats; none of a preset's settings is missing."""
    places = governed_settings()
    assert places == [("capture", "views"), ("capture", "samples"), ("fit", "steps"), ("fit", "max_splats")]
    table = preset_values("draft")
    assert set(places) == {(group, name) for group, values in table.items() for name in values}


def test_numbers_as_a_person_says_them() -> None:
    """Thousands and millions; a quality in a line."""
    assert [short_number(n) for n in (7, 999, 1000, 12345, 200000, 1500000)] == [
        "7",
        "999",
        "1k",
        "12.3k",
        "200k",
        "1.5M",
    ]
    assert quality_lines(chosen()) == ("100 views of 16 samples", "2,000 steps, 200k splats")


def size_of(item: Any = None) -> Any:
    bpy.context.view_layer.update()
    return target_size.measure(bpy.context.scene, item)


def test_the_target_is_measured_without_its_surroundings() -> None:
    """A ground plane is told as surroundings; a chosen object counts with its children, a collection with its objects."""
    made, child = cube("Seen"), cube("Child", (4, 0, 0))
    child.parent = made
    bpy.ops.mesh.primitive_plane_add(size=80)
    bpy.context.object.name = "Ground"
    camera()
    found = size_of()
    np.testing.assert_allclose(found.size, (6, 2, 2), atol=1e-5)
    assert found.backdrops == ("Ground",)
    np.testing.assert_allclose(size_of(made).size, (6, 2, 2), atol=1e-5)
    np.testing.assert_allclose(size_of(child).size, (2, 2, 2), atol=1e-5)
    group = bpy.data.collections.new("Group")
    group.objects.link(child)
    np.testing.assert_allclose(size_of(group).size, (2, 2, 2), atol=1e-5)
    child.hide_render = True
    np.testing.assert_allclose(size_of(made).size, (2, 2, 2), atol=1e-5)


def test_instances_of_a_collection_are_measured() -> None:
    """An empty that stands for a collection has the size of what it shows, where it stands."""
    source = cube("Source", (1, 0, 0))
    group = bpy.data.collections.new("Group")
    group.objects.link(source)
    bpy.context.scene.collection.objects.unlink(source)
    instance = bpy.data.objects.new("Instance", None)
    instance.instance_type, instance.instance_collection, instance.scale = "COLLECTION", group, (3, 1, 1)
    bpy.context.scene.collection.objects.link(instance)
    np.testing.assert_allclose(size_of().size, (6, 2, 2), atol=1e-5)


def test_nothing_to_measure() -> None:
    """An empty scene, and lights and cameras alone, have no size, in words."""
    camera()
    assert size_of().size is None
    assert (
        target_size.in_words(bpy.context.scene, target_size.of(bpy.context.scene)) == "Nothing here renders"
    )


def test_units_are_the_scenes() -> None:
    """Metres, feet or plain numbers, as the scene says."""
    scene = bpy.context.scene
    cube(size=3)
    found = size_of()
    assert target_size.in_words(scene, found) == "3 m × 3 m × 3 m"
    scene.unit_settings.system = "IMPERIAL"
    assert "'" in target_size.in_words(scene, found)
    scene.unit_settings.system = "NONE"
    assert target_size.in_words(scene, found) == "3 × 3 × 3"


def test_what_changes_makes_the_size_old() -> None:
    """A moved object and another target make it old; the old value is shown until the new one is there; a file forgets it."""
    made = cube()
    size_of()
    assert target_size.is_fresh(bpy.context.scene)
    made.scale = (2, 2, 2)
    bpy.context.view_layer.update()
    assert not target_size.is_fresh(bpy.context.scene) and target_size.of(bpy.context.scene) is not None
    size_of()
    chosen().target_kind = "COLLECTION"
    assert not target_size.is_fresh(bpy.context.scene)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    assert target_size.of(bpy.context.scene) is None


def test_the_timer_measures_what_a_draw_has_missed() -> None:
    """Called once: the scenes that were asked for are measured, the chosen target of each."""
    made = cube(size=4)
    chosen().target_kind, chosen().target_object = "OBJECT", made
    bpy.context.view_layer.update()
    target_size._waiting.add(bpy.context.scene.name)
    assert target_size._find() is None and not target_size._waiting
    found = target_size.of(bpy.context.scene)
    assert found is not None and found.size == pytest.approx((4, 4, 4))
