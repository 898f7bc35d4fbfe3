"""The op ``ssim``: against torchmetrics and the reference, gradients, odd sizes, threads."""

from __future__ import annotations

import math

import pytest
import torch
from gradient_check import relative_l2
from splat_scenes import threads
from torch import Tensor
from torchmetrics.functional.image import structural_similarity_index_measure

from splat_engine.ops.reference.ssim import gaussian_taps
from splat_engine.ops.ssim import PADDINGS, ssim

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_paddings = pytest.mark.parametrize("padding", PADDINGS)
both_backends = pytest.mark.parametrize("backend", ["cpu", "reference"])


def pictures(
    height: int, width: int, channels: int, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """A smooth picture with some noise, and a noisier one of the same thing."""
    generator = torch.Generator().manual_seed(seed)
    y, x, c = torch.meshgrid(torch.arange(height), torch.arange(width), torch.arange(channels), indexing="ij")
    smooth = 0.5 + 0.3 * torch.sin(0.31 * x.double() + c) * torch.cos(0.23 * y.double() - c)
    noise = torch.rand(2, height, width, channels, generator=generator, dtype=torch.float64)
    return (smooth + 0.3 * (noise[0] - 0.5)).to(dtype), (smooth + 0.1 * (noise[1] - 0.5)).to(dtype)


@both_types
@both_paddings
@pytest.mark.parametrize(
    "shape", [(11, 11, 1), (12, 47, 3), (61, 17, 3), (40, 200, 4), (64, 64, 3), (13, 300, 7)]
)
def test_cpu_equals_reference(shape: tuple[int, int, int], padding: str, dtype: torch.dtype) -> None:
    """Value and gradient of the CPU backend are the reference's for odd sizes, strips and channel counts."""
    image, target = pictures(*shape, dtype)
    results = []
    for backend in ("cpu", "reference"):
        leaf = image.clone().requires_grad_()
        value = ssim(leaf, target, padding=padding, backend=backend)
        (3.0 * value).backward()
        results.append((value.item(), leaf.grad))
    (value, v_image), (expected, v_expected) = results
    assert 0.2 < expected < 0.99
    tolerance = 3e-5 if dtype == torch.float32 else 1e-12
    assert abs(value - expected) < tolerance * 0.1
    assert relative_l2(v_image, v_expected) < tolerance


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 3), (11, 2, 3), (2, 40, 1)])
def test_images_smaller_than_the_window(shape: tuple[int, int, int]) -> None:
    """With zeros around it any image has an SSIM, and its gradient is the reference's."""
    image, target = pictures(*shape)
    gradients = []
    for backend in ("cpu", "reference"):
        leaf = image.clone().requires_grad_()
        ssim(leaf, target, backend=backend).backward()
        gradients.append(leaf.grad)
    assert relative_l2(*gradients) < 1e-12


@both_types
@both_backends
@pytest.mark.parametrize("data_range", [1.0, 4.0])
def test_agrees_with_torchmetrics(dtype: torch.dtype, backend: str, data_range: float) -> None:
    """ "reflect" is torchmetrics' figure; "valid" is the mean over the pixels whose window lies in the image."""
    image, target = (data_range * picture for picture in pictures(50, 70, 3, dtype))
    planes = (picture.permute(2, 0, 1)[None] for picture in (image, target))
    expected, full = structural_similarity_index_measure(
        *planes, data_range=data_range, return_full_image=True
    )
    assert 0.5 < expected < 0.99
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    value = ssim(image, target, padding="reflect", data_range=data_range, backend=backend)
    assert abs(float(value) - float(expected)) < tolerance
    inner = float(full[:, :, 5:-5, 5:-5].mean())
    assert abs(inner - float(expected)) > 1e-3
    value = ssim(image, target, padding="valid", data_range=data_range, backend=backend)
    assert abs(float(value) - inner) < tolerance


@both_paddings
def test_gradcheck(padding: str) -> None:
    """The gradient is that of central differences."""
    image, target = pictures(13, 12, 2)
    image.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a: ssim(a, target, padding=padding), (image,), atol=1e-9, rtol=1e-6
    )


@both_backends
@both_paddings
def test_equal_images_have_ssim_one_and_no_gradient(backend: str, padding: str) -> None:
    """SSIM is 1 for equal images, its greatest value, so the gradient vanishes."""
    image = pictures(20, 30, 3)[0]
    leaf = image.clone().requires_grad_()
    value = ssim(leaf, image, padding=padding, backend=backend)
    value.backward()
    assert abs(value.item() - 1.0) < 1e-12
    assert leaf.grad.abs().max() < 1e-12


def test_valid_ignores_what_no_inner_window_sees() -> None:
    """With "valid" every pixel still counts through a window, but "same" counts the border more."""
    image, target = pictures(30, 30, 1)
    values = {}
    for padding in ("same", "valid"):
        spoiled = image.clone()
        spoiled[0, 0] += 0.5
        values[padding] = float(ssim(image, target, padding=padding) - ssim(spoiled, target, padding=padding))
    assert abs(values["valid"]) < 0.05 * abs(values["same"]) and values["valid"] != 0


def test_taps_of_the_kernel_are_a_normalised_gaussian() -> None:
    """The window sums to one and falls off as exp(-k^2 / (2 sigma^2)); the kernel's blur of an impulse has these taps."""
    taps = gaussian_taps(torch.float64)
    assert abs(float(taps.sum()) - 1) < 1e-15
    assert torch.allclose(taps[5:] / taps[5], torch.exp(-(torch.arange(6, dtype=torch.float64) ** 2) / 4.5))


def test_without_gradient_the_maps_are_not_kept() -> None:
    """An image that needs no gradient gives the same value."""
    image, target = pictures(33, 41, 3)
    assert torch.equal(ssim(image, target), ssim(image.clone().requires_grad_(), target).detach())


def test_threads_do_not_change_a_bit() -> None:
    """Value and gradient are the same for 1, 2, 3 and 5 threads."""
    image, target = pictures(200, 130, 3, torch.float32)
    results = []
    for count in (1, 2, 3, 5):
        leaf = image.clone().requires_grad_()
        with threads(count):
            value = ssim(leaf, target)
            value.backward()
        results.append((value.detach(), leaf.grad))
    for value, gradient in results[1:]:
        assert torch.equal(value, results[0][0]) and torch.equal(gradient, results[0][1])


@both_backends
def test_target_gets_no_gradient(backend: str) -> None:
    """Only the first image is differentiated."""
    image, target = (picture.requires_grad_() for picture in pictures(12, 12, 1))
    ssim(image, target, backend=backend).backward()
    assert image.grad is not None and target.grad is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": torch.zeros(12, 13, 3)}, "target: expected shape"),
        ({"image": torch.zeros(12, 12)}, "image: expected shape"),
        ({"padding": "wrap"}, "unknown padding"),
        ({"data_range": 0.0}, "data_range"),
        (
            {"image": torch.zeros(10, 12, 3), "target": torch.zeros(10, 12, 3), "padding": "valid"},
            "at least .11, 11, 1.",
        ),
        ({"image": torch.zeros(0, 12, 3), "target": torch.zeros(0, 12, 3)}, "at least .1, 1, 1."),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    """A wrong shape, name or number raises a ValueError that says what was expected."""
    given = {"image": torch.zeros(12, 12, 3), "target": torch.zeros(12, 12, 3), **arguments}
    with pytest.raises(ValueError, match=message):
        ssim(**given)


def test_window_radius_reaches_five_pixels() -> None:
    """A changed pixel moves the gradient of pixels up to 10 px away (two windows) and no further."""
    image, target = pictures(40, 40, 1)
    gradients = []
    for change in (0.0, 0.3):
        leaf = image.clone()
        leaf[20, 20] += change
        leaf.requires_grad_()
        ssim(leaf, target).backward()
        gradients.append(leaf.grad[:, :, 0])
    rows, columns = ((gradients[1] - gradients[0]).abs() > 1e-15).nonzero(as_tuple=True)
    assert (int(rows.min()), int(rows.max())) == (10, 30)
    assert (int(columns.min()), int(columns.max())) == (10, 30)
    assert math.isfinite(float(gradients[1].sum()))
