"""Pictures out of drawn views: 8-bit PNG for the eye, multilayer EXR for further work."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from splat_engine.fit.drawing import Drawn, blend, to_screen
from splat_engine.fit.exr import write_layers
from splat_engine.fit.formation import ImageFormation, decode_srgb
from splat_engine.fit.pixel_filter import draw_through_filter
from splat_engine.fit.place import send
from splat_engine.fit.views import camera_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.files import write_bytes

ALPHA_FLOOR = 1e-6
"""Below this alpha a pixel has no colour."""


@torch.no_grad()
def draw_view(
    params: Mapping[str, Tensor],
    camera: Camera,
    formation: ImageFormation,
    *,
    with_geometry: bool = False,
    through_filter: bool = False,
    backend: str = "cpu",
) -> Drawn:
    """Draws a view over black, without gradients.

    Args:
        params, camera, formation: As for ``draw``.
        with_geometry: Add depth and normals, which go through no filter.
        through_filter: Colour and alpha as Blender shows them, through Cycles' pixel filter.
        backend: "cpu", "cuda" or "reference".
    """
    device = params["means"].device
    viewmat, intrinsics = (send(values, device) for values in camera_tensors(camera))
    black = torch.zeros(3, device=device)
    if through_filter and not with_geometry:
        return draw_through_filter(params, viewmat, camera, background=black, backend=backend)
    screen = to_screen(
        params, viewmat, intrinsics, camera, formation, with_normals=with_geometry, backend=backend
    )
    drawn = blend(screen, camera, background=black, with_depth=with_geometry, backend=backend)
    if not through_filter:
        return drawn
    shown = draw_through_filter(params, viewmat, camera, background=black, backend=backend)
    return drawn._replace(blended=shown.blended, alpha=shown.alpha)


def rgba8(drawn: Drawn, formation: ImageFormation, background: Tensor | None = None) -> NDArray[np.uint8]:
    """Returns a view drawn over black as an encoded picture.

    Args:
        drawn: The view.
        formation: The one it was drawn in.
        background: [3] encoded, to compose over; None keeps alpha, straight.

    Returns:
        [H, W, 4], or [H, W, 3] over a background.
    """
    if background is None:
        straight = drawn.blended / drawn.alpha.clamp_min(ALPHA_FLOOR)[..., None]
        picture = torch.cat((formation.picture(straight), drawn.alpha[..., None]), dim=-1)
    else:
        through = (1.0 - drawn.alpha)[..., None] * formation.from_encoded(
            send(background, drawn.alpha.device)
        )
        picture = formation.picture(drawn.blended + through)
    return to_8bit(picture)


def to_8bit(picture: Tensor) -> NDArray[np.uint8]:
    """Rounds values of 0 to 1 to 8 bits; values outside are cut."""
    return picture.detach().clamp(0, 1).mul(255).round().to(torch.uint8).cpu().numpy()


def write_png(path: Path, pixels: NDArray[np.uint8]) -> None:
    """Writes [H, W, 3 or 4] pixels as PNG, whole or not at all.

    Raises:
        UserError: The file cannot be written.
    """
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    write_bytes(path, stream.getvalue())


def write_exr(path: Path, drawn: Drawn, formation: ImageFormation) -> None:
    """Writes a view drawn over black as scene-linear premultiplied RGBA, with depth and normals if they were drawn.

    Raises:
        UserError: The file cannot be written.
    """
    alpha = drawn.alpha[..., None]
    linear = drawn.blended
    if not formation.is_linear:
        linear = decode_srgb(drawn.blended / alpha.clamp_min(ALPHA_FLOOR)) * alpha
    layers: dict[str, NDArray[Any]] = {"Combined": torch.cat((linear, alpha), dim=-1).cpu().numpy()}
    if drawn.depth is not None:
        layers["Depth"] = drawn.depth[..., None].cpu().numpy()
    if drawn.normals is not None:
        layers["Normal"] = torch.nn.functional.normalize(drawn.normals, dim=-1).cpu().numpy()
    write_layers(path, layers)
