"""The kernels that blend in each pixel's own order, emulated: images and gradients against the reference's and the CPU's."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_check import relative_l2
from raster_scenes import INPUTS, Rendered, cast, conics_of, render, scene
from torch import Tensor

from splat_engine.ops._cuda import bands
from splat_engine.ops._cuda import rasterize as cuda
from splat_engine.ops.rasterize import RasterPass, rasterize
from tests.cuda.by_ray_scenario import many_at_once, with_slopes
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
emulation = pytest.mark.usefixtures("emulated")
TOLERANCES = {torch.float32: (1e-5, 1e-4), torch.float64: (1e-12, 1e-10)}
"""Of images (largest difference) and of gradients (relative L2)."""
APART = {torch.float32: 2e-6, torch.float64: 1e-13}
"""Two depths on a ray that are nearer to each other, as a part of the largest, may be in either order."""
SIZES = [(70, 45), (64, 64), (1, 1), (40, 1), (1, 33), (31, 34)]


def depths_on_rays(tensors: dict[str, Tensor], width: int, height: int) -> Tensor:
    """[H, W, N] sorted depths of the splats that draw something in a pixel, infinite ones behind them, in float64."""
    made = cast(tensors, torch.float64)
    x, y = torch.arange(width) + 0.5, torch.arange(height)[:, None] + 0.5
    dx = x[..., None] - made["means2d"][:, 0] + torch.zeros(height, 1, 1)
    dy = y[..., None] - made["means2d"][:, 1] + torch.zeros(1, width, 1)
    a, b, c = made["conics"].unbind(1)
    alphas = made["opacities"] * torch.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)
    depths = made["depths"] + made["depth_slopes"][:, 0] * dx + made["depth_slopes"][:, 1] * dy
    return torch.where(alphas >= 1 / 260, depths, math.inf).sort(dim=-1).values


def certain_pixels(tensors: dict[str, Tensor], width: int, height: int, dtype: torch.dtype) -> Tensor:
    """[H, W] where no two splats of a ray are so near to each other that rounding may swap them."""
    depths = depths_on_rays(tensors, width, height)
    gaps = depths.diff(dim=-1).nan_to_num(math.inf, math.inf)
    largest = torch.where(depths.isfinite(), depths.abs(), 1).amax(dim=-1, keepdim=True).clamp_min(1)
    return (gaps > APART[dtype] * largest).all(dim=-1)


def compare(
    tensors: dict[str, Tensor], width: int, height: int, dtype: torch.dtype, other: str = "reference"
) -> RasterPass:
    """Images and all gradients, absolute ones too, of the pixels whose order is certain; returns our pass.

    The reference computes in float64, whatever the kernels' type.
    """
    ours_in, theirs_in = cast(tensors, dtype), cast(cast(tensors, dtype), torch.float64)
    certain = certain_pixels(ours_in, width, height, dtype)
    assert certain.double().mean() > 0.9
    generator = torch.Generator().manual_seed(4)
    size, channels = (height, width), tensors["features"].shape[1]
    v_image = torch.randn(*size, channels, generator=generator, dtype=torch.float64) * certain[..., None]
    v_alpha = torch.randn(size, generator=generator, dtype=torch.float64) * certain
    ours = RasterPass(**ours_in, width=width, height=height, backend="cuda")
    theirs = RasterPass(**theirs_in, width=width, height=height, backend=other)
    image_tolerance, gradient_tolerance = TOLERANCES[dtype]
    assert (ours.image - theirs.image)[certain].abs().max() <= image_tolerance
    assert (ours.alpha - theirs.alpha)[certain].abs().max() <= image_tolerance
    found = ours.backward(v_image.to(dtype), v_alpha.to(dtype), absolute=True)
    expected = theirs.backward(v_image, v_alpha, absolute=True)
    for number, (mine, stated) in enumerate(zip(found, expected, strict=True)):
        assert relative_l2(mine, stated) <= gradient_tolerance, f"gradient {number}"
    for number, (mine, plain) in enumerate(
        zip(found, ours.backward(v_image.to(dtype), v_alpha.to(dtype)), strict=False)
    ):
        assert relative_l2(plain, mine) <= gradient_tolerance / 100, (
            f"gradient {number} without absolute ones"
        )
    return ours


def scans_of(drawn: RasterPass) -> Tensor:
    assert isinstance(drawn._context, cuda.Saved) and drawn._context.rays is not None
    return drawn._context.rays.scans


@emulation
@both_types
@pytest.mark.parametrize("size", SIZES)
def test_equals_the_reference(size: tuple[int, int], dtype: torch.dtype) -> None:
    """Sizes that are and are not whole tiles; the order is another one than the centres'."""
    tensors = with_slopes(scene(150, *size, seed=1), 0.02)
    drawn = compare(tensors, *size, dtype)
    assert drawn.alpha.max() > 0.5
    del tensors["depth_slopes"]
    if max(size) > 60:
        by_centers, _ = rasterize(**tensors, width=size[0], height=size[1], backend="cuda")
        assert (drawn.image - by_centers).abs().max() > 0.05


@emulation
@pytest.mark.parametrize("size", SIZES)
def test_equals_the_cpu(size: tuple[int, int]) -> None:
    """In float64, where no two depths are nearer to each other than rounding."""
    compare(with_slopes(scene(150, *size, seed=2), 0.05), *size, torch.float64, "cpu")


@emulation
@both_types
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8])
def test_every_number_of_channels(channels: int, dtype: torch.dtype) -> None:
    """Kernels for 1, 3, 4, 7 and 8 serve what lies between, too; with absolute gradients and without."""
    compare(with_slopes(scene(60, 37, 29, channels, seed=2), 0.03), 37, 29, dtype)


def assert_close(ours: Rendered, theirs: Rendered, dtype: torch.dtype) -> None:
    assert (ours.image - theirs.image).abs().max() <= TOLERANCES[dtype][0]
    assert (ours.alpha - theirs.alpha).abs().max() <= TOLERANCES[dtype][0]
    for name in INPUTS:
        assert relative_l2(ours.gradients[name], theirs.gradients[name]) <= TOLERANCES[dtype][1], name


@emulation
@pytest.mark.parametrize("channels", [9, 11, 17])
def test_more_channels_go_in_groups(channels: int) -> None:
    """By autograd, with the gradient of the background."""
    tensors = with_slopes(scene(60, 21, 18, channels, seed=2), 0.03)
    assert_close(render(tensors, 21, 18, "cuda"), render(tensors, 21, 18, "reference"), torch.float64)


@every_order
@both_types
def test_every_order_of_threads_and_blocks(emulated: EmulatedLauncher, dtype: torch.dtype) -> None:
    """Several batches, tiles, patches and scans: the same in every order."""
    tensors = many_at_once(dtype)
    ours = render(tensors, 23, 19, "cuda")
    assert ours.alpha.max() < 1 - 1e-3  # rays reach the end
    assert_close(ours, render(tensors, 23, 19, "reference"), dtype)
    kernels = {entry.rpartition("_")[0] for entry in emulated.launches}
    assert kernels >= {
        "touched_patches",
        "rasterize_by_ray_fwd_c3",
        "ray_shares_c3",
        "rasterize_by_ray_bwd_c3",
    }
    assert not kernels & {"rasterize_fwd_c3", "rasterize_bwd_c3"}


@emulation
@both_types
def test_slopes_of_zero_give_the_order_of_the_centres(dtype: torch.dtype) -> None:
    """Bit for bit the picture of the kernels that have one order for all pixels; their gradients but for rounding."""
    tensors = cast(with_slopes(scene(400, 41, 35, seed=5), 0.0), dtype)
    tensors["depths"][::3] = tensors["depths"][1]  # many are equal: in the order of the splats
    ours = render(tensors, 41, 35, "cuda")
    del tensors["depth_slopes"]
    theirs = render(tensors, 41, 35, "cuda")
    assert torch.equal(ours.image, theirs.image) and torch.equal(ours.alpha, theirs.alpha)
    assert_close(ours, theirs, dtype)


@emulation
@both_types
@pytest.mark.parametrize("count", [20, 300])
def test_exact_duplicates_keep_the_order_of_the_splats(count: int, dtype: torch.dtype) -> None:
    """Every splat three times, in different colours, shuffled: equal on all rays, so the first is in front. In 300 there are
    more equal ones than room in a window."""
    places = 3 if count == 20 else 100
    made = cast(
        with_slopes(scene(places * 3, 24, 20, seed=8, sigma_px=(2.0, 9.0), opacity=(0.01, 0.2)), 0.02), dtype
    )
    copies = torch.arange(count) % places
    shuffled = (
        copies[torch.randperm(count, generator=torch.Generator().manual_seed(1))]
        if count == 20
        else copies * 0
    )
    tensors = {name: value if name == "background" else value[shuffled] for name, value in made.items()}
    tensors["features"] = torch.rand(
        count, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    ).to(dtype)
    ours = render(tensors, 24, 20, "cuda")
    assert ours.alpha.max() > 0.1
    assert_close(ours, render(cast(tensors, torch.float64), 24, 20, "reference"), dtype)


@emulation
@both_types
def test_equal_depths_go_by_the_centres_depths(dtype: torch.dtype) -> None:
    """Two planes that cross exactly in a row of pixels: there the splat with the nearer centre is in front, wherever it stands."""
    wide, zero = torch.full((4,), 1e4, dtype=dtype), torch.zeros(4, dtype=dtype)
    centers = torch.tensor([[8.5, 4.5], [8.5, 12.5], [8.5, 12.5], [8.5, 4.5]], dtype=dtype)
    tensors = {
        "means2d": centers,
        "conics": conics_of(wide, wide, zero),
        "opacities": torch.full((4,), 0.6, dtype=dtype),
        "features": torch.eye(4, dtype=dtype),
        # in row 8 all four are at depth 4
        "depths": torch.tensor([5.0, 3.0, 4.0, 2.0], dtype=dtype),
        "depth_slopes": torch.tensor([[0, -0.25], [0, -0.25], [0, 0], [0, 0.5]], dtype=dtype),
        "background": torch.zeros(4, dtype=dtype),
    }
    row = render(tensors, 17, 16, "cuda").image[8]
    for place, splat in enumerate((3, 1, 2, 0)):
        assert torch.allclose(row[:, splat], torch.full((17,), 0.6 * 0.4**place, dtype=dtype), atol=1e-4)
    assert_close(render(tensors, 17, 16, "cuda"), render(tensors, 17, 16, "reference"), dtype)


@emulation
@both_types
@pytest.mark.parametrize("steep", [1.0, 1e3, 1e12, 1e30])
def test_steep_slopes(steep: float, dtype: torch.dtype) -> None:
    """Planes almost along the rays, up to slopes whose depths no float holds: finite, and where they can be told apart in order."""
    tensors = with_slopes(scene(120, 33, 25, seed=3), steep)
    if steep < 1e12:
        compare(tensors, 33, 25, dtype)
    result = render(cast(tensors, dtype), 33, 25, "cuda")
    assert result.alpha.max() > 0.5
    assert all(torch.isfinite(value).all() for value in (result.image, *result.gradients.values()))


@emulation
@both_types
def test_more_splats_at_once_than_the_window_holds(dtype: torch.dtype) -> None:
    """Hundreds that all wait for each other: the list is gone through again, and the order is exact."""
    drawn = compare(many_at_once(torch.float64), 23, 19, dtype)
    scans = scans_of(drawn)
    assert scans.max() >= 4
    few = compare(with_slopes(scene(150, 40, 35, seed=1), 0.02), 40, 35, dtype)
    assert (scans_of(few) == 1).all()


@emulation
@both_types
@pytest.mark.parametrize("share", [0.0, 0.35])
def test_shares_that_do_not_fit_are_made_in_bands(
    monkeypatch: pytest.MonkeyPatch, emulated: EmulatedLauncher, share: float, dtype: torch.dtype
) -> None:
    """A tile at a time, or as many as fit: the same gradients."""
    tensors = cast(
        with_slopes(scene(400, 70, 20, seed=6, sigma_px=(1.0, 9.0), opacity=(0.01, 0.06)), 0.02), dtype
    )
    whole = render(tensors, 70, 20, "cuda")
    saved = cuda.forward(
        [tensors[n] for n in INPUTS[:4]], tensors["depths"], tensors["depth_slopes"], None, 70, 20
    )[2]
    assert saved is not None and saved.rays is not None
    limit_slots = int(share * saved.rays.counts.sum())
    entry = f"ray_shares_c3_{'f32' if dtype == torch.float32 else 'f64'}"
    assert emulated.launches[entry] == 1
    bytes_of_slot = 64 * tensors["means2d"].element_size()
    monkeypatch.setattr(bands, "_memory_bytes", lambda _: limit_slots * bytes_of_slot * bands.MEMORY_SHARE)
    in_bands = render(tensors, 70, 20, "cuda")
    number = emulated.launches[entry] - 1
    assert number == 10 if share == 0 else 3 <= number < 10
    assert torch.equal(in_bands.image, whole.image)
    assert_close(in_bands, whole, dtype)


@emulation
def test_behind_the_end_of_all_rays_nothing_is_kept() -> None:
    """Pairs that no ray of a patch comes by have no slot: of 400 opaque layers over a tile, those of the first bucket have."""
    wide, zero = torch.full((400,), 1e4), torch.zeros(400)
    inputs = [
        torch.full((400, 2), 8.0),
        conics_of(wide, wide, zero),
        torch.full((400,), 0.95),
        torch.rand(400, 3),
    ]
    slopes = 1e-4 * torch.randn(400, 2, generator=torch.Generator().manual_seed(1))
    _, _, saved = cuda.forward(inputs, torch.arange(400.0), slopes, None, 16, 16)
    assert saved is not None and saved.rays is not None
    assert saved.rays.counts[:32].tolist() == [8] * 32 and not saved.rays.counts[32:].any()
    assert (saved.rays.patches[:32] == 255).all() and not saved.rays.patches[32:].any()


KINDS = {
    "needles": {"sigma_px": (0.02, 200.0)},
    "subpixel": {"sigma_px": (0.01, 0.3), "opacity": (0.9, 1.0)},
    "huge": {"sigma_px": (100.0, 1e6), "opacity": (0.0, 0.3)},
    "opaque": {"opacity": (0.98, 1.0)},
    "faint": {"opacity": (0.0, 0.02)},
}


@emulation
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_splats(kind: str) -> None:
    """As the reference, in double: the floors of needles and of splats beyond all images hold up nothing too short."""
    tensors = with_slopes(scene(200, 41, 35, seed=5, **KINDS[kind]), 0.02)
    ours, theirs = render(tensors, 41, 35, "cuda"), render(tensors, 41, 35, "reference")
    assert theirs.alpha.max() > 0.01
    tolerance = 1e-6 if kind == "needles" else 1e-10  # the exponents' terms cancel, in the reference too
    assert (ours.image - theirs.image).abs().max() < tolerance
    for name in INPUTS:
        assert relative_l2(ours.gradients[name], theirs.gradients[name]) < 100 * tolerance, name


@emulation
@both_types
def test_slopes_that_are_not_finite_draw_nothing(dtype: torch.dtype) -> None:
    """Neither they nor their gradients; the others as if those were not there."""
    tensors = cast(with_slopes(scene(60, 30, 20, seed=7), 0.02), dtype)
    left = torch.arange(60) % 4 != 1
    tensors["depth_slopes"][~left, 1] = torch.tensor([math.nan, math.inf, -math.inf] * 5, dtype=dtype)
    ours = render(tensors, 30, 20, "cuda")
    without = render({n: v if n == "background" else v[left] for n, v in tensors.items()}, 30, 20, "cuda")
    assert torch.equal(ours.image, without.image)
    for name in INPUTS[:-1]:
        assert not ours.gradients[name][~left].any(), name


@emulation
@both_types
@pytest.mark.parametrize("count", [0, 4])
def test_nothing_in_sight_gives_the_background(count: int, dtype: torch.dtype) -> None:
    """N = 0, or no splat in the image: the background, alpha 0, zero gradients."""
    tensors = cast(with_slopes(scene(count, 19, 6), 0.1), dtype)
    tensors["means2d"] = tensors["means2d"] + 1e5
    result = render(tensors, 19, 6, "cuda")
    assert torch.equal(result.image, tensors["background"].expand(6, 19, 3)) and not result.alpha.any()
    assert all(not result.gradients[name].any() for name in INPUTS[:-1])
    assert result.gradients["background"].any()


@emulation
def test_alpha_alone_has_a_gradient() -> None:
    """Without a background, a loss on alpha only or on the image only gives the reference's gradients."""
    for which in (0, 1):
        gradients = []
        for backend in ("reference", "cuda"):
            tensors = with_slopes(scene(30, 20, 16, seed=9), 0.02)
            del tensors["background"]
            for name in INPUTS[:3]:
                tensors[name].requires_grad_()
            rasterize(**tensors, width=20, height=16, backend=backend)[which].square().sum().backward()
            gradients.append([tensors[name].grad for name in INPUTS[:3]])
        for theirs, ours in zip(*gradients, strict=True):
            assert theirs.any() and relative_l2(ours, theirs) < 1e-10


@emulation
def test_without_gradients_nothing_is_saved() -> None:
    """A drawing alone gives the same picture, and keeps nothing."""
    tensors = with_slopes(scene(80, 30, 20, seed=4), 0.02)
    inputs = [tensors[name] for name in INPUTS[:4]]
    place = (tensors["depths"], tensors["depth_slopes"], None, 30, 20)
    image, alpha, saved = cuda.forward(inputs, *place, save=False)
    with_saved = cuda.forward(inputs, *place)
    assert saved is None and torch.equal(image, with_saved[0]) and torch.equal(alpha, with_saved[1])
