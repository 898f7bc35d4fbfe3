"""project and sh_colors for numpy arrays: they are the torch ops' forwards, and draw an image without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from splat_engine import ops
from splat_engine.formats.errors import UserError
from splat_engine.native.project import project, sh_colors

ROOT = Path(__file__).resolve().parents[2]


def scene(count: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    viewmat = np.eye(4)
    viewmat[2, 3] = 4.0
    made = {
        "means": random.uniform(-1, 1, (count, 3)),
        "log_scales": random.uniform(-3, -1, (count, 3)),
        "quats_wxyz": random.normal(size=(count, 4)),
        "opacity_logits": random.normal(size=count),
        "viewmat": viewmat,
        "intrinsics": np.array([50.0, 55.0, 20.0, 16.0]),
        "sh": random.normal(size=(count, 9, 3)),
    }
    return {name: array.astype(dtype) for name, array in made.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("orthographic", [False, True])
def test_equals_the_torch_ops_bit_by_bit(dtype: type, orthographic: bool) -> None:
    """The same kernels behind numpy and torch: every number is the same."""
    made = scene(50, dtype)
    sh = made.pop("sh")
    options = {"width": 40, "height": 32, "dilation_px2": 0.1, "antialiased": True, "with_depth_slopes": True}
    arrays = project(**made, orthographic=orthographic, **options)
    tensors = {name: torch.from_numpy(array) for name, array in made.items()}
    model = "orthographic" if orthographic else "perspective"
    expected = ops.project(**tensors, camera_model=model, **options)
    assert (arrays.radii > 0).all(axis=1).sum() > 10
    for name, array in arrays._asdict().items():
        assert np.array_equal(array, getattr(expected, name).numpy()), name
    colors = sh_colors(made["means"], sh, made["viewmat"], degree=2, orthographic=orthographic, decode=True)
    expected_colors = ops.sh_colors(
        tensors["means"], torch.from_numpy(sh), tensors["viewmat"], degree=2, camera_model=model, decode=True
    )
    assert np.array_equal(colors, expected_colors.numpy()) and colors.any()


def test_an_image_without_torch() -> None:
    """Splats to pixels in a Python that never imports torch."""
    code = """
import sys
import numpy as np
from splat_engine.native.project import project, sh_colors
from splat_engine.native.rasterize import Rasterization
viewmat = np.eye(4); viewmat[2, 3] = 3.0
means = np.zeros((1, 3))
splat = project(means, np.full((1, 3), -1.0), np.array([[1.0, 0, 0, 0]]), np.array([3.0]), viewmat,
                np.array([30.0, 30.0, 8.0, 8.0]), 16, 16)
colors = sh_colors(means, np.full((1, 1, 3), 1.0), viewmat, degree=0)
image = Rasterization(splat.means2d, splat.conics, splat.opacities, colors, splat.depths, 16, 16).image
assert image[8, 8].min() > 0.5 and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_no_splats() -> None:
    """N = 0 gives empty arrays."""
    made = scene(0)
    sh = made.pop("sh")
    assert project(**made, width=40, height=32).conics.shape == (0, 3)
    assert sh_colors(made["means"], sh, made["viewmat"], degree=2).shape == (0, 3)


def test_wrong_arguments_are_refused() -> None:
    """Another shape or type is a ValueError, a degree that does not fit a UserError: each says what was expected."""
    made = scene(4)
    sh = made.pop("sh")
    with pytest.raises(ValueError, match=r"quats_wxyz: expected shape \[4, 4\], got \[4, 3\]"):
        project(**{**made, "quats_wxyz": np.zeros((4, 3))}, width=40, height=32)
    with pytest.raises(ValueError, match="expected float32 or float64"):
        project(**{**made, "means": np.zeros((4, 3), int)}, width=40, height=32)
    with pytest.raises(ValueError, match="sh: expected shape"):
        sh_colors(made["means"], sh[:2], made["viewmat"], degree=1)
    with pytest.raises(UserError, match="needs 16 coefficients, got 9"):
        sh_colors(made["means"], sh, made["viewmat"], degree=3)
    with pytest.raises(UserError, match="must be 0 to 3"):
        sh_colors(made["means"], sh, made["viewmat"], degree=4)
