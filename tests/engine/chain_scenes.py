"""The whole chain, splats to loss, on small scenes that stay away from every cut-off; the cases of the gradient table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from gradient_check import weighted_sum
from raster_scenes import margin
from splat_scenes import camera, geometry, splats
from torch import Tensor

from splat_engine.ops.project import CAMERA_MODELS, Projected, project
from splat_engine.ops.rasterize import rasterize
from splat_engine.ops.sh import sh_colors
from splat_engine.ops.ssim import ssim

WIDTH, HEIGHT = 36, 28
FORMATIONS = {
    # decode to linear light, dilation in px^2, antialiased
    "blender": (True, 0.0, False),
    "classic": (False, 0.3, False),
    "classic antialiased": (False, 0.1, True),
}
SIZE = {"perspective": 0.0, "orthographic": -0.1}
NAMES = ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh", "viewmat", "intrinsics")


class Drawn(NamedTuple):
    """What the chain draws: colour, depth and normal of each pixel, [H, W, 7], alpha [H, W], and the splats it drew."""

    features: Tensor
    alpha: Tensor
    projected: Projected


def draw(inputs: dict[str, Tensor], model: str, formation: str, backend: str = "cpu") -> Drawn:
    """project, sh_colors and rasterize of colour, depth and normal over a grey background."""
    decode, dilation, antialiased = FORMATIONS[formation]
    projected = project(
        inputs["means"],
        inputs["log_scales"],
        inputs["quats_wxyz"],
        inputs["opacity_logits"],
        inputs["viewmat"],
        inputs["intrinsics"],
        WIDTH,
        HEIGHT,
        camera_model=model,
        dilation_px2=dilation,
        antialiased=antialiased,
        with_normals=True,
        backend=backend,
    )
    colors = sh_colors(
        inputs["means"],
        inputs["sh"],
        inputs["viewmat"],
        degree=3,
        camera_model=model,
        decode=decode,
        backend=backend,
    )
    assert projected.normals is not None
    features = torch.cat((colors, projected.depths[:, None], projected.normals), dim=1)
    background = features.new_tensor([0.2, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0])
    image, alpha = rasterize(
        projected.means2d,
        projected.conics,
        projected.opacities,
        features,
        projected.depths,
        WIDTH,
        HEIGHT,
        background=background,
        backend=backend,
    )
    return Drawn(image, alpha, projected)


class Chain(NamedTuple):
    """A scene, a target for it, and the loss of the two."""

    inputs: dict[str, Tensor]
    target: Tensor
    model: str
    formation: str

    def loss(self, *, backend: str = "cpu", **inputs: Tensor) -> Tensor:
        """0.8 L1 + 0.2 (1 - SSIM) of the colours, + 0.1 L1 of depth and normal, + 0.1 L1 of alpha."""
        drawn = draw(inputs, self.model, self.formation, backend)
        difference = (torch.cat((drawn.features, drawn.alpha[:, :, None]), dim=2) - self.target).abs()
        similarity = ssim(
            drawn.features[:, :, :3].contiguous(), self.target[:, :, :3].contiguous(), backend=backend
        )
        colors, others = difference[:, :, :3].mean(), difference[:, :, 3:].mean(dim=(0, 1)).sum()
        return 0.8 * colors + 0.2 * (1 - similarity) + 0.1 * others


def chain(model: str, formation: str) -> Chain:
    """Six splats so large that each covers the whole image with more than 1/255, none opaque enough for the clamp.

    The target differs from the picture by 0.05 to 0.3 everywhere, so that no difference of the L1 term changes sign.

    Raises:
        AssertionError: the scene is empty or comes near a cut-off: a gradient check on it would prove nothing.
    """
    made = splats(6, seed=11, spread=0.5)
    generator = torch.Generator().manual_seed(12)
    made["log_scales"] = (
        math.log(1.0) + SIZE[model] + 0.3 * torch.rand(6, 3, generator=generator, dtype=torch.float64)
    )
    made["opacity_logits"] = made["opacity_logits"].clamp(-0.8, 0.8)
    made["sh"] = made["sh"] * 0.3
    viewmat, intrinsics = camera(model)
    inputs = dict(zip(NAMES, (*geometry(made), made["sh"], viewmat, intrinsics), strict=True))
    with torch.no_grad():
        drawn = draw(inputs, model, formation)
        projected = drawn.projected
        assert (projected.radii > 0).all() and 0.5 < float(drawn.alpha.mean()) < 0.999
        raster_inputs = dict(projected._asdict(), features=drawn.features.new_zeros(6, 1))
        assert margin(raster_inputs, WIDTH, HEIGHT).min() > 1e-2
        assert sh_colors(made["means"], made["sh"], viewmat, degree=3, camera_model=model).min() > 0.05
        picture = torch.cat((drawn.features, drawn.alpha[:, :, None]), dim=2)
        offset = 0.05 + 0.25 * torch.rand(picture.shape, generator=generator, dtype=torch.float64)
        sign = torch.rand(picture.shape, generator=generator, dtype=torch.float64) < 0.5
    return Chain(inputs, picture + torch.where(sign, offset, -offset), model, formation)


class GradientCase(NamedTuple):
    """One row of the table: a scalar function of named float64 inputs."""

    name: str
    loss: Callable[..., Tensor]
    inputs: dict[str, Tensor]


def gradient_cases() -> Iterator[GradientCase]:
    """Every op and the whole chain in every mode, on the CPU backend."""
    for model in CAMERA_MODELS:
        made = splats(4, seed=3)
        viewmat, intrinsics = camera(model)
        geometric = dict(zip(NAMES[:4], geometry(made), strict=True), viewmat=viewmat, intrinsics=intrinsics)
        for formation, (_, dilation, antialiased) in FORMATIONS.items():

            def projected(
                model: str = model,
                dilation: float = dilation,
                antialiased: bool = antialiased,
                **inputs: Tensor,
            ) -> Tensor:
                outputs = project(
                    **inputs,
                    width=WIDTH,
                    height=HEIGHT,
                    camera_model=model,
                    dilation_px2=dilation,
                    antialiased=antialiased,
                    with_normals=True,
                )
                return weighted_sum(tuple(tensor for tensor in outputs[:5] if tensor is not None))

            yield GradientCase(f"project, {model}, {formation}", projected, geometric)
        for decode in (False, True):
            fixed = (
                {} if model == "perspective" else {"means": made["means"]}
            )  # no gradient to orthographic means
            inputs = {"means": made["means"], "sh": made["sh"], "viewmat": viewmat}
            checked = {name: tensor for name, tensor in inputs.items() if name not in fixed}

            def colored(
                model: str = model, decode: bool = decode, fixed: dict[str, Tensor] = fixed, **inputs: Tensor
            ) -> Tensor:
                return weighted_sum(
                    (sh_colors(**fixed, **inputs, degree=3, camera_model=model, decode=decode),)
                )

            yield GradientCase(f"sh_colors, {model}, decode {decode}", colored, checked)
    for padding in ("same", "valid", "reflect"):
        generator = torch.Generator().manual_seed(2)
        image, target = torch.rand(2, 12, 14, 3, generator=generator, dtype=torch.float64)

        def similarity(image: Tensor, target: Tensor = target, padding: str = padding) -> Tensor:
            return ssim(image, target, padding=padding)

        yield GradientCase(f"ssim, {padding}", similarity, {"image": image})
    for model in CAMERA_MODELS:
        for formation in FORMATIONS:
            made_chain = chain(model, formation)
            yield GradientCase(f"chain, {model}, {formation}", made_chain.loss, made_chain.inputs)
