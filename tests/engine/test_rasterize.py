"""The op ``rasterize``: the native kernels against plain torch and against differences."""

from __future__ import annotations

import pytest
import torch
from gradient_check import relative_l2, weighted_sum, worst_relative_errors
from raster_scenes import INPUTS, cast, conics_of, margin, render, scene
from torch import Tensor

from splat_engine.ops.rasterize import rasterize

SIZES = [(70, 45), (64, 64), (1, 1), (40, 1), (1, 33), (31, 34), (33, 7)]
"""Width and height: multiples of tiles, just below, just above, single pixels and rows."""


def assert_close(ours: object, theirs: object, image_tolerance: float, gradient_tolerance: float) -> None:
    assert (ours.image - theirs.image).abs().max() <= image_tolerance
    assert (ours.alpha - theirs.alpha).abs().max() <= image_tolerance
    for name in INPUTS:
        error = relative_l2(ours.gradients[name], theirs.gradients[name])
        assert error <= gradient_tolerance, f"{name}: relative L2 {error:.1e}"
        ours_flat, theirs_flat = ours.gradients[name].flatten(), theirs.gradients[name].flatten()
        if theirs_flat.norm() > 0:
            cosine = torch.dot(ours_flat, theirs_flat) / (ours_flat.norm() * theirs_flat.norm())
            assert cosine > 1 - max(gradient_tolerance, 1e-9), f"{name}: cosine {cosine}"


@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_the_reference_in_double(size: tuple[int, int]) -> None:
    """Images to 1e-12 and gradients to 1e-10 in float64, at sizes that are and are not whole tiles."""
    tensors = scene(150, *size, seed=1)
    ours, theirs = render(tensors, *size), render(tensors, *size, backend="reference")
    assert theirs.alpha.max() > 0.5
    assert_close(ours, theirs, 1e-12, 1e-10)


@pytest.mark.parametrize("size", SIZES)
def test_agrees_with_the_reference_in_float(size: tuple[int, int]) -> None:
    """Float32 kernels are within 1e-5 (image) and 1e-4 (gradients) of the float64 reference."""
    tensors = cast(scene(150, *size, seed=1), torch.float32)
    ours = render(tensors, *size)
    theirs = render(cast(tensors, torch.float64), *size, backend="reference")
    assert_close(
        type(ours)(ours.image.double(), ours.alpha.double(), cast(ours.gradients, torch.float64)),
        theirs,
        1e-5,
        1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8, 11, 17])
def test_every_number_of_channels(channels: int, dtype: torch.dtype) -> None:
    """C = 1 to 8 in one call, more in groups: images and gradients as the reference's."""
    tensors = cast(scene(60, 37, 29, channels, seed=2), dtype)
    tolerance = 1e-5 if dtype is torch.float32 else 1e-12
    ours, theirs = render(tensors, 37, 29), render(tensors, 37, 29, backend="reference")
    assert ours.image.shape == (29, 37, channels)
    assert_close(ours, theirs, tolerance, 10 * tolerance)


def smooth_scene() -> dict[str, Tensor]:
    """Six wide splats on 7x5 pixels, each seen by every pixel, none near the skip, the clamp or the stop."""
    tensors = scene(6, 7, 5, 3, seed=3, sigma_px=(3.0, 6.0), opacity=(0.3, 0.6))
    tensors["means2d"] = tensors["means2d"] * 0.5 + torch.tensor([1.75, 1.25], dtype=torch.float64)
    return tensors


def test_gradcheck_of_all_inputs() -> None:
    """torch.autograd.gradcheck in float64, on an image that is not empty and away from every kink."""
    tensors = smooth_scene()
    image, alpha = rasterize(**tensors, width=7, height=5)
    assert alpha.min() > 0.3 and image.abs().min() > 1e-3
    assert margin(tensors, 7, 5).min() > 1e-2
    depths = tensors.pop("depths")

    def op(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        named = dict(zip(tensors, inputs, strict=True))
        return rasterize(**named, depths=depths, width=7, height=5)

    inputs = tuple(tensor.requires_grad_() for tensor in tensors.values())
    assert torch.autograd.gradcheck(op, inputs, eps=1e-6, atol=1e-8, rtol=1e-6)


def test_gradients_equal_differences() -> None:
    """Each entry of each gradient is within 1e-6, relatively, of fourth-order central differences."""
    tensors = smooth_scene()
    depths = tensors.pop("depths")

    def loss(**inputs: Tensor) -> Tensor:
        return weighted_sum(rasterize(**inputs, depths=depths, width=7, height=5))

    errors = worst_relative_errors(loss, tensors)
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_splats_give_the_background(backend: str, dtype: torch.dtype) -> None:
    """N = 0: the background, alpha 0, empty gradients, and dL/dbackground = the sum of the cotangent."""
    tensors = cast(scene(0, 9, 6), dtype)
    result = render(tensors, 9, 6, backend)
    assert torch.equal(result.image, tensors["background"].expand(6, 9, 3))
    assert not result.alpha.any()
    assert result.gradients["means2d"].shape == (0, 2)
    generator = torch.Generator().manual_seed(99)
    cotangent = torch.randn(6, 9, 3, generator=generator, dtype=torch.float64).to(dtype)
    assert relative_l2(result.gradients["background"], cotangent.sum((0, 1))) < 1e-6


def test_no_background_is_zero() -> None:
    """Without a background the image is that over a zero one."""
    tensors = scene(30, 20, 20, seed=4)
    tensors["background"] = torch.zeros(3, dtype=torch.float64)
    with_zero, alpha = rasterize(**tensors, width=20, height=20)
    del tensors["background"]
    without, same_alpha = rasterize(**tensors, width=20, height=20)
    assert alpha.max() > 0.5
    assert torch.equal(with_zero, without) and torch.equal(alpha, same_alpha)


def one_splat(opacity: float, sigma_px: float = 4.0) -> dict[str, Tensor]:
    """A round splat in the middle of a 21x21 image, feature 1."""
    sigma = torch.full((1,), sigma_px, dtype=torch.float64)
    return {
        "means2d": torch.full((1, 2), 10.5, dtype=torch.float64),
        "conics": conics_of(sigma, sigma, sigma),
        "opacities": torch.full((1,), opacity, dtype=torch.float64),
        "features": torch.ones(1, 1, dtype=torch.float64),
        "depths": torch.ones(1, dtype=torch.float64),
    }


def test_opaque_splat_over_a_transparent_target_shrinks() -> None:
    """An opaque splat where alpha shall be 0: the gradient widens the conic (a smaller splat) and lowers opacity."""
    tensors = one_splat(0.995)
    for name in ("conics", "opacities"):
        tensors[name].requires_grad_()
    _, alpha = rasterize(**tensors, width=21, height=21)
    assert alpha.max().item() == pytest.approx(0.99)
    alpha.square().sum().backward()
    assert tensors["opacities"].grad.item() > 0
    assert tensors["conics"].grad[0, 0] < 0 and tensors["conics"].grad[0, 2] < 0


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_no_gradient_through_a_clamped_alpha(backend: str) -> None:
    """A splat that is clamped at every pixel gets no gradient to its shape, but one to its feature."""
    tensors = {name: tensor.requires_grad_() for name, tensor in one_splat(1.0, 1000.0).items()}
    image, alpha = rasterize(**tensors, width=21, height=21, backend=backend)
    assert torch.allclose(alpha, torch.full_like(alpha, 0.99))
    image.sum().backward()
    for name in ("means2d", "conics", "opacities"):
        assert not tensors[name].grad.any(), name
    assert tensors["features"].grad.item() == pytest.approx(0.99 * 21 * 21)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_ray_ends_before_the_splat_that_would_exhaust_it(backend: str) -> None:
    """Alpha 0.9 a layer: T = 1e-1, 1e-2, 1e-3, and the fourth layer (1e-4) is not blended, nor anything behind it."""
    layers = 6
    wide = torch.full((layers,), 1e4, dtype=torch.float64)
    features = torch.eye(layers, dtype=torch.float64)
    image, alpha = rasterize(
        torch.full((layers, 2), 2.5, dtype=torch.float64),
        conics_of(wide, wide, wide),
        torch.full((layers,), 0.9, dtype=torch.float64),
        features,
        torch.arange(layers, dtype=torch.float64),
        5,
        5,
        backend=backend,
    )
    assert torch.allclose(
        image[2, 2], torch.tensor([0.9, 0.09, 0.009, 0, 0, 0], dtype=torch.float64), atol=1e-6
    )
    assert alpha[2, 2].item() == pytest.approx(0.999, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_depths_keep_the_order_of_the_splats(dtype: torch.dtype) -> None:
    """With all depths equal (+0 and -0 among them) the first splat is in front, as in the reference."""
    tensors = cast(scene(40, 24, 24, seed=5), dtype)
    tensors["depths"] = torch.zeros(40, dtype=dtype)
    tensors["depths"][::2] = -0.0
    ours, theirs = render(tensors, 24, 24), render(tensors, 24, 24, "reference")
    assert_close(ours, theirs, 1e-5, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_negative_and_close_depths_sort(dtype: torch.dtype) -> None:
    """Depths of both signs, and neighbours that differ in the last bit only, are drawn in order."""
    tensors = cast(scene(64, 24, 24, seed=6), dtype)
    depths = torch.linspace(-2, 2, 32, dtype=dtype)
    shuffled = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    tensors["depths"] = torch.cat([depths, torch.nextafter(depths, depths + 1)])[shuffled]
    ours, theirs = render(tensors, 24, 24), render(tensors, 24, 24, "reference")
    assert_close(ours, theirs, 1e-5, 1e-4)


def test_many_splats_sort_by_depth() -> None:
    """50 000 layers of alpha 1/200 in random order: the image weighs their depths in sorted order."""
    count = 50_000
    generator = torch.Generator().manual_seed(8)
    depths = torch.rand(count, generator=generator)
    wide = torch.full((count,), 1e3)
    image, _ = rasterize(
        torch.full((count, 2), 0.5),
        conics_of(wide, wide, wide),
        torch.full((count,), 0.005),
        depths[:, None].contiguous(),
        depths,
        1,
        1,
    )
    ordered = torch.sort(depths).values.double()
    weights = 0.005 * 0.995 ** torch.arange(count, dtype=torch.float64)
    expected = (ordered * weights)[weights * 0.995 / 0.005 > 1e-4].sum()
    assert image.item() == pytest.approx(expected.item(), rel=1e-4)


def test_alpha_alone_has_a_gradient() -> None:
    """A loss on alpha only (or the image only) gives the reference's gradients."""
    for which in (0, 1):
        gradients = []
        for backend in ("cpu", "reference"):
            tensors = {name: tensor.requires_grad_() for name, tensor in scene(30, 20, 16, seed=9).items()}
            rasterize(**tensors, width=20, height=16, backend=backend)[which].square().sum().backward()
            gradients.append({name: tensors[name].grad for name in INPUTS})
        for name in INPUTS:
            if which == 1 and name in ("features", "background"):
                continue  # alpha does not depend on them
            assert gradients[1][name].any()
            assert relative_l2(gradients[0][name], gradients[1][name]) < 1e-10, name


def test_non_contiguous_inputs() -> None:
    """Strided views give what their copies give, cotangents included."""
    tensors = scene(30, 20, 16, seed=10)
    plain, _ = rasterize(**tensors, width=20, height=16)
    strided = {name: torch.stack([tensor, tensor + 1], dim=-1)[..., 0] for name, tensor in tensors.items()}
    assert not strided["means2d"].is_contiguous()
    leaf = strided["features"].requires_grad_()
    image, _ = rasterize(**strided, width=20, height=16)
    assert torch.equal(image, plain)
    weights = torch.randn(16, 20, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (image.permute(1, 0, 2) * weights.permute(1, 0, 2)).sum().backward()
    again = tensors["features"].clone().requires_grad_()
    image, _ = rasterize(**{**tensors, "features": again}, width=20, height=16)
    (image * weights).sum().backward()
    assert torch.equal(leaf.grad, again.grad)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"means2d": torch.zeros(4, 3)}, r"means2d: expected shape \[any, 2\], got \[4, 3\]"),
        ({"conics": torch.zeros(3, 3)}, r"conics: expected shape \[4, 3\], got \[3, 3\]"),
        ({"opacities": torch.zeros(4, 1)}, r"opacities: expected shape \[4\], got \[4, 1\]"),
        ({"features": torch.zeros(4, 0)}, "features: expected at least 1 channel"),
        ({"depths": torch.zeros(4, dtype=torch.float64)}, "depths: expected torch.float32"),
        ({"background": torch.zeros(2)}, r"background: expected shape \[3\], got \[2\]"),
        ({"means2d": torch.zeros(4, 2, dtype=torch.int32)}, "expected float32 or float64"),
        ({"width": 0}, "expected a width and height of at least 1 px, got 0 x 8"),
        ({"backend": "metal"}, "unknown backend 'metal'"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, object], message: str) -> None:
    """A wrong shape, type, size or backend is a ValueError that says what was expected and what was given."""
    arguments: dict[str, object] = {**cast(scene(4, 8, 8), torch.float32), "width": 8, "height": 8, **change}
    with pytest.raises(ValueError, match=message):
        rasterize(**arguments)
