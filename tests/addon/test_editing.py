"""addon.operators.editing and its panel: what the buttons do, in real Blender, in background."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest

from addon import panels, registration
from addon.edit import points
from addon.operators import editing
from addon.scene import ellipsoids, results, splat_object
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud
from tests.addon.fake_layout import FakeLayout, draw

COUNT = 300


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


@pytest.fixture
def splats() -> Any:
    """The active object: splats in a ball, a third of each object and a third unknown."""
    given = replace(cloud(COUNT), object_indices=np.arange(COUNT) % 3, object_names=("Cube", "Fl\u00f6r"))
    object = splat_object.add_splats(given, bpy.context.scene, name="Fit").object
    activate(object)
    return object


def activate(object: Any) -> None:
    for item in bpy.context.selected_objects:
        item.select_set(False)
    object.select_set(True)
    bpy.context.view_layer.objects.active = object


def means(object: Any) -> np.ndarray:
    return splat_object.read_splats(object).means


def cube(size: float = 2.0) -> Any:
    """Adds a cube that is selected beside the splats, which stay active."""
    object = bpy.context.object
    bpy.ops.mesh.primitive_cube_add(size=size)
    made = bpy.context.object
    if object is not None:
        activate(object)
        made.select_set(True)
    return made


def test_crop_by_the_other_selected_object(splats):
    """What lies outside goes, in the world, however the two are placed; the object to crop by is not changed."""
    splats.location, splats.scale = (1, 0, 0), (2, 2, 2)
    bpy.context.view_layer.update()
    crop = cube(3)
    world = splat_object.read_splats(splats, world=True).means
    inside = (np.abs(world) < 1.5).all(axis=1)
    before = means(splats)
    assert bpy.ops.splatfit.crop() == {"FINISHED"}
    np.testing.assert_array_equal(means(splats), before[inside])
    assert len(crop.data.vertices) == 8


@pytest.mark.parametrize("whole", [False, True])
def test_crop_keeps_the_outside_on_request(splats, whole):
    """Named, kept outside, by centre or whole: what is not wholly inside is outside."""
    name = cube(2.5).name
    before = means(splats)
    inside = (np.abs(before) < 1.25).all(axis=1)
    bpy.ops.splatfit.crop(volume=name, side="OUTSIDE", whole=whole)
    left = len(splats.data.points)
    assert (COUNT - inside.sum() < left < COUNT) if whole else left == COUNT - inside.sum()


def test_crop_by_nothing_is_refused(splats):
    """Without a second object, with itself, with a name that is not there: in words, and nothing changes."""
    for arguments in ({}, {"volume": "Fit"}, {"volume": "Gone"}):
        with pytest.raises(RuntimeError, match="object to crop by|no other object"):
            bpy.ops.splatfit.crop(**arguments)
    assert len(splats.data.points) == COUNT


def test_crop_that_takes_all_is_refused(splats):
    """A cube far away: nothing would be left."""
    cube().location = (99, 0, 0)
    bpy.context.view_layer.update()
    with pytest.raises(RuntimeError, match="All 300 splats would go"):
        bpy.ops.splatfit.crop()
    assert len(splats.data.points) == COUNT


def test_filter_deletes_what_is_beyond_the_limits(splats):
    """Sizes are the world's: an object twice as large has splats twice as wide."""
    splats.scale = (2, 2, 2)
    bpy.context.view_layer.update()
    world = splat_object.read_splats(splats, world=True)
    good = (world.opacities() >= 0.4) & (4 * world.scales().max(axis=1) <= 2.0)
    before = means(splats)
    bpy.ops.splatfit.filter(opacity_min=0.4, width_max=2.0)
    assert 20 < good.sum() < COUNT
    np.testing.assert_array_equal(means(splats), before[good])


def test_filter_may_only_select(splats):
    """Nothing goes; Edit Mode shows what would."""
    faint = splat_object.read_splats(splats).opacities() < 0.4
    bpy.ops.splatfit.filter(opacity_min=0.4, action="SELECT")
    assert len(splats.data.points) == COUNT
    np.testing.assert_array_equal(points.selected(splats), faint)


def test_dialog_counts_while_one_drags(splats):
    """The dialog says how many go before anything goes."""
    dialog = type("Dialog", (editing.SPLATFIT_OT_filter,), {"layout": FakeLayout(), "__slots__": ()})
    stand_in = SimpleNamespace(
        layout=FakeLayout(),
        opacity_min=0.4,
        width_min=0.0,
        width_max=0.0,
        aspect_max=0.0,
        action="DELETE",
        found=0,
        among=0,
        bl_rna=bpy.ops.splatfit.filter.get_rna_type(),
        _measured=editing._measured(splats),
    )
    stand_in._limits = lambda: dialog._limits(stand_in)
    stand_in.draw_settings = lambda context: dialog.draw_settings(stand_in, context)
    dialog.draw(stand_in, bpy.context)
    faint = int((splat_object.read_splats(splats).opacities() < 0.4).sum())
    assert f"{faint} of {COUNT} splats" in stand_in.layout.texts()


def room_with_floaters() -> tuple[Any, int]:
    """Returns splats on a sphere with the sphere hidden, and how many hang in the air: far off, or in its middle."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=64, ring_count=48, radius=2)
    original = bpy.context.object
    given = cloud(2000)
    given.means /= np.linalg.norm(given.means, axis=1, keepdims=True) / 2
    given.log_scales[:] = np.log(0.02)
    given.means[:3] = [[0, 0, 0], [0, 0, 5], [0.1, 0, 0]]
    object = splat_object.add_splats(given, bpy.context.scene).object
    activate(object)
    original.hide_set(True)
    original.hide_render = True
    return object, 3


def test_floaters_go():
    """Those far from the hidden original, which stays hidden."""
    object, floaters = room_with_floaters()
    before = means(object)
    bpy.ops.splatfit.remove_floaters()
    np.testing.assert_array_equal(means(object), before[floaters:])
    assert bpy.data.objects["Sphere"].hide_get()


def test_floaters_without_the_originals():
    """The error says how to go on without them: then small groups far from all others go."""
    object, floaters = room_with_floaters()
    bpy.data.objects.remove(bpy.data.objects["Sphere"])
    with pytest.raises(RuntimeError, match="Turn off Compare with Objects"):
        bpy.ops.splatfit.remove_floaters()
    bpy.ops.splatfit.remove_floaters(with_objects=False, distance=0.3)
    assert len(object.data.points) == 2000 - floaters


def test_floaters_of_splats_that_were_moved_away():
    """None is near the originals: that is not what floaters are, and the error says so."""
    object, _ = room_with_floaters()
    object.location.x = 50
    bpy.context.view_layer.update()
    with pytest.raises(RuntimeError, match="All splats are far from the objects"):
        bpy.ops.splatfit.remove_floaters()
    assert len(object.data.points) == 2000


def test_select_by_object_and_extend(splats):
    """By name, the unknown ones too; one after the other adds up."""
    indices = np.arange(COUNT) % 3
    bpy.ops.splatfit.select_by_source(object="Fl\u00f6r")
    np.testing.assert_array_equal(points.selected(splats), indices == 2)
    bpy.ops.splatfit.select_by_source(object=editing.UNKNOWN, extend=True)
    np.testing.assert_array_equal(points.selected(splats), indices != 1)
    bpy.ops.splatfit.select_by_source(object="Cube")
    np.testing.assert_array_equal(points.selected(splats), indices == 1)
    with pytest.raises(TypeError, match="Gone"):
        bpy.ops.splatfit.select_by_source(object="Gone")


def test_select_by_object_needs_objects():
    """Splats from elsewhere do not say what they show."""
    activate(splat_object.add_splats(cloud(), bpy.context.scene).object)
    with pytest.raises(RuntimeError, match="does not say which object"):
        bpy.ops.splatfit.select_by_source(object=editing.UNKNOWN)


def test_select_and_separate_and_delete(splats):
    """The way an object leaves the fit: select it, make it an object of its own, or delete it."""
    bpy.ops.splatfit.select_by_source(object="Cube")
    bpy.ops.splatfit.separate_selected()
    part = bpy.data.objects["Cube Splats"]
    assert set(splat_object.read_splats(part).object_indices) == {1}
    assert set(splat_object.read_splats(splats).object_indices) == {0, 2}
    bpy.ops.splatfit.select_by_source(object=editing.UNKNOWN)
    bpy.ops.splatfit.delete_selected()
    assert set(splat_object.read_splats(splats).object_indices) == {2} and bpy.context.object == splats
    points.select(splats, np.arange(len(splats.data.points)) < 5)
    bpy.ops.splatfit.separate_selected()
    assert "Fl\u00f6r Splats" in bpy.data.objects


def test_a_run_does_not_fill_a_part_anew(splats, tmp_path):
    """When it brings its result again, the part stays as it is, and the object that it was taken from is filled."""
    splat_object.set_provenance(splats, splat_object.Provenance(run=str(tmp_path.resolve())))
    bpy.ops.splatfit.select_by_source(object="Cube")
    bpy.ops.splatfit.separate_selected()
    assert results.made_by(bpy.context.scene, tmp_path) == [splats]


def test_a_part_of_several_objects_is_named_after_the_whole(splats):
    """As is a part of splats that do not say what they show."""
    points.select(splats, np.arange(COUNT) < 5)
    bpy.ops.splatfit.separate_selected()
    assert "Fit Part" in bpy.data.objects


def test_apply_transform(splats):
    """Splats stay where they are, and no selected object has a transform left; a cube keeps its own."""
    other = splat_object.add_splats(cloud(), bpy.context.scene).object
    other.location.x = cube().location.x = 5
    other.select_set(True)
    splats.location, splats.rotation_euler = (1, 2, 3), (0, 0, 1)
    bpy.context.view_layer.update()
    before = splat_object.read_splats(splats, world=True)
    bpy.ops.splatfit.apply_transform()
    bpy.context.view_layer.update()
    assert tuple(splats.location) == tuple(other.location) == (0, 0, 0)
    assert bpy.data.objects["Cube"].location.x == 5
    np.testing.assert_allclose(means(splats), before.means, atol=1e-5)


EDITS = {
    "apply_transform": {},
    "crop": {},
    "filter": {"opacity_min": 0.4},
    "remove_floaters": {"distance": 0.5},
    "select_by_source": {"object": "Cube"},
    "delete_selected": {},
    "separate_selected": {},
}


def state(name: str) -> tuple[Any, ...]:
    object = bpy.data.objects[name]
    read: Splats = splat_object.read_splats(object)
    selected = tuple(points.selected(object))
    return tuple(map(tuple, object.matrix_basis)), read.means.tobytes(), selected, len(bpy.data.objects)


@pytest.mark.parametrize("name", EDITS)
def test_undo_brings_everything_back(splats, name):
    """Each edit is one step of undo; undone, splats, selection, transform and objects are as before."""
    splats.location.x = 0.5
    cube(3)
    points.select(splats, np.arange(COUNT) < 40)
    bpy.context.view_layer.update()
    bpy.ops.ed.undo_push(message="before")
    before = state("Fit")
    assert getattr(bpy.ops.splatfit, name)("EXEC_DEFAULT", True, **EDITS[name]) == {"FINISHED"}
    assert state("Fit") != before
    bpy.ops.ed.undo()
    assert state("Fit") == before
    bpy.ops.ed.redo()
    assert state("Fit") != before


@pytest.mark.parametrize("name", EDITS)
def test_edits_need_splats(name):
    """The buttons are grey with a cube, and without any object; their tooltips get a full stop from Blender."""
    assert not getattr(bpy.ops.splatfit, name).get_rna_type().description.endswith(".")
    assert not getattr(bpy.ops.splatfit, name).poll()
    bpy.ops.mesh.primitive_cube_add()
    assert not getattr(bpy.ops.splatfit, name).poll()


@pytest.mark.parametrize("name", EDITS)
def test_linked_splats_are_refused(splats, name, tmp_path):
    """In words, whatever the button."""
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (found, wanted):
        wanted.objects = found.objects
    linked = wanted.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    activate(linked)
    cube()
    with pytest.raises(RuntimeError, match="linked from another file"):
        getattr(bpy.ops.splatfit, name)(**EDITS[name])


def test_panel_is_there_for_splats_alone(splats):
    """With splats active it offers everything, and tells how many are selected."""
    panel = panels.editing.SPLATFIT_PT_edit
    assert panel.poll(bpy.context)
    offered = draw(panel).operators()
    assert sorted(offered) == sorted(f"splatfit.{name}" for name in EDITS)
    points.select(splats, np.arange(COUNT) < 40)
    layout = draw(panel)
    assert "40 of 300 selected" in layout.texts() and "object.editmode_toggle" in layout.operators()
    activate(cube())
    assert not panel.poll(bpy.context)


def test_marks_can_be_uncovered(splats):
    """Where ellipsoids stand for splats, Edit Mode has a button that hides them, for the marks lie inside."""
    points.select(splats, np.arange(COUNT) < 40)
    bpy.ops.object.mode_set(mode="EDIT")
    drawn = [a.get("property") for _, a in draw(panels.editing.SPLATFIT_PT_edit).calls]
    assert ("show_viewport" in drawn) == (ellipsoids.modifier_of(splats) is not None)
    bpy.ops.object.mode_set(mode="OBJECT")
    drawn = [a.get("property") for _, a in draw(panels.editing.SPLATFIT_PT_edit).calls]
    assert "show_viewport" not in drawn


def test_panel_offers_objects_where_they_are_known(splats):
    """Splats from elsewhere have none to select by."""
    activate(splat_object.add_splats(cloud(), bpy.context.scene).object)
    assert "splatfit.select_by_source" not in draw(panels.editing.SPLATFIT_PT_edit).operators()


def test_menu_names_every_object(splats):
    """In the capture's order, and the unknown at the end; nothing but that for an object without names."""
    items = editing._object_items(None, bpy.context)
    assert [(name, number) for _, name, _, number in items] == [
        ("Cube", 1),
        ("Fl\u00f6r", 2),
        (editing.UNKNOWN, 0),
    ]
    bpy.context.view_layer.objects.active = None
    assert [name for _, name, _, _ in editing._object_items(None, bpy.context)] == [editing.UNKNOWN]
