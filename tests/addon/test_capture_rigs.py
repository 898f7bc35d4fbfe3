"""Rigs look at the target, have all of it in view, stand where they can see it, and hold out well spread views."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.capture.rigs import (
    DOME_LOWEST_DEG,
    Framing,
    Sphere,
    enclosing_sphere,
    frame_target,
    look_at,
    rig_cameras,
    rig_directions,
    spread_held_out,
)
from splat_engine.formats.conventions import is_rigid
from splat_engine.formats.errors import UserError

RIGS = ["sphere", "dome", "ring"]


def box(center: tuple, half: tuple) -> np.ndarray:
    """Returns [8, 3] corners."""
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return (np.array(center) + signs * np.array(half)).astype(np.float32)


def framing(*bodies: np.ndarray, chosen: bool = False) -> Framing:
    return frame_target(np.stack(bodies), [str(number) for number in range(len(bodies))], chosen=chosen)


SUBJECT = box((0, 0, 1), (1, 0.8, 1))


@given(seed=st.integers(0, 1000), count=st.integers(1, 300), scale=st.floats(1e-3, 1e4))
@settings(max_examples=60, deadline=None)
def test_enclosing_sphere(seed: int, count: int, scale: float) -> None:
    """All points lie in the ball, and it is at most 3 % larger than needed for points that lie on one."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 3))
    if count > 50:
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points * scale + rng.normal(size=3) * scale
    ball = enclosing_sphere(points)
    assert np.linalg.norm(points - ball.center, axis=1).max() <= ball.radius * (1 + 1e-9)
    if count > 50:
        assert ball.radius <= scale * 1.03


@given(
    rig=st.sampled_from(RIGS),
    lens=st.floats(12, 200),
    size=st.integers(16, 2000),
    margin=st.floats(1.0, 2.0),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_every_view_has_all_of_the_target(rig: str, lens: float, size: int, margin: float, seed: int) -> None:
    """The target's ball lies in every picture with the margin and no more than it; poses are rigid, Z up."""
    framed = framing(SUBJECT + np.float32(5))
    cameras = rig_cameras(
        framed, rig, 9, size_px=size, lens_mm=lens, margin=margin, elevation_deg=30, seed=seed
    )
    rim = framed.sphere.center + framed.sphere.radius * rig_directions("sphere", 4000)
    for camera in cameras:
        assert is_rigid(camera.world_from_camera)
        assert camera.world_from_camera[2, 1] <= 1e-9  # the picture's down is not the world's up
        pixels, depth = camera.project(rim)
        assert (depth > camera.near).all()
        assert (depth < camera.far).all()
        reach = np.abs(pixels - size / 2).max() / (size / 2)
        half_angle = math.asin(math.sin(math.atan(size / 2 / camera.fx)) / margin)
        assert reach == pytest.approx(math.tan(half_angle) * camera.fx / (size / 2), rel=0.02)
        assert reach <= 1 + 1e-6


def test_look_at_straight_down_and_up() -> None:
    """The poles have a pose too."""
    for z in (5.0, -5.0):
        pose = look_at(np.array([0, 0, z]), np.zeros(3))
        assert is_rigid(pose)
        np.testing.assert_allclose(pose[:3, 2], [0, 0, -np.sign(z)])


def test_directions_are_even_and_within_the_rig() -> None:
    """A sphere covers all sides evenly, a dome stays a little above the horizon, a ring at its elevation."""
    sphere = rig_directions("sphere", 200)
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=1), 1)
    assert np.abs(sphere.mean(axis=0)).max() < 0.01
    nearest = np.sort(np.arccos(np.clip(sphere @ sphere.T, -1, 1)), axis=1)[:, 1]
    assert nearest.min() > 0.6 * nearest.mean()
    dome = rig_directions("dome", 200)
    assert dome[:, 2].min() >= math.sin(math.radians(DOME_LOWEST_DEG))
    assert dome[:, 2].max() > 0.99
    ring = rig_directions("ring", 12, elevation_deg=30)
    np.testing.assert_allclose(ring[:, 2], 0.5)
    steps = (ring * np.roll(ring, 1, axis=0)).sum(axis=1)
    np.testing.assert_allclose(steps, steps[0])


def test_seed_turns_the_rig_and_is_repeatable() -> None:
    """Same seed, same cameras; another seed, the same heights turned."""
    first, again, other = (rig_directions("sphere", 20, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first[:, 2], other[:, 2])
    assert np.abs(first - other).max() > 0.1


def test_ground_and_sky_are_not_framed() -> None:
    """A huge plane below and a dome around are surroundings; cameras stay above the plane."""
    ground, sky = box((0, 0, 0), (50, 50, 0)), box((0, 0, 0), (500, 500, 500))
    framed = framing(SUBJECT, ground, sky)
    assert framed.backdrops == ("1", "2")
    assert framed.sphere.radius < 1.7
    assert framed.ground_z == pytest.approx(0)
    for camera in rig_cameras(framed, "sphere", 50, size_px=64, lens_mm=50):
        assert camera.position[2] > 0
    both = framing(SUBJECT, box((0, 0, 0), (30, 30, 0)), box((0, 40, 20), (30, 0, 30)))
    assert both.backdrops == ("1", "2")


def test_a_tilted_plane_is_flat_too() -> None:
    """A backdrop need not be level."""
    plane = box((0, 0, 0), (30, 30, 0)) @ np.array([[1, 0, 0], [0, 0.8, 0.6], [0, -0.6, 0.8]], np.float32)
    assert framing(SUBJECT, plane).backdrops == ("1",)


def test_a_table_and_a_room_are_framed() -> None:
    """What is only somewhat larger than the rest, or what a person chose, is the target."""
    table = box((0, 0, 0), (2, 2, 0.0))
    framed = framing(SUBJECT, table)
    assert framed.backdrops == ()
    assert framed.ground_z is None
    walls = [box((0, 0, 0), (5, 5, 0)), box((5, 0, 2), (0, 5, 2)), box((0, 5, 2), (5, 0, 2))]
    furniture = [box((x, y, 0.5), (0.5, 0.5, 0.5)) for x in (-4, 0, 4) for y in (-4, 0, 4)]
    assert framing(*walls, *furniture).backdrops == ()
    assert framing(SUBJECT, box((0, 0, 0), (50, 50, 0)), chosen=True).sphere.radius > 70
    house, knob = box((0, 0, 3), (6, 5, 3)), box((6, 0, 1), (0.1, 0.1, 0.1))
    assert framing(house, knob).sphere.radius > 8


def test_a_stray_far_away_is_not_framed_but_a_second_group_is() -> None:
    """One small thing left at a thousand units does not push the cameras away; a second half of the scene does."""
    cluster = [box((x, y, 0), (0.5, 0.5, 0.5)) for x in range(5) for y in range(5)]
    framed = framing(*cluster, box((1000, 0, 0), (0.5, 0.5, 0.5)))
    assert framed.backdrops == ("25",)
    assert framed.sphere.radius < 5
    far = [body + np.float32(300) for body in cluster]
    assert framing(*cluster, *far).backdrops == ()


def test_nothing_to_look_at() -> None:
    """No body, or one without extent, is an error in words."""
    with pytest.raises(UserError, match="nothing to look at"):
        frame_target(np.zeros((0, 26, 3), np.float32), [], chosen=False)
    with pytest.raises(UserError, match="no extent"):
        framing(box((1, 2, 3), (0, 0, 0)))
    with pytest.raises(UserError, match="at least one view"):
        rig_cameras(
            Framing(Sphere(np.zeros(3), 1.0), -np.ones(3), np.ones(3)), "sphere", 0, size_px=8, lens_mm=50
        )


@pytest.mark.parametrize("rig", RIGS)
@pytest.mark.parametrize(("count", "every"), [(60, 8), (24, 4), (100, 10), (9, 8)])
def test_held_out_views_are_well_spread(rig: str, count: int, every: int) -> None:
    """Every training view stays, none is held out twice, and held-out views leave no side of the target out."""
    directions = rig_directions(rig, count, elevation_deg=20)
    order = spread_held_out(directions, every)
    assert sorted(order) == list(range(count))
    held_out = directions[order][np.arange(count) % every == every // 2]
    spacing = np.sort(np.arccos(np.clip(directions @ directions.T, -1, 1)), axis=1)[:, 1].mean()
    if len(held_out) >= 4:
        assert np.linalg.norm(held_out[:, :2].mean(axis=0)) < 0.25
        apart = np.sort(np.arccos(np.clip(held_out @ held_out.T, -1, 1)), axis=1)[:, 1]
        assert apart.min() > 1.5 * spacing
    if rig == "sphere" and len(held_out) >= 4:
        assert held_out[:, 2].min() < -0.4
        assert held_out[:, 2].max() > 0.4


@pytest.mark.parametrize("every", [0, 1, 5])
def test_held_out_corner_cases(every: int) -> None:
    """None, all, and fewer views than one group."""
    directions = rig_directions("sphere", 2)
    np.testing.assert_array_equal(spread_held_out(directions, every), [0, 1])
