"""addon.scene.compare: splats or originals by their eye icons, and back exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import registration
from addon.scene import compare, splat_object
from tests.addon.capture_scenes import camera, cube
from tests.addon.clouds import cloud


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def eyes() -> dict[str, bool]:
    """Object to whether it is visible."""
    return {item.name: not item.hide_get() for item in bpy.context.scene.objects}


def build() -> None:
    """Two originals, one of them hidden, a camera, and splats."""
    cube("Shown")
    cube("Hidden").hide_set(True)
    camera()
    splat_object.add_splats(cloud(), bpy.context.scene, "Splats")


def press(show: str = "TOGGLE") -> None:
    assert bpy.ops.splatfit.compare(show=show) == {"FINISHED"}


BEFORE = {"Shown": True, "Hidden": False, "Camera": True, "Splats": True}
SPLATS = {**BEFORE, "Shown": False}
ORIGINALS = {**BEFORE, "Splats": False}


def test_sides_in_turn_and_back() -> None:
    """First the splats, then the originals, and so on; what was hidden stays hidden; the end is as the beginning was."""
    build()
    seen = []
    for _ in range(3):
        press()
        seen.append(eyes())
    assert seen == [SPLATS, ORIGINALS, SPLATS]
    press("OFF")
    assert eyes() == BEFORE and not bpy.context.scene.splatfit.remembered


def test_hidden_originals_are_shown_as_a_whole_and_hidden_again() -> None:
    """After a fit that hid the originals, the first press shows them; the end hides them again."""
    build()
    bpy.data.objects["Shown"].hide_set(True)
    press()
    assert eyes() == {"Shown": True, "Hidden": True, "Camera": True, "Splats": False}
    press("OFF")
    assert eyes() == {**BEFORE, "Shown": False}


def test_it_survives_a_file(tmp_path: Path) -> None:
    """Saved in the middle and opened, it goes on, and knows what was visible before, though names changed."""
    build()
    press("ORIGINALS")
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "a.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "a.blend"))
    assert bpy.context.scene.splatfit.compared == "ORIGINALS" and eyes() == ORIGINALS
    bpy.data.objects["Splats"].name = "Renamed"
    press("OFF")
    assert eyes()["Renamed"] and eyes()["Shown"] and not eyes()["Hidden"]


def test_what_was_made_or_deleted_meanwhile() -> None:
    """An object that is new stays as it is at the end; one that is gone is no error."""
    build()
    press("ORIGINALS")
    bpy.data.objects.remove(bpy.data.objects["Shown"])
    cube("New")
    press("SPLATS")
    assert not eyes()["New"]
    press("OFF")
    assert eyes() == {"Hidden": False, "Camera": True, "Splats": True, "New": False}


def test_undo_is_asked_for() -> None:
    """The operator is a step of undo; renders are not touched."""
    build()
    press()
    assert {"UNDO", "REGISTER"} <= bpy.types.SPLATFIT_OT_compare.bl_options
    assert not any(item.hide_render for item in bpy.context.scene.objects)


def test_an_excluded_collection_is_left_alone() -> None:
    """What has no eye icon is passed over."""
    build()
    group = bpy.data.collections.new("Away")
    bpy.context.scene.collection.children.link(group)
    group.objects.link(bpy.data.objects.new("Far", bpy.data.meshes.new("Far")))
    bpy.context.view_layer.layer_collection.children["Away"].exclude = True
    press()
    press("OFF")
    assert {name: eyes()[name] for name in BEFORE} == BEFORE


def test_without_splats_there_is_nothing_to_compare() -> None:
    """The button is off, and says why by not being there in the panel."""
    cube()
    assert not compare.has_splats()
    with pytest.raises(RuntimeError, match="poll"):
        bpy.ops.splatfit.compare()


@pytest.mark.parametrize(
    "psnr_db, words",
    [
        (40, "almost identical"),
        (32.1, "very close"),
        (29, "close"),
        (25, "softer"),
        (21, "rough"),
        (9, "far off"),
    ],
)
def test_decibels_in_words(psnr_db: Any, words: str) -> None:
    """The higher, the closer."""
    assert compare.closeness(psnr_db) == words
