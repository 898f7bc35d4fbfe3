"""The op ``project_colors``: ``project`` and ``sh_colors`` in one call, and where the fit uses it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from splat_scenes import HEIGHT, WIDTH, camera, geometry, splats
from torch import Tensor

from splat_engine.fit import drawing
from splat_engine.fit.formation import ImageFormation
from splat_engine.formats.cameras import Camera
from splat_engine.ops import Projected, project, project_colors, sh_colors
from splat_engine.ops.project import CAMERA_MODELS


def arguments(count: int, model: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """The tensors of the op, of a scene that is partly culled."""
    made = splats(count, dtype, spread=3.0)
    return (*geometry(made), made["sh"], *camera(model, dtype))


@pytest.mark.parametrize("model", CAMERA_MODELS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("extra", ["", "normals", "depth_slopes"])
@pytest.mark.parametrize("count", [0, 90])
def test_it_is_both_ops(model: str, backend: str, extra: str, count: int) -> None:
    """Bit for bit, and without gradients whatever is asked of the inputs."""
    *shape, sh, viewmat, intrinsics = (tensor.requires_grad_() for tensor in arguments(count, model))
    shared = {"camera_model": model, "backend": backend}
    options: dict[str, Any] = {"dilation_px2": 0.1, "antialiased": True}
    if extra:
        options[f"with_{extra}"] = True
    size = (WIDTH, HEIGHT)
    got, colors = project_colors(
        *shape, sh, viewmat, intrinsics, *size, degree=2, decode=True, **options, **shared
    )
    want = project(*shape, viewmat, intrinsics, *size, **options, **shared)
    expected = sh_colors(shape[0], sh, viewmat, degree=2, decode=True, **shared)
    for name, one, two in zip(Projected._fields, got, want, strict=True):
        assert (one is None) == (two is None) == (name in ("normals", "depth_slopes") and name != extra)
        assert one is None or (torch.equal(one, two) and not one.requires_grad), name
    assert torch.equal(colors, expected) and not colors.requires_grad
    assert count == 0 or (colors.any() and (got.radii[:, 0] == 0).any())


@pytest.mark.parametrize("name", ["blender", "classic"])
def test_the_fit_draws_the_same_with_and_without_gradients(name: Any) -> None:
    """``to_screen`` goes one way or the other by whether a gradient is asked, and gives the same bits."""
    *shape, sh, viewmat, intrinsics = arguments(80, "perspective")
    names = ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh")
    params = dict(zip(names, (*shape, sh), strict=True))
    fx, fy, cx, cy = intrinsics.tolist()
    seen_by = Camera(WIDTH, HEIGHT, fx, fy, cx, cy, torch.linalg.inv(viewmat.double()).numpy())
    view = (viewmat, intrinsics, seen_by, ImageFormation(name))
    plain = drawing.to_screen(params, *view, with_normals=True)
    leaves = {key: value.clone().requires_grad_() for key, value in params.items()}
    followed = drawing.to_screen(leaves, *view, with_normals=True)
    with torch.no_grad():
        left_alone = drawing.to_screen(leaves, *view, with_normals=True)
    assert followed.colors.requires_grad and not left_alone.colors.requires_grad
    for screen in (followed, left_alone):
        assert torch.equal(screen.colors, plain.colors)
        pairs = [pair for pair in zip(screen.projected, plain.projected, strict=True) if pair != (None, None)]
        assert len(pairs) == (7 if name == "blender" else 6) and all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("backend", ["cpu", "reference", "cuda"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 4}, "degree: expected 0 to 3"),
        ({"camera_model": "fisheye"}, "unknown camera_model"),
        ({"near": 0.0}, "near: expected more than 0"),
    ],
)
def test_bad_arguments_are_refused(backend: str, change: dict[str, Any], message: str) -> None:
    """On every backend in the same words, before a card is asked for."""
    with pytest.raises(ValueError, match=message):
        project_colors(
            *arguments(5, "perspective"), WIDTH, HEIGHT, **{"degree": 3, "backend": backend, **change}
        )
