"""The scene's own cameras: all, selected, active over frames, bound to markers, and inside instances."""

from __future__ import annotations

import json
from pathlib import Path

import bpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from addon.capture.capture import capture_scene
from addon.capture.sources import parse_frames
from splat_engine.formats.capture import Capture
from splat_engine.formats.errors import UserError
from tests.addon.capture_scenes import camera, cube, settings


def plan(tmp_path: Path, **values: object) -> Capture:
    """Writes the cameras alone."""
    return capture_scene(
        bpy.context, settings(**{"hold_out": 0, "resolution": 0, "render": False, **values}), tmp_path
    )


def names(capture: Capture) -> list[str]:
    return [view.camera.name for view in capture.views]


@pytest.mark.parametrize(
    ("text", "frames"),
    [("", []), ("7", [7]), ("1,7,9", [1, 7, 9]), ("1-10:3", [1, 4, 7, 10]), (" 3 - 5 , 4, 9 ", [3, 4, 5, 9]), ("-2-1", [-2, -1, 0, 1])],
)  # fmt: skip
def test_frames(text: str, frames: list[int]) -> None:
    """Frames and ranges in their order, each once."""
    assert parse_frames(text) == frames


@pytest.mark.parametrize("text", ["x", "1-", "1:5", "5-1", "1-9:0", "1..4", "1-99999999999"])
def test_bad_frames_are_refused(text: str) -> None:
    """What is no list of frames is refused, and quoted."""
    with pytest.raises(UserError):
        parse_frames(text)


@given(st.text(max_size=12))
def test_any_text_is_frames_or_an_error(text: str) -> None:
    """No text makes another error."""
    try:
        assert all(isinstance(frame, int) for frame in parse_frames(text))
    except UserError as error:
        assert error.hint


def test_all_and_selected(tmp_path: Path) -> None:
    """ "scene" takes every camera, the hidden-in-viewport one too; "selected" the selected ones."""
    cube()
    one, two = camera("One"), camera("Two", (0, -9, 0))
    two.hide_viewport = True
    one.select_set(True)
    bpy.data.objects["Cube"].select_set(False)
    assert sorted(names(plan(tmp_path, rig="scene"))) == ["One", "Two"]
    assert names(plan(tmp_path, rig="selected")) == ["One"]
    one.select_set(False)
    with pytest.raises(UserError, match="no selected camera"):
        plan(tmp_path, rig="selected")


def animate(obj: bpy.types.Object) -> None:
    for frame, x in ((1, 0.0), (11, 10.0)):
        obj.location.x = x
        obj.keyframe_insert("location", frame=frame)
    curves = (
        obj.animation_data.action.layers[0].strips[0].channelbags[0].fcurves
        if hasattr(obj.animation_data.action, "layers")
        else obj.animation_data.action.fcurves
    )
    for curve in curves:
        for key in curve.keyframe_points:
            key.interpolation = "LINEAR"


def test_active_camera_over_frames(tmp_path: Path) -> None:
    """The active camera is taken at each frame, though it is hidden, animated and in no collection."""
    cube()
    moving = camera("Moving")
    animate(moving)
    bpy.context.scene.camera = moving
    bpy.context.scene.collection.objects.unlink(moving)
    bpy.context.scene.frame_set(5)
    capture = plan(tmp_path, rig="active", frames="1,6,11")
    assert names(capture) == ["Moving @ 1", "Moving @ 6", "Moving @ 11"]
    assert [view.frame for view in capture.views] == [1, 6, 11]
    assert [view.time_s for view in capture.views] == pytest.approx([1 / 24, 6 / 24, 11 / 24])
    np.testing.assert_allclose([v.camera.position[0] for v in capture.views], [0, 5, 10], atol=1e-5)
    assert not [note for note in capture.notes if "rest" in note]
    assert bpy.context.scene.frame_current == 5
    bpy.context.scene.frame_set(1)  # where it sees the cube
    assert names(plan(tmp_path, rig="active")) == ["Moving"]


def test_motion_of_the_scene_is_told(tmp_path: Path) -> None:
    """Splats stand still: what moves over the captured frames is named."""
    animate(cube("Runner"))
    bpy.context.scene.camera = camera()
    capture = plan(tmp_path, rig="active", frames="1,11")
    assert [note for note in capture.notes if "Runner" in note and "rest" in note]


def test_cameras_bound_to_markers(tmp_path: Path) -> None:
    """Each marker's camera at its frame; the active camera follows the markers."""
    cube()
    scene = bpy.context.scene
    first, second, hidden = camera("First"), camera("Second"), camera("Hidden")
    hidden.hide_render = True
    for frame, bound in ((10, second), (1, first), (20, first), (30, None), (40, hidden)):
        scene.timeline_markers.new(f"m{frame}", frame=frame).camera = bound
    capture = plan(tmp_path, rig="markers")
    assert [(v.camera.name, v.frame) for v in capture.views] == [
        ("First @ 1", 1),
        ("Second @ 10", 10),
        ("First @ 20", 20),
    ]
    assert names(plan(tmp_path, rig="markers", frames="10-30")) == ["Second @ 10", "First @ 20"]
    assert names(plan(tmp_path, rig="active", frames="0,12,99")) == ["First @ 0", "Second @ 12", "First @ 99"]
    assert all(marker.camera for marker in scene.timeline_markers if marker.frame < 30)
    for marker in scene.timeline_markers:
        marker.camera = None
    with pytest.raises(UserError, match="marker"):
        plan(tmp_path, rig="markers")


def test_cameras_inside_instances(tmp_path: Path) -> None:
    """A camera that exists only inside collection instances gives a view for each, with scene.camera None."""
    inner = bpy.data.collections.new("Inner")
    eye = camera("Eye", (0, -5, 0))
    inner.objects.link(eye)
    bpy.context.scene.collection.objects.unlink(eye)
    cube()
    for number in range(2):
        holder = bpy.data.objects.new(f"Holder{number}", None)
        holder.instance_type, holder.instance_collection = "COLLECTION", inner
        holder.location, holder.scale = (number * 3.0, 0, 1), (2, 2, 2)
        bpy.context.scene.collection.objects.link(holder)
    assert bpy.context.scene.camera is None
    capture = plan(tmp_path, rig="scene")
    assert names(capture) == ["Holder0/Eye", "Holder1/Eye"]
    np.testing.assert_allclose(
        [v.camera.position for v in capture.views], [[0, -10, 1], [3, -10, 1]], atol=1e-5
    )
    assert names(plan(tmp_path, rig="scene")) == names(capture)


def test_names_are_unique(tmp_path: Path) -> None:
    """Two instances of one name from nested instancing are numbered."""
    inner, outer = bpy.data.collections.new("Inner"), bpy.data.collections.new("Outer")
    eye = camera("Eye")
    inner.objects.link(eye)
    bpy.context.scene.collection.objects.unlink(eye)
    cube()
    for number in range(2):
        part = bpy.data.objects.new(f"Part{number}", None)
        part.instance_type, part.instance_collection, part.location.x = "COLLECTION", inner, number
        outer.objects.link(part)
    whole = bpy.data.objects.new("Whole", None)
    whole.instance_type, whole.instance_collection = "COLLECTION", outer
    bpy.context.scene.collection.objects.link(whole)
    found = names(plan(tmp_path, rig="scene"))
    assert len(found) == len(set(found)) == 2


def test_resolution_of_the_scene_and_another(tmp_path: Path) -> None:
    """0 keeps the scene's picture with its crop; another scales the longer side, and the view with it."""
    cube()
    camera()
    render = bpy.context.scene.render
    render.resolution_x, render.resolution_y, render.resolution_percentage = 400, 200, 50
    render.use_border = render.use_crop_to_border = True
    render.border_min_x, render.border_max_x = 0.25, 0.75
    whole = plan(tmp_path, rig="scene").views[0].camera
    assert (whole.width, whole.height, whole.cx, whole.cy) == (100, 100, 50, 50)
    small = plan(tmp_path, rig="scene", resolution=32).views[0].camera
    assert (small.width, small.height) == (32, 32)
    assert small.fx / whole.fx == pytest.approx(0.32)


def test_bad_cameras_are_left_out_and_named(tmp_path: Path) -> None:
    """A panoramic and a broken camera do not cost the good ones; alone they are the error."""
    cube()
    camera("Good")
    camera("Pano").data.type = "PANO"
    camera("Broken").location.x = float("nan")
    capture = plan(tmp_path, rig="scene")
    assert names(capture) == ["Good"]
    assert [note for note in capture.notes if "Pano" in note] and [
        note for note in capture.notes if "Broken" in note
    ]
    bpy.data.objects.remove(bpy.data.objects["Good"])
    with pytest.raises(UserError, match="Pano|Broken"):
        plan(tmp_path, rig="scene")


def test_no_camera_names_the_remedy_and_the_missing_library(tmp_path: Path, shared_data: Path) -> None:
    """A scene without a camera points to a rig; the file whose cameras are in a missing library names it."""
    cube()
    with pytest.raises(UserError, match="no camera") as caught:
        plan(tmp_path, rig="scene")
    assert "rig" in caught.value.hint
    with pytest.raises(UserError, match="no active camera"):
        plan(tmp_path, rig="active")
    bpy.ops.wm.open_mainfile(filepath=str(shared_data / "blend" / "cameras_in_linked_instances.blend"))
    with pytest.raises(UserError, match="no camera") as caught:
        plan(tmp_path, rig="scene")
    assert "C.blend" in caught.value.hint


def test_panorama_is_refused_in_words(tmp_path: Path, shared_data: Path) -> None:
    """The file whose only camera is panoramic is refused for its cameras, and captured by a rig."""
    bpy.ops.wm.open_mainfile(filepath=str(shared_data / "blend" / "panorama.blend"))
    with pytest.raises(UserError, match="panoramic"):
        plan(tmp_path, rig="scene")
    assert len(plan(tmp_path, rig="sphere").views) == 4


def test_published_cameras(tmp_path: Path, shared_data: Path) -> None:
    """Both kinds of camera of a file come through transforms.json."""
    bpy.ops.wm.open_mainfile(filepath=str(shared_data / "blend" / "cameras_ortho_persp.blend"))
    plan(tmp_path, rig="scene")
    frames = json.loads((tmp_path / "transforms.json").read_text())["frames"]
    assert {f["splatfit"]["camera"]: f["camera_model"] for f in frames} == {
        "CamOrtho": "ORTHOGRAPHIC",
        "CamProj": "PINHOLE",
    }


def test_camera_that_looks_elsewhere_is_told(tmp_path):
    """One of two cameras turns its back to the target: a note names it, and nothing is refused."""
    cube()
    camera("Front")
    camera("Back").rotation_euler.z = np.pi
    capture = plan(tmp_path, rig="scene")
    assert len(capture.views) == 2
    assert "1 of 2 views see nothing of the target: Back." in " ".join(capture.notes)


@pytest.mark.parametrize("kind", ["PERSP", "ORTHO"])
def test_no_camera_sees_the_target(tmp_path, kind):
    """Before anything is rendered: all cameras look elsewhere, or the target lies beyond the picture's edge."""
    cube()
    only = camera("Only", location=(9, -8, 0))
    only.data.type = kind
    with pytest.raises(UserError, match="No camera sees the target"):
        plan(tmp_path, rig="scene")
    assert not list(tmp_path.glob("views/*.exr"))
    only.location.x = 2.5  # the cube's edge is in the picture
    assert len(plan(tmp_path, rig="scene").views) == 1


def test_floor_around_the_camera_is_seen(tmp_path):
    """A plane whose corners are all out of the picture is seen all the same."""
    bpy.ops.mesh.primitive_plane_add(size=1000)
    low = camera("Low", location=(0, 0, 1))
    low.rotation_euler.x = 0.5
    assert len(plan(tmp_path, rig="scene", target="Plane").views) == 1
