"""The lists of the tiles (csrc/cuda/tiles.cu), emulated: against every tile and splat looked at one by one."""

from __future__ import annotations

import pytest
import torch
from raster_scenes import cast, conics_of, scene
from torch import Tensor

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import tiles as cuda
from splat_engine.ops.reference.rasterize import ALPHA_MIN, drawable
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
Pairs = set[tuple[int, int]]


def lists_of(tensors: dict[str, Tensor], width: int, height: int) -> cuda.TileLists:
    inputs = [tensors[name] for name in ("means2d", "conics", "opacities", "features")]
    return cuda.tile_lists(inputs, tensors["depths"], width, height)


def pairs_of(lists: cuda.TileLists) -> Pairs:
    """(splat, tile) of all entries; fails where the lists do not follow one another from 0 to P."""
    starts = lists.tile_starts
    assert starts[0] == 0 and starts[-1] == len(lists.pairs)
    lengths = starts.diff()
    assert (lengths >= 0).all()
    tiles = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    pairs = set(zip(lists.pairs.tolist(), tiles.tolist(), strict=True))
    assert len(pairs) == len(lists.pairs), "a splat stands twice in a tile's list"
    return pairs


def touched(tensors: dict[str, Tensor], width: int, height: int, slack: float, whole: bool) -> Pairs:
    """(splat, tile) where the ellipse, larger by `slack` (in d^T conic d), reaches a tile's rectangle of pixel centres: of
    those in the image, or of whole tiles.

    d^T conic d is least in the mean if the rectangle holds it, else on one of the four sides: each is looked at.
    """
    across, down = -(-width // cuda.TILE), -(-height // cuda.TILE)
    left = (torch.arange(across * down) % across * cuda.TILE + 0.5).double()
    top = (torch.arange(across * down) // across * cuda.TILE + 0.5).double()
    means, conics = tensors["means2d"].double(), tensors["conics"].double()
    a, b, c = (conic[:, None] for conic in conics.unbind(-1))
    x0, y0 = left - means[:, :1], top - means[:, 1:]
    x1, y1 = x0 + cuda.TILE - 1, y0 + cuda.TILE - 1
    if not whole:
        x1 = torch.minimum(x1, width - 0.5 - means[:, :1])
        y1 = torch.minimum(y1, height - 0.5 - means[:, 1:])
    inside = (x0 <= 0) & (x1 >= 0) & (y0 <= 0) & (y1 >= 0)
    least = torch.where(inside, torch.zeros_like(x0), torch.full_like(x0, torch.inf))
    for x in (x0, x1):
        y = torch.minimum(torch.maximum(-b / c * x, y0), y1)
        least = torch.minimum(least, a * x * x + 2 * b * x * y + c * y * y)
    for y in (y0, y1):
        x = torch.minimum(torch.maximum(-b / a * y, x0), x1)
        least = torch.minimum(least, a * x * x + 2 * b * x * y + c * y * y)
    names = ("means2d", "conics", "opacities", "features", "depths")
    kept = drawable(*(tensors[name] for name in names))
    reach = 2 * torch.log(tensors["opacities"].double().clamp_min(1e-30) / ALPHA_MIN)[:, None] + slack
    return {(splat, tile) for splat, tile in (kept[:, None] & (least <= reach)).nonzero().tolist()}


SCENES = {
    "all": {"sigma_px": (0.05, 1e3)},
    "needles": {"sigma_px": (0.1, 100.0)},
    "subpixel": {"sigma_px": (0.01, 0.3)},
    "huge": {"sigma_px": (100.0, 1e6)},
}


@both_types
@pytest.mark.parametrize("kind", SCENES)
@pytest.mark.parametrize("size", [(97, 75), (1, 1), (16, 16), (200, 9)])
@pytest.mark.usefixtures("emulated")
def test_lists_hold_what_the_ellipses_touch(size: tuple[int, int], kind: str, dtype: torch.dtype) -> None:
    """Every pair whose ellipse reaches the tile is there, and none that misses it by more than rounding."""
    tensors = cast(scene(200, *size, seed=3, **SCENES[kind]), dtype)
    found = pairs_of(lists_of(tensors, *size))
    assert found >= touched(tensors, *size, slack=-1e-6, whole=False)
    assert found <= touched(tensors, *size, slack=1e-2, whole=True)
    assert found


@every_order
@both_types
def test_lists_are_in_depth_order(emulated: EmulatedLauncher, dtype: torch.dtype) -> None:
    """From front to back, equal depths in the order of the splats; splats of one tile and of hundreds side by side."""
    tensors = cast(scene(300, 330, 250, seed=4, sigma_px=(0.3, 300.0)), dtype)
    tensors["depths"] = (tensors["depths"] * 20).round()
    lists = lists_of(tensors, 330, 250)
    assert pairs_of(lists) >= touched(tensors, 330, 250, slack=-1e-6, whole=False)
    counts = torch.bincount(lists.pairs.long(), minlength=300)
    assert (counts > 32).any() and (counts == 1).any()
    for first, end in zip(lists.tile_starts[:-1].tolist(), lists.tile_starts[1:].tolist(), strict=True):
        entries = lists.pairs[first:end].tolist()
        keys = [(tensors["depths"][splat].item(), splat) for splat in entries]
        assert keys == sorted(keys)
    assert emulated.launches.total() == 3


@both_types
@pytest.mark.usefixtures("emulated")
def test_more_tiles_than_keys_of_16_bits_can_tell(dtype: torch.dtype) -> None:
    """66 049 tiles: splats in the first, the last and around number 65 536 are found in theirs."""
    side = 257
    places = torch.tensor([0, 65_535, 65_536, side * side - 1])
    sigma = torch.full((4,), 1.0, dtype=torch.float64)
    tensors = {
        "means2d": torch.stack([places % side, places // side], dim=1) * 16 + 8.5,
        "conics": conics_of(sigma, sigma, sigma),
        "opacities": sigma,
        "features": sigma[:, None],
        "depths": sigma,
    }
    lists = lists_of(cast(tensors, dtype), side * 16, side * 16)
    assert len(lists.tile_starts) == side * side + 1 > cuda.SHORT_KEYS
    assert pairs_of(lists) == set(enumerate(places.tolist()))


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(
    "change",
    [
        {"means2d": float("nan")},
        {"conics": float("inf")},
        {"opacities": float("nan")},
        {"features": float("inf")},
        {"depths": float("-inf")},
        {"opacities": 0.0039},
        {"conics": -1.0},
        {"means2d": 1e30},
    ],
)
def test_what_cannot_draw_is_in_no_list(change: dict[str, float]) -> None:
    """Not finite, too faint, not positive definite, outside: no pairs, and those of the others stay."""
    tensors = cast(scene(20, 40, 30, seed=5, opacity=(0.5, 1.0)), torch.float32)
    whole = pairs_of(lists_of(tensors, 40, 30))
    ((name, value),) = change.items()
    tensors[name] = tensors[name].clone()
    tensors[name][7] = value
    assert any(splat == 7 for splat, _ in whole)
    assert pairs_of(lists_of(tensors, 40, 30)) == {pair for pair in whole if pair[0] != 7}


@both_types
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("count", [0, 5])
def test_nothing_to_draw(count: int, dtype: torch.dtype) -> None:
    """No splats, or none that is in sight: empty lists for all tiles."""
    tensors = cast(scene(count, 40, 30), dtype)
    tensors["means2d"] = tensors["means2d"] - 1e4
    lists = lists_of(tensors, 40, 30)
    assert lists.tile_starts.tolist() == [0] * 7 and len(lists.pairs) == 0


@pytest.mark.usefixtures("emulated")
def test_an_image_that_is_too_large_is_refused() -> None:
    """In words, before anything is computed."""
    with pytest.raises(UserError, match="too large: 262145 x 1 px"):
        lists_of(cast(scene(1, 8, 8), torch.float32), (1 << 18) + 1, 1)
