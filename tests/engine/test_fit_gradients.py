"""One view of a training step: the native way equals autograd over the same ops, and the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.drawing import blend, screen_gradients, screen_leaves
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.gradients import Comparison, compare_view
from splat_engine.fit.losses import fit_loss
from splat_engine.fit.model import SplatState
from splat_engine.fit.views import ViewTensors
from splat_engine.formats.settings import LossSettings
from splat_engine.ops import RasterPass, ScreenGradients, photometric_loss_and_gradients
from tests.engine.tiny_capture import known_splats, perturbed, write_tiny_capture

GEOMETRY = [{}, {"depth_weight": 0.3}, {"normal_weight": 0.2}, {"depth_weight": 0.3, "normal_weight": 0.2}]
OPTIONS = {"extent": 2.0, "geometry_share": 0.7}


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> ViewTensors:
    capture = write_tiny_capture(tmp_path_factory.mktemp("capture"))
    return CaptureImages(capture, "train", ImageFormation("blender"), with_depth=True, with_normals=True)[0]


def scene() -> tuple[SplatState, Tensor]:
    return SplatState.from_splats(perturbed(known_splats()).with_sh_degree(2)), torch.tensor([0.2, 0.6, 0.4])


def by_autograd(
    view: ViewTensors, formation: ImageFormation, settings: LossSettings
) -> tuple[Tensor, ScreenGradients]:
    """Loss and gradients of the same ops, with autograd from the screen to the loss."""
    state, background = scene()
    with_depth, with_normals = settings.depth_weight > 0, settings.normal_weight > 0
    camera = (view.viewmat, view.intrinsics, view.camera, formation)
    screen = screen_leaves(state.params, *camera, with_depth=with_depth, with_normals=with_normals)
    drawn = blend(screen, view.camera, background=background, with_depth=with_depth)
    loss, _ = fit_loss(drawn, view, background, formation, settings, backend="cpu", **OPTIONS)
    return loss.detach(), screen_gradients(loss, screen)


def compared(
    view: ViewTensors, formation: ImageFormation, settings: LossSettings, backend: str = "cpu"
) -> Comparison:
    state, background = scene()
    return compare_view(state, view, background, formation, settings, backend=backend, **OPTIONS)


@pytest.mark.parametrize("weights", GEOMETRY)
@pytest.mark.parametrize("name", ["blender", "classic"])
def test_the_native_way_equals_autograd(view: ViewTensors, name: str, weights: dict[str, float]) -> None:
    """Loss and all gradients on the screen agree to float rounding, with and without depth and normals."""
    formation, settings = ImageFormation(name), LossSettings(mse_weight=0.5, **weights)  # type: ignore[arg-type]
    ours = compared(view, formation, settings)
    loss, gradients = by_autograd(view, formation, settings)
    assert not ours.loss.requires_grad and loss > 0.05
    torch.testing.assert_close(ours.loss, loss)
    for field, expected in gradients._asdict().items():
        got = getattr(ours.gradients, field)
        assert (got is None) == (expected is None), field
        if expected is not None:
            assert expected.abs().max() > 0, field
            assert (got - expected).norm() < 1e-5 * expected.norm(), field


@pytest.mark.parametrize("weights", GEOMETRY)
def test_the_native_way_equals_the_reference(view: ViewTensors, weights: dict[str, float]) -> None:
    """Plain torch all the way gives the same loss, and the same gradients to 1e-3 in float32."""
    formation, settings = ImageFormation("blender"), LossSettings(**weights)  # type: ignore[arg-type]
    ours, reference = (compared(view, formation, settings, backend) for backend in ("cpu", "reference"))
    torch.testing.assert_close(ours.loss, reference.loss, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.squared, reference.squared, rtol=1e-4, atol=1e-6)
    for field, expected in reference.gradients._asdict().items():
        if expected is not None:
            assert (getattr(ours.gradients, field) - expected).norm() < 1e-3 * expected.norm(), field


def test_a_raster_pass_checks_what_it_is_given() -> None:
    """Wrong shapes and too many features are refused by name, forward and backward."""
    inputs = [torch.zeros(4, 2), torch.ones(4, 3), torch.ones(4), torch.ones(4, 3), torch.ones(4)]
    with pytest.raises(ValueError, match="conics"):
        RasterPass(inputs[0], torch.ones(4, 2), *inputs[2:], 8, 8)
    with pytest.raises(ValueError, match="at most 8"):
        RasterPass(*inputs[:3], torch.ones(4, 9), inputs[4], 8, 8)
    drawing = RasterPass(*inputs, 8, 6)
    with pytest.raises(ValueError, match="v_image"):
        drawing.backward(torch.ones(8, 6, 3), None)
    with pytest.raises(ValueError, match="v_alpha"):
        drawing.backward(torch.ones(6, 8, 3), torch.ones(8, 6))
    with pytest.raises(ValueError, match="target"):
        photometric_loss_and_gradients(
            drawing.image, drawing.alpha, torch.ones(6, 8, 4), drawing.alpha, torch.ones(3), encode=True,
            ssim_weight=0.2,
        )  # fmt: skip


def test_a_comparison_only_reads(view: ViewTensors) -> None:
    """Comparing changes neither splats nor view."""
    state, background = scene()
    before = {name: value.clone() for name, value in state.params.items()}
    pixels = view.color.clone()
    compare_view(state, view, background, ImageFormation("blender"), LossSettings(), backend="cpu", **OPTIONS)
    assert all(torch.equal(before[name], value) for name, value in state.params.items())
    assert torch.equal(pixels, view.color)
