"""The backend "cuda" equals the processor's, in images and gradients: on a card where there is one, else emulated.

``pytest tests/cuda/test_on_card.py -m needs_cuda`` is what tools/gpu_check runs; it needs torch, numpy and pytest alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from splat_engine.ops import adam_step, relocate, ssim
from splat_engine.ops._cuda.launch import emulated_by
from splat_engine.ops.project import CAMERA_MODELS
from tests.cuda import tiny_fit
from tests.cuda.by_ray_scenario import many_at_once, with_slopes
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.engine.chain_scenes import FORMATIONS, chain, draw
from tests.engine.gradient_check import FLOOR, central_differences, relative_l2
from tests.engine.raster_scenes import INPUTS, Rendered, cast, render, scene

IMAGE_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4
"""Of values up to about 1, absolute, and of gradients, relative L2: DESIGN.md's contract, in float32."""
Tell = Callable[[str, object], None]


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.needs_cuda), "emulated"])
def card(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """Where the tensors of the backend "cuda" lie."""
    if request.param == "emulated":
        with emulated_by(EmulatedLauncher()):
            yield torch.device("cpu")
        return
    if not torch.cuda.is_available():
        pytest.skip("torch sees no NVIDIA card")
    yield torch.device("cuda", 0)


def gradients_of(loss: Callable[..., Tensor], inputs: dict[str, Tensor], **options: str) -> dict[str, Tensor]:
    """Of a scalar function by each input, in the processor's memory."""
    leaves = {name: value.detach().clone().requires_grad_() for name, value in inputs.items()}
    found = torch.autograd.grad(loss(**leaves, **options), list(leaves.values()))
    return {name: value.cpu() for name, value in zip(leaves, found, strict=True)}


@pytest.mark.parametrize("formation", FORMATIONS)
@pytest.mark.parametrize("model", CAMERA_MODELS)
def test_the_chain(card: torch.device, record_property: Tell, model: str, formation: str) -> None:
    """Projection, colours, blending, SSIM, in all their modes: image to 1e-5, all gradients to 1e-4, in float32."""
    made = chain(model, formation)
    inputs = cast(made.inputs, torch.float32)
    there = cast(made.inputs, torch.float32, card)
    images = [draw(inputs, model, formation).features, draw(there, model, formation, "cuda").features.cpu()]
    assert images[0].std() > 0.05
    worst = float((images[1] - images[0]).abs().max() / images[0].abs().max())
    record_property("image", worst)
    assert worst < IMAGE_TOLERANCE
    host, on_card = (
        made._replace(target=made.target.float()),
        made._replace(target=made.target.to(card, torch.float32)),
    )
    expected = gradients_of(host.loss, inputs, backend="cpu")
    found = gradients_of(on_card.loss, there, backend="cuda")
    for name, value in expected.items():
        assert value.norm() > 0, name
        record_property(f"gradient of {name}", relative_l2(found[name], value))
        assert relative_l2(found[name], value) < GRADIENT_TOLERANCE, name


@pytest.mark.parametrize("model", CAMERA_MODELS)
def test_gradients_are_differences(card: torch.device, record_property: Tell, model: str) -> None:
    """In double, the gradient of every input of the chain equals central differences of the processor's forward."""
    made = chain(model, "blender")
    on_card = made._replace(target=made.target.to(card))
    found = gradients_of(on_card.loss, cast(made.inputs, torch.float64, card), backend="cuda")
    for name in made.inputs:
        differences = central_differences(made.loss, made.inputs, name)
        largest = differences.abs().max()
        assert largest > 0, name
        worst = float(
            ((found[name] - differences).abs() / differences.abs().clamp_min(FLOOR * largest)).max()
        )
        record_property(f"gradient of {name}", worst)
        assert worst < 1e-5, name


@pytest.mark.parametrize("channels", [1, 3, 7])
@pytest.mark.parametrize(("count", "width", "height"), [(0, 5, 3), (1, 1, 1), (300, 70, 51)])
def test_random_splats(
    card: torch.device, record_property: Tell, count: int, width: int, height: int, channels: int
) -> None:
    """Splats of all sizes and opacities, odd images, none at all: in double, where no decision is a matter of rounding."""
    inputs = scene(count, width, height, channels, seed=5)
    expected = render(inputs, width, height)
    found = on_host(render(cast(inputs, torch.float64, card), width, height, "cuda"))
    worst = max(float((found[0] - expected[0]).abs().max()), float((found[1] - expected[1]).abs().max()))
    record_property("image", worst)
    assert worst < 1e-9
    for name in INPUTS:
        assert relative_l2(found.gradients[name], expected.gradients[name]) < 1e-8, name
    assert count < 2 or expected.alpha.mean() > 0.2


@pytest.mark.parametrize("channels", [1, 3, 7])
@pytest.mark.parametrize(("count", "width", "height"), [(0, 5, 3), (1, 1, 1), (300, 70, 51)])
def test_each_pixels_own_order(
    card: torch.device, record_property: Tell, count: int, width: int, height: int, channels: int
) -> None:
    """The same, with depths that grow across the screen."""
    inputs = with_slopes(scene(count, width, height, channels, seed=5), 0.03)
    expected = render(inputs, width, height)
    found = on_host(render(cast(inputs, torch.float64, card), width, height, "cuda"))
    worst = max(float((found[0] - expected[0]).abs().max()), float((found[1] - expected[1]).abs().max()))
    record_property("image", worst)
    assert worst < 1e-9
    for name in INPUTS:
        assert relative_l2(found.gradients[name], expected.gradients[name]) < 1e-8, name
    assert count < 2 or expected.alpha.mean() > 0.2


def test_more_splats_at_once_than_a_pixel_has_room_for(card: torch.device) -> None:
    """Lists that are gone through several times: as on the processor, in double; and in float no NaN."""
    inputs = many_at_once(torch.float64)
    expected = render(inputs, 23, 19)
    found = on_host(render(cast(inputs, torch.float64, card), 23, 19, "cuda"))
    assert (found.image - expected.image).abs().max() < 1e-9
    for name in INPUTS:
        assert relative_l2(found.gradients[name], expected.gradients[name]) < 1e-8, name
    single = render(cast(inputs, torch.float32, card), 23, 19, "cuda")
    assert (single.image.cpu() - expected.image).abs().mean() < 1e-4


def on_host(rendered: Rendered) -> Rendered:
    gradients = {name: value.cpu() for name, value in rendered.gradients.items()}
    return Rendered(rendered.image.cpu(), rendered.alpha.cpu(), gradients)


@pytest.mark.parametrize("padding", ["same", "valid", "reflect"])
def test_ssim(card: torch.device, padding: str) -> None:
    """Value and gradient, of a size that no tile divides."""
    image, target = torch.rand(2, 37, 45, 3, generator=torch.Generator().manual_seed(1))
    expected = gradients_of(lambda image: ssim(image, target, padding=padding), {"image": image})["image"]
    there = target.to(card)
    found = gradients_of(
        lambda image: ssim(image, there, padding=padding, backend="cuda"), {"image": image.to(card)}
    )["image"]
    assert relative_l2(found, expected) < GRADIENT_TOLERANCE and expected.norm() > 0


def test_adam_and_relocation(card: torch.device) -> None:
    """One update, and the copies of splats, to rounding."""
    generator = torch.Generator().manual_seed(2)
    given = [torch.rand(100, 3, generator=generator) for _ in range(4)]
    there = [value.to(card) for value in given]
    adam_step(*given, lr=0.1, step=3)
    adam_step(*there, lr=0.1, step=3, backend="cuda")
    for ours, processors in zip(there, given, strict=True):
        torch.testing.assert_close(ours.cpu(), processors, rtol=1e-6, atol=1e-7)
    copies = torch.randint(1, 9, (100,), generator=generator)
    opacities, scales = given[0][:, 0].clamp(0.01, 0.99), given[1] + 0.1
    expected = relocate(opacities, scales, copies)
    found = relocate(opacities.to(card), scales.to(card), copies.to(card), backend="cuda")
    for ours, processors in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), processors, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("formation", ["blender", "classic"])
def test_a_fit(card: torch.device, record_property: Tell, formation: str) -> None:
    """Ten steps with everything that a fit does give the splats of the processor, to 1e-4."""
    run = tiny_fit.settings(formation, 10, depth_weight=0.2, normal_weight=0.05)  # type: ignore[arg-type]
    ours, processors = tiny_fit.trainer(run, card, "cuda"), tiny_fit.trainer(run, torch.device("cpu"), "cpu")
    for _ in range(10):
        ours.train_step()
        processors.train_step()
    worst = tiny_fit.worst_difference(ours, processors)
    record_property("splats", worst)
    assert worst < GRADIENT_TOLERANCE
