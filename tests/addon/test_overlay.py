"""addon.display.rig_lines, addon.display.rig_overlay and the operator: the rig as lines, before anything is rendered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bpy
import numpy as np
import pytest

from addon import registration
from addon.capture.rigs import Framing, Sphere, look_at, rig_cameras
from addon.display import rig_overlay
from addon.display.rig_lines import box_lines, camera_lines
from addon.settings import properties
from splat_engine.formats.cameras import Camera
from tests.addon.capture_scenes import camera, cube

FRAMING = Framing(Sphere(np.zeros(3), 1.0), -np.ones(3), np.ones(3))
LINES_A_CAMERA = 11


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def one(position: tuple = (0.0, -5.0, 0.0), **changes: Any) -> Camera:
    pose = look_at(np.array(position), np.zeros(3))
    values = {"width": 40, "height": 20, "fx": 20.0, "fy": 20.0, "cx": 20.0, "cy": 10.0}
    return Camera(**{**values, **changes}, world_from_camera=pose)


def test_a_camera_is_drawn_as_what_it_sees() -> None:
    """The pyramid begins at the camera, its rim is the picture's, in front; the triangle points up."""
    found = camera_lines([one()], np.zeros(3), 1.0)
    assert found.shape == (2 * LINES_A_CAMERA, 3) and found.dtype == np.float32
    rim, rays, up = found[:8], found[8:16], found[16:]
    assert (rim[:, 1] > -5).all() and np.ptp(rim[:, 0]) == pytest.approx(2 * np.ptp(rim[:, 2]), rel=1e-5)
    np.testing.assert_allclose(rays[::2], np.tile([0, -5, 0], (4, 1)))
    pixels, _ = one().project(rim.astype(np.float64))
    assert {tuple(p) for p in pixels.round(3)} == {(0, 0), (40, 0), (40, 20), (0, 20)}
    assert up[:, 2].min() > rim[:, 2].max()


def test_an_orthographic_camera_has_its_pictures_size() -> None:
    """A picture of 2 x 1 units, wherever the camera stands."""
    found = camera_lines([one(model="orthographic")], np.zeros(3), 1.0)
    assert np.ptp(found[:8, 0]) == pytest.approx(2) and np.ptp(found[:8, 2]) == pytest.approx(1)


@pytest.mark.parametrize("distance", [0.001, 5.0, 1e4])
def test_cameras_are_drawn_in_the_targets_proportion(distance: float) -> None:
    """Neither a point nor larger than the target."""
    found = camera_lines([one((0.0, -distance, 0.0))], np.zeros(3), 1.0)
    assert 0.02 < np.ptp(found, axis=0).max() < 1.0


def test_no_camera_and_a_box() -> None:
    """Nothing is drawn of nothing; a box has twelve edges along the axes, each corner in three of them."""
    assert camera_lines([], np.zeros(3), 1.0).shape == (0, 3)
    found = box_lines(-np.ones(3), np.array([1.0, 2, 3]))
    assert found.shape == (24, 3)
    assert ((found[1::2] != found[::2]).sum(axis=1) == 1).all()
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert counts.tolist() == [3] * 8


def press() -> Any:
    assert bpy.ops.splatfit.show_rig() == {"FINISHED"}
    return rig_overlay.shown(bpy.context.scene)


def quick() -> Any:
    chosen = bpy.context.scene.splatfit
    chosen.capture.views, chosen.capture.resolution = 16, 32
    return chosen


def test_a_press_shows_the_capture_s_own_plan_and_another_takes_it_away() -> None:
    """As many cameras as views, held-out ones apart, the target's box; nothing of the scene is left changed."""
    cube()
    quick()
    engine, active = bpy.context.scene.render.engine, bpy.context.scene.camera
    found = press()
    assert (found.views, found.held_out) == (16, 2)
    assert len(found.lines.training) == 14 * 2 * LINES_A_CAMERA
    assert len(found.lines.held_out) == 2 * 2 * LINES_A_CAMERA
    np.testing.assert_allclose(found.lines.box.max(axis=0), [1, 1, 1], atol=1e-5)
    assert bpy.context.scene.render.engine == engine and bpy.context.scene.camera == active
    assert press() is None


def test_settings_of_a_rig_around_the_target_act_at_once() -> None:
    """More views, another distance, another rig of the kind: the lines follow; they are those of a new press."""
    cube()
    chosen = quick()
    press()
    chosen.capture.views, chosen.capture.rig, chosen.capture.elevation_deg = 24, "ring", 40.0
    found = rig_overlay.shown(bpy.context.scene)
    assert found is not None and found.views == 24 and not found.is_outdated
    lines = found.lines.training
    rig_overlay.hide()
    np.testing.assert_array_equal(lines, press().lines.training)
    ring = rig_cameras(found.framing, "ring", 24, size_px=32, lens_mm=50, elevation_deg=40)
    assert found.lines.training[:, 2].mean() > 0.5 * ring[0].position[2]


def test_other_rigs_are_shown_anew_by_a_press() -> None:
    """The scene's cameras need a look at the scene: until the press the old lines stay and are known to be old."""
    cube()
    camera()
    chosen = quick()
    press()
    chosen.capture.rig = "scene"
    chosen.capture.hold_out = 0
    assert rig_overlay.shown(bpy.context.scene).is_outdated
    found = press()
    assert found is not None and found.views == 1 and not found.is_outdated


def test_it_goes_with_the_file_and_the_add_on() -> None:
    """Another file and unregistering take it away."""
    cube()
    quick()
    press()
    bpy.ops.wm.read_factory_settings(use_empty=True)
    assert rig_overlay._shown is None and rig_overlay._handle is None
    cube()
    quick()
    press()
    registration.unregister()
    assert rig_overlay._shown is None and rig_overlay._handle is None
    registration.register()


def test_what_cannot_be_shown_is_told() -> None:
    """Nothing to look at: an error in words, and nothing on show."""
    with pytest.raises(RuntimeError, match="nothing to look at"):
        bpy.ops.splatfit.show_rig()
    assert rig_overlay.shown(bpy.context.scene) is None


def test_a_choice_that_is_missing_keeps_what_is_shown() -> None:
    """While a target is being chosen, drawing goes on with what is on show, which then is old."""
    cube()
    chosen = quick()
    press()
    chosen.target_kind = "OBJECT"
    found = rig_overlay.shown(bpy.context.scene)
    assert found is not None and found.is_outdated
    with pytest.raises(RuntimeError, match="No object is chosen"):
        bpy.ops.splatfit.show_rig()
    assert properties.capture_settings is not None


def test_the_test_view_tells_the_time_and_leaves_nothing() -> None:
    """A view is rendered, its picture and time are kept, the estimate follows the number of views; the scene is as before."""
    from addon.display import test_view

    cube()
    chosen = quick()
    chosen.capture.samples, chosen.capture.denoise = 1, False
    images = set(bpy.data.images.keys())
    assert bpy.ops.splatfit.test_view() == {"FINISHED"}
    found = test_view.of(bpy.context.scene)
    assert found is not None and found.seconds > 0 and found.views == 16
    assert test_view.in_words(bpy.context.scene).endswith("for 16 views")
    chosen.capture.views = 32
    assert test_view.in_words(bpy.context.scene).endswith("for 32 views")
    chosen.capture.samples = 2
    assert test_view.in_words(bpy.context.scene) == ""
    assert set(bpy.data.images.keys()) <= images | {"Render Result"}
