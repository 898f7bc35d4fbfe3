"""The op ``train_step``: one native call, bit for bit the ops one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from update_scenes import RATES, Scene

from splat_engine.ops import (
    RasterPass,
    ScreenGradients,
    TrainStep,
    photometric_loss_and_gradients,
    project,
    sh_colors,
    train_step,
    update_splats,
)

HEIGHT, WIDTH = 41, 53
COMPARED = {"encode": True, "ssim_weight": 0.2, "mse_weight": 0.3, "alpha_weight": 0.1}


class View:
    """A target of random pixels for the splats of a scene."""

    def __init__(self, dtype: torch.dtype, *, masked: bool = False) -> None:
        generator = torch.Generator().manual_seed(3)
        rand = [
            torch.rand(size, generator=generator, dtype=dtype)
            for size in ((HEIGHT, WIDTH, 3), (HEIGHT, WIDTH), (3,))
        ]
        self.alpha, self.background = rand[1], rand[2]
        self.color = rand[0] * self.alpha[..., None]
        self.valid = torch.rand(HEIGHT, WIDTH, generator=generator) > 0.3 if masked else None


def whole(scene: Scene, view: View, **options: Any) -> TrainStep:
    """One native call; changes the scene."""
    return train_step(
        scene.params, scene.moments, scene.viewmat, scene.intrinsics, view.color, view.alpha, view.background,
        **(scene.options | COMPARED | {"rates": RATES, "step": 3, "degree": 2, "valid": view.valid} | options),
    )  # fmt: skip


def in_parts(
    scene: Scene,
    view: View,
    *,
    sparse: bool = False,
    log_scale_floors: Tensor | None = None,
    absolute: bool = False,
    by_ray: bool = False,
) -> TrainStep:
    """The ops one after the other; changes the scene."""
    options = dict(scene.options)
    decode, camera_model = options.pop("decode"), options["camera_model"]
    camera = (scene.viewmat, scene.intrinsics, WIDTH, HEIGHT)
    inputs = [scene.params[name] for name in ("means", "log_scales", "quats_wxyz", "opacity_logits")]
    screen = project(*inputs, *camera, with_depth_slopes=by_ray, **options)
    colors = sh_colors(
        scene.params["means"],
        scene.params["sh"],
        scene.viewmat,
        degree=2,
        camera_model=camera_model,
        decode=decode,
    )
    drawing = RasterPass(
        screen.means2d, screen.conics, screen.opacities, colors, screen.depths, WIDTH, HEIGHT, view.background,
        depth_slopes=screen.depth_slopes,
    )  # fmt: skip
    loss, v_image, v_alpha = photometric_loss_and_gradients(
        drawing.image, drawing.alpha, view.color, view.alpha, view.background, valid=view.valid, **COMPARED
    )
    v_means2d, v_conics, v_opacities, v_colors, *sums = drawing.backward(v_image, v_alpha, absolute=absolute)
    gradients = ScreenGradients(means2d=v_means2d, conics=v_conics, opacities=v_opacities, colors=v_colors)
    update_splats(
        scene.params, scene.moments, gradients, screen.radii, *camera, rates=RATES, step=3, degree=2, decode=decode,
        sparse=sparse, log_scale_floors=log_scale_floors, **options,
    )  # fmt: skip
    return TrainStep(loss.loss, loss.squared, v_means2d, screen.radii, sums[0] if absolute else None)


def state_of(scene: Scene) -> list[Tensor]:
    return [*scene.params.values(), *(moment for pair in scene.moments.values() for moment in pair)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("model", ["perspective", "orthographic"])
@pytest.mark.parametrize(
    "options", [{}, {"decode": False, "dilation_px2": 0.3}, {"antialiased": True, "dilation_px2": 0.1}]
)
@pytest.mark.parametrize("extra", ["", "masked", "sparse", "floors", "absolute", "by_ray"])
def test_equals_the_ops_one_after_the_other(
    dtype: torch.dtype, model: str, options: dict[str, Any], extra: str
) -> None:
    """Loss, screen gradients, parameters and moments are the same bits."""
    ours, parts = (Scene(61, dtype, model, 9, **options) for _ in range(2))
    view = View(dtype, masked=extra == "masked")
    chosen: dict[str, Any] = {}
    if extra in ("sparse", "absolute", "by_ray"):
        chosen[extra] = True
    if extra == "floors":
        chosen["log_scale_floors"] = ours.params["log_scales"].mean(dim=1)
    before = [value.clone() for value in state_of(ours)]
    got, want = whole(ours, view, **chosen), in_parts(parts, view, **chosen)
    assert want.loss > 0.05 and want.means2d.abs().max() > 0
    told = [(a, b) for a, b in zip(got, want, strict=True) if b is not None]
    assert len(told) == 4 + (extra == "absolute") and all(torch.equal(a, b) for a, b in told)
    assert all(torch.equal(a, b) for a, b in zip(state_of(ours), state_of(parts), strict=True))
    assert all(not torch.equal(a, b) for a, b in zip(state_of(ours), before, strict=True))


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    """NaN in the target makes the loss NaN, and no parameter or moment moves."""
    scene, view = Scene(40, torch.float32, coefficients=9), View(torch.float32)
    view.color[4, 5, 1] = torch.nan
    before = [value.clone() for value in state_of(scene)]
    assert not torch.isfinite(whole(scene, view).loss)
    assert all(torch.equal(a, b) for a, b in zip(state_of(scene), before, strict=True))


def test_no_splats() -> None:
    """N = 0 compares the background, and there is nothing to update."""
    scene, view = Scene(0, torch.float32, coefficients=9), View(torch.float32)
    told = whole(scene, view)
    assert torch.isfinite(told.loss) and told.loss > 0.05
    assert told.means2d.shape == told.radii.shape == (0, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 3}, "degree 3 needs 16"),
        ({"step": 0}, "step: expected 1"),
        ({"ssim_weight": 2.0}, "ssim_weight"),
        ({"camera_model": "fisheye"}, "fisheye"),
        ({"log_scale_floors": torch.zeros(3)}, "log_scale_floors"),
        ({"valid": torch.zeros(HEIGHT, WIDTH)}, "valid: expected bool"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    """A wrong number, shape or type is refused before anything is changed."""
    scene, view = Scene(10, torch.float32, coefficients=9), View(torch.float32)
    before = [value.clone() for value in state_of(scene)]
    with pytest.raises(ValueError, match=message):
        whole(scene, view, **options)
    assert all(torch.equal(a, b) for a, b in zip(state_of(scene), before, strict=True))
