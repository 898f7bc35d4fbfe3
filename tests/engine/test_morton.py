"""The order of splats in memory: codes of points, and the sorting of a fit's state."""

from __future__ import annotations

import math

import hypothesis
import numpy as np
import torch
from hypothesis import strategies as st
from splat_scenes import HEIGHT, WIDTH, camera, splats

from splat_engine.fit.model import PARAMETER_NAMES, SplatState
from splat_engine.fit.morton import FARTHEST, REACH_SIGMA, morton_codes, morton_order
from splat_engine.fit.strategies.adaptive import AdaptiveDensity
from splat_engine.formats.settings import DensifySettings
from splat_engine.ops import project, rasterize, sh_colors
from tests.engine.strategy_scenes import around


def interleaved(cell: tuple[int, int, int]) -> int:
    """The code of a cell, bit by bit."""
    return sum((cell[axis] >> bit & 1) << (3 * bit + axis) for bit in range(10) for axis in range(3))


def test_codes_are_the_bits_of_the_cells_in_turns() -> None:
    """For random points, against a loop over bits and numpy's statement of the grid."""
    points = torch.randn(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    array = points.numpy()
    shares = (array - array.mean(axis=0)) / (REACH_SIGMA * array.std(axis=0)) * 0.5 + 0.5
    cells = np.clip(shares * 1024, 0, 1023).astype(int)
    assert morton_codes(points).tolist() == [interleaved(tuple(cell)) for cell in cells.tolist()]
    assert len(set(map(tuple, cells.tolist()))) > 490


@hypothesis.given(
    st.lists(st.lists(st.floats(width=32), min_size=3, max_size=3), max_size=20), st.sampled_from([32, 64])
)
def test_any_numbers_have_a_code(rows: list[list[float]], bits: int) -> None:
    """Of 30 bits, and the order is a permutation, whatever the points are: not finite, vast, all the same, none."""
    points = torch.tensor(rows, dtype=getattr(torch, f"float{bits}")).reshape(-1, 3)
    codes, order = morton_codes(points), morton_order(points)
    assert codes.dtype == torch.int32 and ((codes >= 0) & (codes < 2**30)).all()
    assert sorted(order.tolist()) == list(range(len(rows)))
    assert (codes[order].diff() >= 0).all()


def test_one_stray_point_does_not_blur_the_others() -> None:
    """A point beyond all bounds leaves the rest in order: more than half of the codes are still their own."""
    points = torch.randn(2000, 3, generator=torch.Generator().manual_seed(1))
    points[7] = 200.0
    assert len(morton_codes(points).unique()) > 1500
    points[8] = 10 * FARTHEST
    assert (morton_codes(points) >= 0).all()


def test_neighbours_in_memory_are_neighbours_in_space() -> None:
    """The mean distance of successive points falls to a fraction of what it is in a random order."""
    points = torch.rand(5000, 3, generator=torch.Generator().manual_seed(2))
    before = points.diff(dim=0).norm(dim=1).mean()
    after = points[morton_order(points)].diff(dim=0).norm(dim=1).mean()
    assert after < 0.15 * before


def state_of(count: int) -> SplatState:
    """Splats with moments and a buffer, each row of which can be told from the others."""
    made = splats(count, torch.float32, spread=2.0)
    moments = {name: (made[name] + 1, made[name] ** 2) for name in PARAMETER_NAMES}
    return SplatState(made, moments, {"mark": torch.arange(float(count))})


def test_sorting_moves_whole_rows() -> None:
    """Parameters, both moments and buffers go to their new places together, and nothing is lost."""
    state, before = state_of(300), state_of(300)
    state.sort_by_place()
    order = state.buffers["mark"].long()
    assert not torch.equal(order, torch.arange(300)) and torch.equal(
        order, morton_order(before.params["means"])
    )
    for name in PARAMETER_NAMES:
        assert torch.equal(state.params[name], before.params[name][order])
        for one, other in zip(state.moments[name], before.moments[name], strict=True):
            assert torch.equal(one, other[order])
    sorted_once = state.params["means"].clone()
    state.sort_by_place()
    assert torch.equal(state.params["means"], sorted_once)
    SplatState.from_state_dict(state_of(0).state_dict()).sort_by_place()


def test_sorting_does_not_change_the_picture() -> None:
    """But for rounding: sums of the same splats."""
    state = state_of(200)
    pictures = []
    for _ in range(2):
        viewmat, intrinsics = camera("perspective", torch.float32)
        params = state.params
        screen = project(*(params[n] for n in PARAMETER_NAMES[:4]), viewmat, intrinsics, WIDTH, HEIGHT)
        colors = sh_colors(params["means"], params["sh"], viewmat, degree=3)
        image, _ = rasterize(
            screen.means2d, screen.conics, screen.opacities, colors, screen.depths, WIDTH, HEIGHT
        )
        pictures.append(image)
        state.sort_by_place()
    assert pictures[0].max() > 0.3
    torch.testing.assert_close(*pictures, rtol=0, atol=2e-6)


def test_the_strategy_sorts_every_so_many_changes() -> None:
    """At each second of its moments, whether or not splats came or went; with 0 never."""
    for interval, sorted_at in ((2, {20, 40}), (1, {10, 20, 30, 40}), (0, set())):
        settings = DensifySettings(start=10, interval=10, gradient=math.inf, sort_interval=interval)
        strategy = AdaptiveDensity(settings, around([], steps=100, max_splats=1000))
        found = set()
        for step in range(5, 50, 5):
            state = state_of(50)
            strategy.after_backward(step, state, torch.zeros(50, 2), torch.ones(50, 2), (WIDTH, HEIGHT))
            if strategy.after_step(step, state, torch.Generator()):
                found.add(step)
                assert torch.equal(state.buffers["mark"].long(), morton_order(state_of(50).params["means"]))
        assert found == sorted_at
