"""The counters behind the benchmark: against a count in numpy, against the forward's own, and the multiply-add loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from splat_engine import native
from splat_engine.formats.errors import UserError
from splat_engine.native import build, measure
from splat_engine.native.measure import RasterCounts, peak_flops, raster_counts
from splat_engine.native.rasterize import Rasterization
from tests.native.raster_run import HEIGHT, WIDTH, scene

BLOCK_SHAPES = {16: (4, 4), 8: (4, 2), 4: (2, 2), 2: (2, 1)}
"""Lanes to width and height of a block, px (TileShape in csrc/cpu/rasterize.h); 8 x 8 of them are a tile."""
BATCH_FULL = 64
"""A batch takes no pair beyond this many blocks (CAPACITY - TILE_BLOCKS in Batch, csrc/cpu/rasterize.h)."""
SCALARS = {np.float32: "f32", np.float64: "f64"}


class Discs(NamedTuple):
    """Round splats, from front to back, on a small image."""

    centers: np.ndarray
    sigmas_px: np.ndarray
    opacities: np.ndarray
    width: int
    height: int

    @property
    def reaches_px(self) -> np.ndarray:
        """[N] where alpha falls to 1/255."""
        return self.sigmas_px * np.sqrt(2 * np.log(255 * self.opacities))


FAINT = Discs(
    np.array([[20.2, 17.3], [61.7, 40.1], [5.9, 50.8], [-3.1, 8.4]]),
    np.array([2.7, 6.3, 0.8, 4.1]),
    np.array([0.31, 0.12, 0.23, 0.4]),
    width=71,
    height=53,
)
"""No ray ends; one splat lies across tiles, one across the border, one within few pixels."""
OPAQUE = Discs(
    np.tile([[9.3, 7.4]], (12, 1)) + np.arange(12)[:, None] * [0.21, 0.13],
    np.full(12, 40.0) + np.arange(12),
    np.full(12, 0.97),
    width=19,
    height=14,
)
"""All rays end before the last splat."""


def rasterized(discs: Discs, dtype: type[np.floating]) -> Rasterization:
    """The discs through the forward."""
    inverse = discs.sigmas_px**-2.0
    arrays = {
        "means2d": discs.centers,
        "conics": np.stack([inverse, 0 * inverse, inverse], axis=1),
        "opacities": discs.opacities,
        "features": np.ones((len(inverse), 3)),
        "depths": np.arange(1.0, len(inverse) + 1),
    }
    typed = {name: array.astype(dtype) for name, array in arrays.items()}
    return Rasterization(**typed, width=discs.width, height=discs.height)


def touched_blocks(discs: Discs, splat: int, lanes: int) -> np.ndarray:
    """[rows, columns] bool: blocks of the whole tiles whose pixel centres' rectangle meets the disc."""
    width, height = BLOCK_SHAPES[lanes]
    columns, rows = -(-discs.width // (8 * width)) * 8, -(-discs.height // (8 * height)) * 8
    left, top = np.arange(columns) * width + 0.5, np.arange(rows)[:, None] * height + 0.5
    x, y = discs.centers[splat]
    dx = np.maximum(np.maximum(left - x, x - (left + width - 1)), 0)
    dy = np.maximum(np.maximum(top - y, y - (top + height - 1)), 0)
    distances = np.hypot(dx, dy)
    reach = discs.reaches_px[splat]
    assert np.abs(distances - reach).min() > 2e-3, "too near a decision for the forward's margin"
    inside = np.arange(columns) * width < discs.width
    return (distances < reach) & inside


def going_blocks(ended: np.ndarray, lanes: int, like: np.ndarray) -> np.ndarray:
    """[rows, columns] bool: blocks in which a ray goes on."""
    width, height = BLOCK_SHAPES[lanes]
    going = np.zeros_like(like)
    rows, columns = np.nonzero(~ended)
    going[rows // height, columns // width] = True
    return going


def blended_pixels(discs: Discs) -> tuple[int, list[np.ndarray]]:
    """Pixels that the splats are blended in, by the definition in DESIGN.md, and which rays have ended before each splat."""
    x, y = np.arange(discs.width) + 0.5, np.arange(discs.height)[:, None] + 0.5
    light, total = np.ones((discs.height, discs.width)), 0
    ended = [np.zeros((discs.height, discs.width), dtype=bool)]
    for splat, (center_x, center_y) in enumerate(discs.centers):
        squares = ((x - center_x) ** 2 + (y - center_y) ** 2) / 2
        raw = discs.opacities[splat] * np.exp(-squares / discs.sigmas_px[splat] ** 2)
        alpha = np.where(raw >= 1 / 255, np.minimum(raw, 0.99), 0)
        ended.append(ended[-1] | (light * (1 - alpha) <= 1e-4))
        total += int((~ended[-1] & (alpha > 0)).sum())
        light = np.where(ended[-1], light, light * (1 - alpha))
    return total, ended


def counted(discs: Discs, lanes: int) -> dict[str, int]:
    """The same counts as the op's: pairs come in batches, each with the blocks that are touched and alive at its start."""
    blended, ended = blended_pixels(discs)
    touched = [touched_blocks(discs, splat, lanes) for splat in range(len(discs.centers))]
    going = [going_blocks(rays, lanes, touched[0]) for rays in ended]
    totals = {"pairs": 0, "visited_pairs": 0, "blocks": 0, "blended": blended}
    for row, column in np.ndindex(*(size // 8 for size in touched[0].shape)):
        tile = np.s_[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        pairs = [splat for splat, blocks in enumerate(touched) if blocks[tile].any()]
        totals["pairs"] += len(pairs)
        alive, entries = going[0][tile], 0
        for splat in pairs:
            if entries > BATCH_FULL:
                alive, entries = going[splat][tile], 0
            if not alive.any():
                break
            here = int((touched[splat][tile] & alive).sum())
            entries += here
            totals["visited_pairs"] += 1
            totals["blocks"] += here
    return totals


@pytest.mark.parametrize("dtype", SCALARS)
@pytest.mark.parametrize("discs", [FAINT, OPAQUE], ids=["faint", "opaque"])
def test_counts_are_those_of_numpy(discs: Discs, dtype: type[np.floating]) -> None:
    """Pairs, blocks and blended pixels of a scene made by hand are exactly those of a count over whole arrays."""
    result = rasterized(discs, dtype)
    counts = raster_counts(result.context_handle, SCALARS[dtype])
    expected = counted(discs, counts.lanes)
    assert {name: getattr(counts, name) for name in expected} == expected
    assert 0 < counts.blended < counts.evaluated
    assert (counts.visited_pairs < counts.pairs) == (discs is OPAQUE)


@pytest.mark.parametrize("dtype", SCALARS)
def test_the_replay_does_the_forwards_work(dtype: type[np.floating]) -> None:
    """Blocks and pairs of the replay add up to what the forward counted, on a scene with splats of all shapes."""
    result = Rasterization(**scene(dtype), width=WIDTH, height=HEIGHT)
    counts = raster_counts(result.context_handle, SCALARS[dtype])
    assert counts.visited_pairs + counts.blocks == counts.work > 1000
    assert counts.bin_ns > 0 and counts.blend_ns > 0


def test_without_a_replay() -> None:
    """What stands in the context is the same; what only the replay knows is 0."""
    result = rasterized(FAINT, np.float32)
    full, short = raster_counts(result.context_handle), raster_counts(result.context_handle, replay=False)
    assert full.visited_pairs and full.blocks and full.blended
    assert short == full._replace(visited_pairs=0, blocks=0, blended=0)


def test_counts_do_not_depend_on_the_threads() -> None:
    """The same counts, however the tiles are shared out."""
    before = native.get_num_threads()
    found = set()
    result = Rasterization(**scene(np.float32), width=WIDTH, height=HEIGHT)
    try:
        for threads in (1, 3):
            native.set_num_threads(threads)
            found.add(raster_counts(result.context_handle))
    finally:
        native.set_num_threads(before)
    assert len(found) == 1


def test_no_splats() -> None:
    """N = 0: no pairs, no blocks."""
    arguments = {
        name: array if name == "background" else array[:0] for name, array in scene(np.float32).items()
    }
    result = Rasterization(**arguments, width=5, height=3)  # owns the context that is counted
    counts = raster_counts(result.context_handle)
    assert (counts.pairs, counts.work, counts.visited_pairs, counts.blocks, counts.blended) == (0,) * 5


def test_what_is_refused() -> None:
    """No context, or one of the other type."""
    with pytest.raises(UserError, match="context is null"):
        raster_counts(None)
    result = rasterized(FAINT, np.float64)
    with pytest.raises(UserError, match="another type"):
        raster_counts(result.context_handle, "f32")
    with pytest.raises(UserError, match="0 rounds or more, got -1"):
        measure._multiply_adds("f32", -1)


def test_the_fields_are_the_librarys() -> None:
    """As many counts as the op writes."""
    text = (build.source_root() / "cpu" / "abi.h").read_text(encoding="utf-8")
    listed = text.partition("enum RasterCount ")[2].partition("RASTER_COUNTS")[0]
    names = [line.split(",")[0].strip().removeprefix("COUNT_").lower() for line in listed.splitlines()[1:-1]]
    assert tuple(names) == RasterCounts._fields


@pytest.mark.parametrize("scalar", ["f32", "f64"])
def test_multiply_adds(scalar: str) -> None:
    """Operations grow with rounds and threads; the numbers go to their fixed point, so the loop has run."""
    before = native.get_num_threads()
    try:
        native.set_num_threads(1)
        nothing, start = measure._multiply_adds(scalar, 0)
        operations, _ = measure._multiply_adds(scalar, 10)
        native.set_num_threads(2)
        twice, end = measure._multiply_adds(scalar, 200)
    finally:
        native.set_num_threads(before)
    assert nothing == 0 and twice == 40 * operations > 0
    numbers = operations // 20
    assert start == pytest.approx(numbers * 13 / 2 * 0.25)  # each twelfth of them is 0.25 k, k = 1 to 12
    assert end == pytest.approx(numbers)
    assert peak_flops(scalar, seconds=1e-4, tries=1) > 0
