"""Cameras: projection, transforms.json and back, and poses that cannot see."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera, camera_from_frame
from splat_engine.formats.errors import FormatError
from tests.formats.strategies import cameras, poses

LOOKING_DOWN = np.diag([1.0, -1.0, -1.0, 1.0])


def simple(**changes: Any) -> Camera:
    """Returns a camera at the origin that looks down, 100 x 50 pixels, focal length 80."""
    values = {
        "width": 100,
        "height": 50,
        "fx": 80,
        "fy": 80,
        "cx": 50,
        "cy": 25,
        "world_from_camera": LOOKING_DOWN,
    }
    return Camera(**{**values, **changes})


@given(
    cameras(),
    st.lists(st.tuples(st.floats(-2, 3), st.floats(-2, 3), st.floats(0.01, 1e4)), min_size=1, max_size=5),
)
def test_projection_undoes_unprojection(camera: Camera, places: list[tuple[float, float, float]]) -> None:
    """A world point built from a pixel and a depth by hand is what they are unprojected to, and comes back to both."""
    pixels = np.array([(u * camera.width, v * camera.height) for u, v, _ in places])
    depths = np.array([depth for _, _, depth in places])
    plane = (pixels - [camera.cx, camera.cy]) / [camera.fx, camera.fy]
    local = np.column_stack([plane * (depths[:, None] if camera.model == "perspective" else 1), depths])
    world = local @ camera.world_from_camera[:3, :3].T + camera.position
    np.testing.assert_allclose(camera.unproject(pixels, depths), world, rtol=1e-12)
    found_pixels, found_depths = camera.project(world)
    # Positions up to 1e2 and offsets up to 1e7 units lose about 1e-9 of either to rounding.
    reach = np.abs(local).max() + 200
    np.testing.assert_allclose(found_depths, depths, rtol=1e-12, atol=1e-12 * reach)
    slack = 1e-11 * reach * max(camera.fx, camera.fy) / (depths.min() if camera.model == "perspective" else 1)
    np.testing.assert_allclose(found_pixels, pixels, rtol=1e-9, atol=max(1e-7, 10 * slack))


def test_axes_and_pixel_centres() -> None:
    """Looking down from above: what lies ahead is at the centre, world y is up in the image, depth is planar."""
    camera = simple()
    pixels, depths = camera.project(np.array([[0, 0, -2], [1, 0, -2], [0, 1, -2], [1, 1, -4]], float))
    np.testing.assert_allclose(pixels, [[50, 25], [90, 25], [50, -15], [70, 5]], atol=1e-12)
    np.testing.assert_allclose(depths, [2, 2, 2, 4])
    np.testing.assert_allclose(camera.forward, [0, 0, -1])


def test_orthographic_cameras_ignore_depth() -> None:
    """fx is pixels per scene unit."""
    camera = simple(model="orthographic", fx=10, fy=10)
    pixels, depths = camera.project(np.array([[1, 0, -2], [1, 0, -9]], float))
    np.testing.assert_allclose(pixels, [[60, 25], [60, 25]])
    np.testing.assert_allclose(depths, [2, 9])


def test_points_behind_and_beside_the_eye_do_no_harm() -> None:
    """No warning, no exception; depth tells that the pixels mean nothing. N = 0 gives nothing."""
    with np.errstate(all="raise"):
        pixels, depths = simple().project(np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0]], float))
    assert depths.tolist() == [-1, 0, 0] and pixels.shape == (3, 2)
    assert simple().project(np.zeros((0, 3)))[0].shape == (0, 2)


@given(cameras())
def test_viewmat_is_the_poses_inverse(camera: Camera) -> None:
    """camera_from_world after world_from_camera is the identity."""
    np.testing.assert_allclose(camera.viewmat @ camera.world_from_camera, np.eye(4), atol=1e-12)


@given(cameras())
def test_a_frame_read_back_is_the_same_camera(camera: Camera) -> None:
    """Through JSON text, to the last bit, but for the pose, which is normalised anew."""
    frame = json.loads(json.dumps(camera.to_frame()))
    read = camera_from_frame(frame, {}, where="here")
    np.testing.assert_allclose(read.world_from_camera, camera.world_from_camera, rtol=1e-14, atol=1e-14)
    kept = {"world_from_camera": camera.world_from_camera, "name": camera.name, "near": camera.near}
    assert replace(read, **kept, far=camera.far) == camera


@given(cameras(), st.floats(0.05, 8))
def test_scaling_keeps_the_view(camera: Camera, factor: float) -> None:
    """A point keeps its place in the picture, as a share of width and height."""
    scaled = camera.scaled(factor)
    assert (scaled.width, scaled.height) == tuple(
        max(1, round(n * factor)) for n in (camera.width, camera.height)
    )
    point = camera.position + 3 * camera.forward + 0.5 * camera.world_from_camera[:3, 0]
    before, after = (c.project(point[None])[0][0] / [c.width, c.height] for c in (camera, scaled))
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)


@given(cameras())
def test_cameras_compare_and_hash_by_value(camera: Camera) -> None:
    """Equal only when every attribute is."""
    assert camera == replace(camera) and hash(camera) == hash(replace(camera))
    moved = camera.world_from_camera.copy()
    moved[0, 3] += 1
    assert camera != replace(camera, world_from_camera=moved)
    assert camera != replace(camera, width=camera.width + 1) and camera != "camera"


def test_a_camera_cannot_be_changed_from_outside() -> None:
    """Its pose is its own copy, and read-only; numpy's numbers become plain ones, which JSON can write."""
    pose = LOOKING_DOWN.copy()
    camera = simple(world_from_camera=pose, width=np.int64(100), fx=np.float32(80))
    pose[0, 3] = 9
    assert camera.position[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        camera.world_from_camera[0, 3] = 9
    json.dumps(camera.to_frame())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 0}, "0 x 50"),
        ({"height": -3}, "100 x -3"),
        ({"fx": 0}, "fx 0"),
        ({"fy": -80}, "fy -80"),
        ({"fx": math.nan}, "fx nan"),
        ({"cx": math.inf}, "cx inf"),
        ({"near": -1}, "-1 to"),
        ({"near": 5, "far": 5}, "5 to 5"),
        ({"far": math.nan}, "not finite"),
        ({"model": "fisheye"}, "fisheye"),
        ({"world_from_camera": np.zeros((4, 4))}, "rotation"),
        ({"world_from_camera": np.diag([1.0, 1, -1, 1])}, "rotation"),
        ({"world_from_camera": np.diag([2.0, 2, 2, 1])}, "rotation"),
        ({"world_from_camera": np.full((4, 4), math.nan)}, "rotation"),
        ({"world_from_camera": np.eye(3)}, "rotation"),
    ],
)
def test_cameras_that_cannot_see_are_refused(changes: dict[str, Any], words: str) -> None:
    """With the camera's name, what is wrong and what to do."""
    with pytest.raises(FormatError) as caught:
        simple(name="Eye", **changes)
    assert "'Eye'" in caught.value.headline and words in caught.value.headline and caught.value.hint


IDENTITY = np.eye(4).tolist()


def frame(**changes: Any) -> dict[str, Any]:
    """Returns a frame of transforms.json; a change to None takes the key out."""
    values = {
        "w": 100,
        "h": 50,
        "fl_x": 80.0,
        "fl_y": 81.0,
        "cx": 51.0,
        "cy": 24.0,
        "transform_matrix": IDENTITY,
    }
    return {key: value for key, value in {**values, **changes}.items() if value is not None}


def read(values: dict[str, Any], shared: dict[str, Any] | None = None, **more: Any) -> Camera:
    """Reads a frame named "Frame 3 of x.json"."""
    return camera_from_frame(values, shared or {}, where="Frame 3 of x.json", **more)


def test_nerf_synthetic_angles_and_sizes() -> None:
    """camera_angle_x alone gives both focal lengths; the size comes from the picture, the centre is its middle."""
    angles = {"camera_angle_x": 0.6911112070083618}
    camera = read({"transform_matrix": IDENTITY}, angles, image_size=(800, 600))
    assert camera.fx == camera.fy == pytest.approx(1111.1110311937682)
    assert (camera.width, camera.height, camera.cx, camera.cy) == (800, 600, 400, 300)


@given(st.floats(0.01, 3.1), st.floats(0.01, 3.1))
def test_both_angles_give_both_focal_lengths(angle_x: float, angle_y: float) -> None:
    """The picture's edge is seen at half the angle."""
    camera = read(frame(fl_x=None, fl_y=None, camera_angle_x=angle_x, camera_angle_y=angle_y))
    assert 2 * math.atan(50 / camera.fx) == pytest.approx(angle_x)
    assert 2 * math.atan(25 / camera.fy) == pytest.approx(angle_y)


def test_a_frame_goes_before_what_all_share() -> None:
    """Per-frame keys win; focal lengths go before angles; one focal length serves both axes."""
    shared = {
        "w": 9,
        "fl_x": 1.0,
        "fl_y": 1.0,
        "camera_angle_x": 1.0,
        "cx": 1.0,
        "camera_model": "ORTHOGRAPHIC",
    }
    camera = read(frame(w=None, fl_y=None, cx=None, camera_model="OPENCV"), shared)
    assert (camera.width, camera.fx, camera.fy, camera.cx, camera.model) == (9, 80, 1, 1, "perspective")
    assert read(frame(fl_x=None)).fx == 81
    assert read(frame(camera_model=None), shared).model == "orthographic"


def test_a_three_by_four_matrix_will_do() -> None:
    """Some exporters leave the last row out."""
    assert read(frame(transform_matrix=IDENTITY[:3])) == read(frame())


@given(poses(), st.floats(1e-3, 1e3))
def test_a_uniform_scale_is_lost(pose: NDArray[np.float64], scale: float) -> None:
    """A camera under a scaled parent sees the same; its place stays."""
    plain = read(frame(transform_matrix=pose.tolist())).world_from_camera
    pose[:3, :3] *= scale
    scaled = read(frame(transform_matrix=pose.tolist())).world_from_camera
    np.testing.assert_allclose(scaled, plain, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"camera_model": "OPENCV_FISHEYE"}, "OPENCV_FISHEYE"),
        ({"k1": 0.1}, "lens distortion"),
        ({"p2": -0.1}, "lens distortion"),
        ({"k1": "much"}, "k1 'much'"),
        ({"w": None}, "no image size"),
        ({"w": 99.5}, "99.5 x 50"),
        ({"w": 0}, "0 x 50"),
        ({"h": 10**9}, "100 x 1e+09"),
        ({"w": "100"}, "w '100'"),
        ({"w": True}, "w True"),
        ({"fl_x": None, "fl_y": None}, "no focal length"),
        ({"fl_x": 0.0}, "focal length"),
        ({"fl_x": -80.0}, "focal length"),
        ({"fl_x": math.nan}, "fl_x nan"),
        ({"fl_x": [80.0]}, "fl_x [80.0]"),
        ({"cy": math.inf}, "cy inf"),
        ({"cx": 10**400}, "cx 1000"),
        ({"fl_x": None, "camera_angle_x": 0.0}, "camera_angle_x 0"),
        ({"fl_x": None, "camera_angle_x": 3.2}, "camera_angle_x 3.2"),
        ({"transform_matrix": None}, "no transform_matrix"),
        ({"transform_matrix": "unit"}, "table of numbers"),
        ({"transform_matrix": [[1, 2], [3]]}, "table of numbers"),
        ({"transform_matrix": [[{}] * 4] * 4}, "table of numbers"),
        ({"transform_matrix": np.eye(3).tolist()}, "4 x 4"),
        ({"transform_matrix": np.full((4, 4), math.nan).tolist()}, "not finite"),
        ({"transform_matrix": np.zeros((4, 4)).tolist()}, "singular"),
        ({"transform_matrix": np.diag([1.0, 1, -1, 1]).tolist()}, "mirrored"),
        ({"transform_matrix": np.diag([1.0, 1, 2, 1]).tolist()}, "rotation and a translation"),
        ({"transform_matrix": [*np.eye(4)[:3].tolist(), [0, 0, 1, 1]]}, "rotation and a translation"),
    ],
)
def test_frames_that_make_no_camera_are_refused(changes: dict[str, Any], words: str) -> None:
    """The frame and its file are named, and what is wrong with them."""
    with pytest.raises(FormatError) as caught:
        read(frame(**changes))
    assert caught.value.headline.startswith("Frame 3 of x.json") and words in caught.value.headline


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*frame(), "camera_model", "camera_angle_x", "k1", "file_path"]), JSON_VALUES)
def test_any_value_of_any_key_is_read_or_refused(key: str, value: Any) -> None:
    """Whatever stands in the file, a reader gets a camera or a FormatError."""
    try:
        assert isinstance(read({**frame(), key: value}), Camera)
    except FormatError as error:
        assert "Frame 3 of x.json" in error.headline
