"""The raster kernels, emulated: images and gradients against the CPU's and the reference's."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_check import relative_l2, weighted_sum, worst_relative_errors
from raster_scenes import INPUTS, Rendered, cast, conics_of, margin, render, scene
from torch import Tensor

from splat_engine.ops._cuda import bands, tiles
from splat_engine.ops._cuda import rasterize as cuda
from splat_engine.ops.rasterize import RasterPass, rasterize
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
emulation = pytest.mark.usefixtures("emulated")
SIZES = [(70, 45), (64, 64), (1, 1), (40, 1), (1, 33), (31, 34), (33, 7)]
"""Width and height: multiples of tiles, just below, just above, single pixels and rows."""
TOLERANCES = {torch.float32: (1e-5, 1e-4), torch.float64: (1e-12, 1e-10)}
"""Of images (largest difference) and of gradients (relative L2)."""


def assert_close(ours: Rendered, theirs: Rendered, dtype: torch.dtype) -> None:
    image_tolerance, gradient_tolerance = TOLERANCES[dtype]
    assert (ours.image - theirs.image).abs().max() <= image_tolerance
    assert (ours.alpha - theirs.alpha).abs().max() <= image_tolerance
    for name in INPUTS:
        error = relative_l2(ours.gradients[name], theirs.gradients[name])
        assert error <= gradient_tolerance, f"{name}: relative L2 {error:.1e}"


def in_double(rendered: Rendered) -> Rendered:
    gradients = cast(rendered.gradients, torch.float64)
    return Rendered(rendered.image.double(), rendered.alpha.double(), gradients)


@emulation
@both_types
@pytest.mark.parametrize("size", SIZES)
def test_equals_the_cpu_and_the_reference(size: tuple[int, int], dtype: torch.dtype) -> None:
    """Sizes that are and are not whole tiles; the reference in float64, whatever the kernels' type."""
    tensors = cast(scene(150, *size, seed=1), dtype)
    ours = in_double(render(tensors, *size, "cuda"))
    assert ours.alpha.max() > 0.5
    assert_close(ours, in_double(render(tensors, *size, "cpu")), dtype)
    assert_close(ours, render(cast(tensors, torch.float64), *size, "reference"), dtype)


@emulation
@both_types
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8, 11, 17])
def test_every_number_of_channels(channels: int, dtype: torch.dtype) -> None:
    """Kernels for 1, 3, 4, 7 and 8 serve what lies between, too; more go in groups."""
    tensors = cast(scene(60, 37, 29, channels, seed=2), dtype)
    ours = render(tensors, 37, 29, "cuda")
    assert ours.image.shape == (29, 37, channels)
    assert_close(ours, render(tensors, 37, 29, "cpu"), dtype)


def long_list(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """600 faint splats on 23x19 px: lists of several batches of 256, rays that go through all of them."""
    return cast(scene(600, 23, 19, seed=6, sigma_px=(1.0, 9.0), opacity=(0.01, 0.06)), dtype)


@every_order
@both_types
def test_every_order_of_threads_and_blocks(emulated: EmulatedLauncher, dtype: torch.dtype) -> None:
    """Several batches, buckets, tiles and patches: the same in every order."""
    tensors = long_list(dtype)
    ours = render(tensors, 23, 19, "cuda")
    assert ours.alpha.max() < 1 - 1e-3  # rays reach the end
    assert_close(ours, render(tensors, 23, 19, "cpu"), dtype)
    assert emulated.launches.total() == 6


def stack(layers: int, ends: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Layers that cover 16x16 px evenly, so that the splat number `ends`, from 0, is the first that is not blended."""
    wide = torch.full((layers,), 1e4, dtype=torch.float64)
    generator = torch.Generator().manual_seed(ends)
    alpha = 1 - 10 ** (-4 / (ends + 0.5))
    tensors = {
        "means2d": torch.full((layers, 2), 8.0, dtype=torch.float64),
        "conics": conics_of(wide, wide, wide),
        "opacities": torch.full((layers,), alpha, dtype=torch.float64),
        "features": torch.rand(layers, 3, generator=generator, dtype=torch.float64),
        "depths": torch.arange(layers, dtype=torch.float64),
        "background": torch.rand(3, generator=generator, dtype=torch.float64),
    }
    return cast(tensors, dtype)


@emulation
@both_types
@pytest.mark.parametrize("ends", [1, 16, 31, 32, 33, 63, 64, 100, 255, 256, 257])
def test_rays_end_anywhere_in_a_list(ends: int, dtype: torch.dtype) -> None:
    """On the border of a bucket or a batch, before it and behind: nothing behind the end is drawn or gets a gradient."""
    tensors = stack(300, ends, dtype)
    ours = render(tensors, 16, 16, "cuda")
    assert_close(ours, render(tensors, 16, 16, "cpu"), dtype)
    for name in INPUTS[:-1]:
        assert not ours.gradients[name][ends:].any(), name
    assert ours.gradients["features"][:ends].all()


@emulation
@both_types
@pytest.mark.parametrize("ends", [31, 32, 100])
def test_buckets_behind_the_end_are_not_entered(ends: int, dtype: torch.dtype) -> None:
    """Each patch enters the bucket that holds the last splat that it looks at, and no further one."""
    tensors = stack(300, ends, dtype)
    inputs = [tensors[name] for name in ("means2d", "conics", "opacities", "features")]
    _, _, saved = cuda.forward(inputs, tensors["depths"], None, None, 16, 16)
    assert saved is not None and saved.checkpoints is not None
    assert (saved.checkpoints.patch_buckets == ends // 32 + 1).all()
    assert saved.checkpoints.rays.shape == (300 // 32, 4, 256)


@emulation
@both_types
@pytest.mark.parametrize("limit_pairs", [0, 300, 700])
def test_checkpoints_that_do_not_fit_are_made_in_bands(
    monkeypatch: pytest.MonkeyPatch, limit_pairs: int, dtype: torch.dtype
) -> None:
    """A tile at a time, or as many as fit: the same gradients, never more checkpoints at once than allowed."""
    tensors = cast(scene(600, 70, 20, seed=6, sigma_px=(1.0, 9.0), opacity=(0.01, 0.06)), dtype)
    whole = render(tensors, 70, 20, "cuda")
    bytes_of_pair = 8 * 4 * tensors["means2d"].element_size()
    monkeypatch.setattr(bands, "_memory_bytes", lambda _: limit_pairs * bytes_of_pair * bands.MEMORY_SHARE)
    rooms = []
    make_room = cuda._room

    def spy(*arguments: object) -> cuda.Checkpoints:
        rooms.append(make_room(*arguments))  # type: ignore[arg-type]
        return rooms[-1]

    monkeypatch.setattr(cuda, "_room", spy)
    in_bands = render(tensors, 70, 20, "cuda")
    assert torch.equal(in_bands.image, whole.image)
    assert_close(in_bands, whole, dtype)
    assert len(rooms) > 1 and sum(room.tiles for room in rooms) == 10
    assert all(room.tiles == 1 or len(room.rays) * 32 <= limit_pairs for room in rooms)
    assert limit_pairs == 0 or any(room.tiles > 1 for room in rooms)


@emulation
@both_types
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 255, 256, 257])
def test_lists_of_any_length(count: int, dtype: torch.dtype) -> None:
    """A bucket or a batch less one, whole, and more one."""
    tensors = cast(scene(count, 16, 16, seed=7, sigma_px=(2.0, 9.0), opacity=(0.01, 0.05)), dtype)
    tensors["means2d"] = tensors["means2d"].clamp(1, 15)
    assert_close(render(tensors, 16, 16, "cuda"), render(tensors, 16, 16, "cpu"), dtype)


@emulation
@both_types
def test_keys_of_32_bits_give_the_same(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """What images of more than 65 536 tiles go through: bit for bit the picture of short keys."""
    tensors = long_list(dtype)
    short = render(tensors, 23, 19, "cuda")
    monkeypatch.setattr(tiles, "SHORT_KEYS", 0)
    assert torch.equal(render(tensors, 23, 19, "cuda").image, short.image)


KINDS = {
    "needles": {"sigma_px": (0.02, 200.0)},
    "subpixel": {"sigma_px": (0.01, 0.3), "opacity": (0.9, 1.0)},
    "huge": {"sigma_px": (100.0, 1e6), "opacity": (0.0, 0.3)},
    "opaque": {"opacity": (0.98, 1.0)},
    "faint": {"opacity": (0.0, 0.02)},
    "all": {"sigma_px": (0.05, 1e3)},
}


@emulation
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_splats_in_double(kind: str) -> None:
    """As the reference, over the whole image: culling loses nothing."""
    tensors = scene(200, 41, 35, seed=5, **KINDS[kind])
    ours, theirs = render(tensors, 41, 35, "cuda"), render(tensors, 41, 35, "reference")
    assert theirs.alpha.max() > 0.01
    # needles: the exponents' terms cancel (1e8 times larger than their sum), in the reference too
    tolerance = 1e-6 if kind in ("needles", "all") else 1e-10
    assert (ours.image - theirs.image).abs().max() < tolerance
    for name in INPUTS:
        assert torch.isfinite(ours.gradients[name]).all(), name
        assert relative_l2(ours.gradients[name], theirs.gradients[name]) < 100 * tolerance, name


@emulation
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_splats_in_float(kind: str) -> None:
    """Within 1e-4 of the float64 reference wherever no decision hangs on rounding."""
    tensors = cast(scene(200, 41, 35, seed=5, **KINDS[kind]), torch.float32)
    double = cast(tensors, torch.float64)
    certain = margin(double, 41, 35) > 1e-3
    assert certain.float().mean() > 0.2
    difference = render(tensors, 41, 35, "cuda").image - render(double, 41, 35, "reference").image
    assert difference[certain].abs().max() < 1e-4


@emulation
@both_types
def test_equal_depths_keep_the_order_of_the_splats(dtype: torch.dtype) -> None:
    """With all depths equal (+0 and -0 among them) the first splat is in front."""
    tensors = cast(scene(80, 24, 24, seed=5), dtype)
    tensors["depths"] = torch.zeros(80, dtype=dtype)
    tensors["depths"][::2] = -0.0
    assert_close(render(tensors, 24, 24, "cuda"), render(tensors, 24, 24, "cpu"), dtype)


@emulation
@both_types
@pytest.mark.parametrize("count", [0, 4])
def test_nothing_in_sight_gives_the_background(count: int, dtype: torch.dtype) -> None:
    """N = 0, or no splat in the image: the background, alpha 0, zero gradients, and dL/dbackground as the CPU's."""
    tensors = cast(scene(count, 19, 6), dtype)
    tensors["means2d"] = tensors["means2d"] + 1e5
    result = render(tensors, 19, 6, "cuda")
    assert torch.equal(result.image, tensors["background"].expand(6, 19, 3))
    assert not result.alpha.any()
    assert all(not result.gradients[name].any() for name in INPUTS[:-1])
    assert_close(result, render(tensors, 19, 6, "cpu"), dtype)


@emulation
def test_no_background_is_zero() -> None:
    """Without a background the image is that over a zero one."""
    tensors = scene(30, 20, 20, seed=4)
    tensors["background"] = torch.zeros(3, dtype=torch.float64)
    with_zero, alpha = rasterize(**tensors, width=20, height=20, backend="cuda")
    del tensors["background"]
    without, _ = rasterize(**tensors, width=20, height=20, backend="cuda")
    assert alpha.max() > 0.5 and torch.equal(with_zero, without)


@emulation
def test_alpha_alone_has_a_gradient() -> None:
    """A loss on alpha only, or on the image only, gives the CPU's gradients."""
    for which in (0, 1):
        gradients = []
        for backend in ("cpu", "cuda"):
            tensors = {name: tensor.requires_grad_() for name, tensor in scene(30, 20, 16, seed=9).items()}
            rasterize(**tensors, width=20, height=16, backend=backend)[which].square().sum().backward()
            gradients.append([tensors[name].grad for name in INPUTS[:3]])
        for ours, theirs in zip(*gradients, strict=True):
            assert theirs.any() and relative_l2(ours, theirs) < 1e-10


@emulation
def test_without_gradients_nothing_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under no_grad nor where no input asks for one; the image is the same."""
    saved = []
    forward = cuda.forward

    def spy(*arguments: object, save: bool) -> tuple[Tensor, Tensor, cuda.Saved | None]:
        result = forward(*arguments, save=save)  # type: ignore[arg-type]
        saved.append(result[2] is not None)
        return result

    monkeypatch.setattr(cuda, "forward", spy)
    tensors = long_list()
    plain, _ = rasterize(**tensors, width=23, height=19, backend="cuda")
    tensors["features"].requires_grad_()
    with torch.no_grad():
        unrecorded, _ = rasterize(**tensors, width=23, height=19, backend="cuda")
    recorded, _ = rasterize(**tensors, width=23, height=19, backend="cuda")
    assert saved == [False, False, True]
    assert torch.equal(plain, unrecorded) and torch.equal(plain, recorded)


@emulation
@both_types
def test_a_pass_without_autograd_gives_the_same(dtype: torch.dtype) -> None:
    """RasterPass, twice backward, with absolute gradients and without: the CPU's."""
    tensors = cast(scene(90, 23, 19, seed=6, sigma_px=(1.0, 9.0), opacity=(0.05, 0.3)), dtype)
    passes = [
        RasterPass(**tensors, width=23, height=19, backend=backend)
        for backend in ("cuda", "cpu", "reference")
    ]
    generator = torch.Generator().manual_seed(1)
    v_image = torch.randn(19, 23, 3, generator=generator, dtype=torch.float64).to(dtype)
    v_alpha = torch.randn(19, 23, generator=generator, dtype=torch.float64).to(dtype)
    ours, cpu, reference = (each.backward(v_image, v_alpha, absolute=True) for each in passes)
    plain = passes[0].backward(v_image, v_alpha)
    assert len(plain) == 4 and len(ours) == 5
    for mine, theirs, stated in zip(ours, cpu, reference, strict=True):
        assert theirs.any()
        assert relative_l2(mine, theirs) < TOLERANCES[dtype][1]
        assert relative_l2(mine, stated) < TOLERANCES[dtype][1]
    for mine, again in zip(ours, plain, strict=False):
        assert relative_l2(mine, again) < TOLERANCES[dtype][1] / 100
    assert (ours[4] >= ours[0].abs() * (1 - 1e-5)).all() and (ours[4] > 2 * ours[0].abs()).any()


@emulation
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7, 8])
def test_absolute_gradients_for_every_number_of_channels(channels: int) -> None:
    """Kernels of their own: equal to the CPU's."""
    tensors = scene(60, 37, 29, channels, seed=2)
    v_image = torch.randn(29, 37, channels, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ours, theirs = (
        RasterPass(**tensors, width=37, height=29, backend=backend).backward(v_image, None, absolute=True)
        for backend in ("cuda", "cpu")
    )
    for mine, other in zip(ours, theirs, strict=True):
        assert other.any() and relative_l2(mine, other) < 1e-10


def smooth_scene() -> dict[str, Tensor]:
    """40 wide, faint splats on 5x4 px, each seen by every pixel, none near the skip, the clamp or the stop: two buckets."""
    tensors = scene(40, 5, 4, 2, seed=3, sigma_px=(3.0, 6.0), opacity=(0.05, 0.12))
    tensors["means2d"] = tensors["means2d"] * 0.5 + torch.tensor([1.25, 1.0], dtype=torch.float64)
    return tensors


@emulation
def test_gradcheck_of_all_inputs() -> None:
    """torch.autograd.gradcheck in float64, with a checkpoint between the splats, away from every kink."""
    tensors = smooth_scene()
    image, alpha = rasterize(**tensors, width=5, height=4)
    assert alpha.min() > 0.3 and image.abs().min() > 1e-3
    assert margin(tensors, 5, 4).min() > 1e-2
    depths = tensors.pop("depths")

    def op(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(tensors, inputs, strict=True))
        return rasterize(**named, depths=depths, width=5, height=4, backend="cuda")

    inputs = tuple(tensor.requires_grad_() for tensor in tensors.values())
    assert torch.autograd.gradcheck(op, inputs, eps=1e-6, atol=1e-8, rtol=1e-6)


@emulation
def test_gradients_equal_differences() -> None:
    """Each entry of each gradient is within 1e-6, relatively, of fourth-order central differences."""
    tensors = smooth_scene()
    depths = tensors.pop("depths")

    def loss(**inputs: Tensor) -> Tensor:
        return weighted_sum(rasterize(**inputs, depths=depths, width=5, height=4, backend="cuda"))

    errors = worst_relative_errors(loss, tensors)
    assert max(errors.values()) < 1e-6, errors


@emulation
def test_one_splat_alone_is_the_formula() -> None:
    """Opacity times the Gaussian, clamped at 0.99 and cut below 1/255; nothing to compare with but arithmetic."""
    sigma = torch.full((1,), 4.0, dtype=torch.float64)
    center = torch.tensor([[20.5, 12.5]], dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    _, alpha = rasterize(
        center, conics_of(sigma, sigma, 0 * sigma), one, one[:, None], one, 41, 25, backend="cuda"
    )
    for x, y in ((20, 12), (24, 12), (20, 16), (27, 20), (20, 0)):
        value = math.exp(-((x - 20) ** 2 + (y - 12) ** 2) / 32)
        assert alpha[y, x].item() == pytest.approx(min(value, 0.99) if value >= 1 / 255 else 0)
