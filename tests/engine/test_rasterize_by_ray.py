"""The op ``rasterize`` with slopes of the depth: each pixel blends in its own order, as Cycles does."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_check import relative_l2, weighted_sum, worst_relative_errors
from raster_scenes import INPUTS, Rendered, cast, conics_of, margin, render, scene
from splat_scenes import threads
from torch import Tensor

from splat_engine.ops.rasterize import RasterPass, rasterize

SIZES = [(70, 45), (64, 64), (1, 1), (40, 1), (1, 33), (31, 34), (33, 7)]


def sloped_scene(
    count: int, width: int, height: int, channels: int = 3, *, slope: float = 0.05, **kinds: object
) -> dict[str, Tensor]:
    """Random splats whose depths, 1 to 2 in the middle, grow by up to ``slope`` a pixel along either axis."""
    tensors = scene(count, width, height, channels, **kinds)
    generator = torch.Generator().manual_seed(7)
    tensors["depth_slopes"] = slope * (2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1)
    return tensors


def assert_close(ours: Rendered, theirs: Rendered, image_tolerance: float, gradient_tolerance: float) -> None:
    assert (ours.image - theirs.image).abs().max() <= image_tolerance
    assert (ours.alpha - theirs.alpha).abs().max() <= image_tolerance
    for name in INPUTS:
        error = relative_l2(ours.gradients[name], theirs.gradients[name])
        assert error <= gradient_tolerance, f"{name}: relative L2 {error:.1e}"


def least_gap(tensors: dict[str, Tensor], width: int, height: int) -> float:
    """The least difference of two splats' depths in any pixel, scene units: beyond rounding, or orders may differ."""
    pixel_x = torch.arange(width, dtype=torch.float64) + 0.5
    pixel_y = (torch.arange(height, dtype=torch.float64) + 0.5)[:, None]
    (mean_x, mean_y), (slope_x, slope_y) = tensors["means2d"].T, tensors["depth_slopes"].T
    along_x = slope_x[:, None, None] * (pixel_x - mean_x[:, None, None])
    along_y = slope_y[:, None, None] * (pixel_y - mean_y[:, None, None])
    depths = (tensors["depths"][:, None, None] + along_x + along_y).sort(dim=0).values
    return float(depths.diff(dim=0).min())


@pytest.mark.parametrize("slope", [0.02, 0.5, 100.0])
@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_the_reference_in_double(size: tuple[int, int], slope: float) -> None:
    """Images to 1e-12 and gradients to 1e-10, where orders hardly and where they wholly differ between pixels."""
    tensors = sloped_scene(100, *size, seed=1, slope=slope)
    assert_close(render(tensors, *size), render(tensors, *size, backend="reference"), 1e-12, 1e-10)


def test_pixels_differ_in_their_order() -> None:
    """The scenes of these tests are not those of one order for all."""
    tensors = sloped_scene(150, 70, 45, seed=1)
    centres = {name: tensor for name, tensor in tensors.items() if name != "depth_slopes"}
    difference = (render(tensors, 70, 45).image - render(centres, 70, 45).image).abs().amax(dim=2)
    assert (difference > 0.01).double().mean() > 0.5


@pytest.mark.parametrize("size", [(40, 36), (33, 7)])
def test_agrees_with_the_reference_in_float(size: tuple[int, int]) -> None:
    """Float32 kernels are within 1e-5 (image) and 1e-4 (gradients) of the float64 reference where no order is a tie."""
    tensors = cast(sloped_scene(25, *size, seed=1), torch.float32)
    double = cast(tensors, torch.float64)
    assert least_gap(double, *size) > 1e-6
    ours = render(tensors, *size)
    as_double = Rendered(ours.image.double(), ours.alpha.double(), cast(ours.gradients, torch.float64))
    assert_close(as_double, render(double, *size, backend="reference"), 1e-5, 1e-4)


@pytest.mark.parametrize("channels", [1, 2, 4, 7, 8, 11])
def test_every_number_of_channels(channels: int) -> None:
    """C = 1 to 8 in one call, more in groups."""
    tensors = sloped_scene(60, 37, 29, channels, seed=2)
    assert_close(render(tensors, 37, 29), render(tensors, 37, 29, backend="reference"), 1e-12, 1e-10)


def smooth_scene() -> dict[str, Tensor]:
    """Six wide splats on 7x5 pixels, none near the skip, the clamp, the stop or another one's depth."""
    tensors = sloped_scene(6, 7, 5, 3, seed=3, slope=0.05, sigma_px=(3.0, 6.0), opacity=(0.3, 0.6))
    tensors["means2d"] = tensors["means2d"] * 0.5 + torch.tensor([1.75, 1.25], dtype=torch.float64)
    return tensors


def test_gradients_equal_differences() -> None:
    """Each entry of each gradient is within 1e-6 of central differences; orders differ between the pixels."""
    tensors = smooth_scene()
    assert least_gap(tensors, 7, 5) > 1e-4
    order = {name: tensors.pop(name) for name in ("depths", "depth_slopes")}
    assert margin(tensors | {"depths": order["depths"]}, 7, 5).min() > 1e-2

    def loss(**inputs: Tensor) -> Tensor:
        return weighted_sum(rasterize(**inputs, **order, width=7, height=5))

    errors = worst_relative_errors(loss, tensors)
    assert max(errors.values()) < 1e-6, errors


def test_gradcheck_of_all_inputs() -> None:
    """torch.autograd.gradcheck in float64."""
    tensors = smooth_scene()
    order = {name: tensors.pop(name) for name in ("depths", "depth_slopes")}

    def op(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        return rasterize(**dict(zip(tensors, inputs, strict=True)), **order, width=7, height=5)

    inputs = tuple(tensor.requires_grad_() for tensor in tensors.values())
    assert torch.autograd.gradcheck(op, inputs, eps=1e-6, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_slopes_it_is_the_order_of_the_centres(dtype: torch.dtype) -> None:
    """Slopes of 0 give the image and the gradients of the order of the centres, up to the order of sums."""
    tensors = cast(sloped_scene(300, 70, 45, seed=4, slope=0.0), dtype)
    by_ray = render(tensors, 70, 45)
    tensors.pop("depth_slopes")
    assert_close(by_ray, render(tensors, 70, 45), 1e-6, 1e-5)


@pytest.mark.parametrize("count", [65_530, 65_600])
def test_more_splats_in_a_block_than_half_numbers_count(count: int) -> None:
    """All wait for the last one, which is the first in a pixel; what lies behind where the rays end changes nothing."""
    tensors = sloped_scene(count, 4, 1, seed=5, slope=0.0, sigma_px=(3.0, 6.0), opacity=(0.1, 0.2))
    tensors["depths"][-1] = 10.0
    tensors["means2d"][-1] = torch.tensor([2.0, 0.5])
    tensors["depth_slopes"][-1, 0] = 1e3
    nearest = torch.cat((tensors["depths"].argsort()[:500], torch.tensor([count - 1])))
    few = {name: value if name == "background" else value[nearest] for name, value in tensors.items()}
    ours, theirs = render(tensors, 4, 1), render(few, 4, 1, backend="reference")
    assert ours.gradients["features"].count_nonzero() == theirs.gradients["features"].count_nonzero()
    assert ours.gradients["features"][-1].abs().max() > 1e-3
    of_few = {n: value if n == "background" else value[nearest] for n, value in ours.gradients.items()}
    assert_close(ours._replace(gradients=of_few), theirs, 1e-12, 1e-10)


def crossing(dtype: torch.dtype) -> dict[str, Tensor]:
    """A red and a green splat whose depths cross in the middle of 40x8 pixels: red is the nearer one on the left."""
    return cast(
        {
            "means2d": torch.tensor([[20.0, 4.0], [20.0, 4.0]]),
            "conics": conics_of(torch.full((2,), 60.0), torch.full((2,), 60.0), torch.zeros(2)),
            "opacities": torch.tensor([0.98, 0.98]),
            "features": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
            "depths": torch.tensor([5.0, 5.0]),
            "depth_slopes": torch.tensor([[0.1, 0.0], [-0.1, 0.0]]),
        },
        dtype,
    )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_splats_that_cross_change_places_where_they_cross(backend: str, dtype: torch.dtype) -> None:
    """Left of the crossing one is in front, right of it the other, from one pixel to the next."""
    image, _ = rasterize(**crossing(dtype), width=40, height=8, backend=backend)
    red, green = image.unbind(dim=2)
    assert (red[:, :20] > 0.9).all() and (green[:, :20] < 0.1).all()
    assert (red[:, 20:] < 0.1).all() and (green[:, 20:] > 0.9).all()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_depths_keep_the_order_of_the_splats(backend: str, dtype: torch.dtype) -> None:
    """Of splats in the same place with the same slopes the first one is in front."""
    tensors = crossing(dtype)
    tensors["depth_slopes"] = tensors["depth_slopes"][:1].expand(2, 2)
    image, _ = rasterize(**tensors, width=40, height=8, backend=backend)
    assert (image[..., 0] > 0.9).all() and (image[..., 1] < 0.1).all()


def test_many_splats_in_one_place() -> None:
    """More candidates in a block than any run or batch of the kernels holds, in wholly mixed orders."""
    tensors = sloped_scene(1500, 9, 9, seed=5, slope=0.5, opacity=(0.0, 0.02), sigma_px=(1.0, 30.0))
    assert_close(render(tensors, 9, 9), render(tensors, 9, 9, backend="reference"), 1e-12, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_slopes_beyond_all_sense_are_drawn(dtype: torch.dtype) -> None:
    """Depths whose sums overflow, or are no number at all, have some place in the order: no crash, whole pictures."""
    tensors = cast(sloped_scene(700, 40, 33, seed=11), dtype)
    generator = torch.Generator().manual_seed(3)
    tensors["depth_slopes"] = (
        torch.randn(700, 2, generator=generator, dtype=dtype) * torch.finfo(dtype).max / 8
    )
    drawn = render(tensors, 40, 33)
    assert drawn.image.isfinite().all() and drawn.alpha.min() >= 0 and drawn.alpha.max() <= 1
    assert all(gradient.isfinite().all() for gradient in drawn.gradients.values())


def test_passes_in_flight_keep_their_own_rows() -> None:
    """Two forwards and a picture without gradients, then the backwards in the other order: as one after the other."""
    names = ("means2d", "conics", "opacities", "features", "depths")
    scenes = [sloped_scene(count, 45, 38, seed=count) for count in (90, 300)]
    v_image = torch.randn(38, 45, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def forward(tensors: dict[str, Tensor]) -> RasterPass:
        return RasterPass(*(tensors[name] for name in names), 45, 38, depth_slopes=tensors["depth_slopes"])

    alone = [forward(tensors).backward(v_image, None) for tensors in scenes]
    first, second = (forward(tensors) for tensors in scenes)
    rasterize(**sloped_scene(500, 45, 38, seed=4), width=45, height=38)
    late = [second.backward(v_image, None), first.backward(v_image, None)][::-1]
    for one, other in zip(alone, late, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_opaque_splats_end_rays_in_their_own_order() -> None:
    """Rays end at different splats in neighbouring pixels; what lies behind has no gradient from them."""
    tensors = sloped_scene(400, 41, 35, seed=6, slope=0.2, opacity=(0.9, 1.0))
    ours, theirs = render(tensors, 41, 35), render(tensors, 41, 35, backend="reference")
    assert (theirs.alpha > 1 - 2e-3).double().mean() > 0.5
    assert_close(ours, theirs, 1e-12, 1e-10)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_slopes_that_are_not_finite_drop_the_splat(backend: str, bad: float) -> None:
    """Such a splat is not drawn and has zero gradients."""
    tensors = crossing(torch.float64)
    tensors["depth_slopes"] = torch.tensor([[bad, 0.0], [0.0, 0.0]], dtype=torch.float64)
    tensors["background"] = torch.zeros(2, dtype=torch.float64)
    drawn = render(tensors, 40, 8, backend)
    assert (drawn.image[..., 0] == 0).all() and (drawn.image[..., 1] > 0.9).all()
    assert all((drawn.gradients[name][0] == 0).all() for name in INPUTS if name != "background")


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_no_splats_give_the_background(backend: str) -> None:
    """N = 0."""
    nothing = {name: tensor[:0] for name, tensor in crossing(torch.float32).items()}
    background = torch.tensor([0.25, 0.5])
    image, alpha = rasterize(**nothing, width=5, height=4, background=background, backend=backend)
    assert (image == background).all() and (alpha == 0).all()


def test_absolute_gradients_agree_with_the_reference() -> None:
    """The sums over pixels of |dL/dmeans2d| are the reference's."""
    tensors = sloped_scene(80, 37, 29, seed=8)
    names = ("means2d", "conics", "opacities", "features", "depths")
    v_image = torch.randn(29, 37, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = (
        RasterPass(
            *(tensors[name] for name in names), 37, 29, depth_slopes=tensors["depth_slopes"], backend=backend
        ).backward(v_image, None, absolute=True)
        for backend in ("cpu", "reference")
    )
    assert len(ours) == len(theirs) == 5
    for one, other in zip(ours, theirs, strict=True):
        assert relative_l2(one, other) < 1e-10


def test_threads_do_not_change_the_image() -> None:
    """One thread or two: the same bits forward; gradients up to the order of sums."""
    tensors = cast(sloped_scene(500, 70, 45, seed=9), torch.float32)
    drawn = []
    for count in (1, 2):
        with threads(count):
            drawn.append(render(tensors, 70, 45))
    assert torch.equal(drawn[0].image, drawn[1].image)
    assert_close(drawn[0], drawn[1], 0.0, 1e-5)


def test_the_same_bits_each_time() -> None:
    """Two runs with as many threads are equal, gradients too."""
    tensors = cast(sloped_scene(500, 70, 45, seed=9), torch.float32)
    one, other = render(tensors, 70, 45), render(tensors, 70, 45)
    assert torch.equal(one.image, other.image)
    assert all(torch.equal(one.gradients[name], other.gradients[name]) for name in INPUTS)
