"""addon.edit.measures: which splats are faint, of an odd size, or alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from addon.edit.measures import Limits, beyond_limits, default_distance, small_groups
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        (Limits(), []),
        (Limits(opacity_min=0.2), [0]),
        (Limits(width_min=1.0), [1]),
        (Limits(width_max=4.5), [2, 3]),
        (Limits(aspect_max=3.0), [3]),
        (Limits(opacity_min=0.2, aspect_max=3.0), [0, 3]),
    ],
)
def test_each_limit_takes_its_own(limits, gone):
    """Faint, small, large, needle, disc: a width is four standard deviations, and a disc is no needle."""
    opacities = np.array([0.1, 0.5, 0.5, 0.5, 0.5])
    scales = np.array([[1, 1, 1], [0.2, 0.1, 0.1], [5, 5, 5], [9, 1, 1], [1, 1, 0.001]])
    assert np.flatnonzero(beyond_limits(opacities, scales, limits)).tolist() == gone


def ball(count: int, centre: tuple[float, float, float], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(scale=0.1, size=(count, 3)) + centre


def test_small_groups_are_found():
    """A few splats beside many; two large groups stay both; a group of one too."""
    means = np.concatenate([ball(400, (0, 0, 0)), ball(5, (9, 0, 0)), ball(300, (0, 9, 0)), [[0, 0, 5.0]]])
    gone = np.flatnonzero(small_groups(means, 0.3, 10))
    assert gone.tolist() == [*range(400, 405), 705]


def test_the_largest_group_always_stays():
    """Whatever is asked for, something is left."""
    means = np.concatenate([ball(20, (0, 0, 0)), ball(8, (9, 0, 0))])
    assert np.flatnonzero(small_groups(means, 0.5, 1000)).tolist() == [*range(20, 28)]


def test_a_long_chain_is_one_group():
    """Its ends are far from each other, and each next one near."""
    chain = np.stack([np.arange(5000) * 0.9, np.sin(np.arange(5000)), np.zeros(5000)], axis=1)
    means = np.random.default_rng(0).permutation(chain)
    assert not small_groups(means, 1.0, 5000).any()


def test_far_and_broken_splats_cost_nothing():
    """A splat a billion extents away is alone; one that is nowhere floats."""
    means = np.concatenate(
        [ball(100, (0, 0, 0)), [[1e9, 0, 0], [-1e9, 1e9, 3], [np.nan, 0, 0], [0, np.inf, 0]]]
    )
    assert np.flatnonzero(small_groups(means, 0.3, 2)).tolist() == [100, 101, 102, 103]
    assert small_groups(np.full((2, 3), np.nan), 0.3, 2).all() and small_groups(
        np.zeros((0, 3)), 1, 2
    ).shape == (0,)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), distance=st.floats(0.2, 3))
def test_groups_agree_with_joining_pairs(seed, count, distance):
    """Splats nearer than the distance are never parted; splats in different groups of cubes are never joined."""
    means = np.random.default_rng(seed).uniform(0, 6, (count, 3))
    near = np.linalg.norm(means[:, None] - means[None], axis=2)
    for least in (2, 4):
        gone = small_groups(means, distance, least)
        certain = _sizes(near < distance)
        possible = _sizes(near <= 2 * np.sqrt(3) * distance)
        assert not gone[certain >= least].any()
        expected = possible < least
        assert gone[expected].sum() >= expected.sum() - possible[expected].max(initial=0)


def _sizes(linked: np.ndarray) -> np.ndarray:
    """Returns the size of each one's group by powers of the matrix of links."""
    reach = linked | np.eye(len(linked), dtype=bool)
    while not np.array_equal(further := (reach.astype(int) @ reach) > 0, reach):
        reach = further
    return reach.sum(axis=1)


def test_default_distance_follows_the_splats():
    """Ten times larger, ten times farther; a few giants or strays change little; none gives 0."""
    splats = cloud(2000)
    distance = default_distance(splats)
    assert 0.2 < distance < 3
    larger = Splats(10 * splats.means, splats.log_scales + np.log(10), *_rest(splats))
    assert default_distance(larger) == pytest.approx(10 * distance, rel=1e-4)
    splats.means[:5], splats.log_scales[5:10] = 1e6, 8
    assert default_distance(splats) == pytest.approx(distance, rel=0.05)
    assert default_distance(Splats.empty()) == 0


def _rest(splats: Splats) -> tuple[np.ndarray, ...]:
    return splats.quats_wxyz, splats.opacity_logits, splats.sh
