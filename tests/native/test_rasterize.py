"""The rasterizer for numpy arrays: values that can be computed by hand, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest

from splat_engine import native
from splat_engine.native.rasterize import Rasterization

VARIANCE_PX2 = 9.0


def one_splat(dtype: type[np.floating] = np.float64) -> dict[str, np.ndarray]:
    """A round splat at (10.5, 8.5) of opacity 0.7."""
    made = {
        "means2d": np.array([[10.5, 8.5]]),
        "conics": np.array([[1 / VARIANCE_PX2, 0, 1 / VARIANCE_PX2]]),
        "opacities": np.array([0.7]),
        "features": np.array([[1.0, 0.5]]),
        "depths": np.array([1.0]),
        "background": np.array([0.2, 0.4]),
    }
    return {name: array.astype(dtype) for name, array in made.items()}


def gaussian() -> np.ndarray:
    """[17, 21] exp(-d^2 / 2 variance) at the pixel centres."""
    x, y = np.arange(21) + 0.5, np.arange(17)[:, None] + 0.5
    return np.exp(-0.5 * ((x - 10.5) ** 2 + (y - 8.5) ** 2) / VARIANCE_PX2)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 3e-7), (np.float64, 1e-15)])
def test_one_splat_by_hand(dtype: type[np.floating], tolerance: float) -> None:
    """Alpha is 0.7 exp(-d^2 / 18) where that is at least 1/255; the image blends feature and background by it."""
    result = Rasterization(**one_splat(dtype), width=21, height=17)
    alpha = 0.7 * gaussian()
    alpha[alpha < 1 / 255] = 0
    assert (alpha == 0).any() and alpha.max() == pytest.approx(0.7)
    assert np.abs(result.alpha - alpha).max() < tolerance
    expected = alpha[..., None] * [1.0, 0.5] + (1 - alpha[..., None]) * [0.2, 0.4]
    assert np.abs(result.image - expected).max() < 2 * tolerance


def test_gradients_by_hand() -> None:
    """For the loss sum(alpha): to opacity sum(G), to a feature 0, to the mean 0 by symmetry, to the conic the moments."""
    arguments = one_splat()
    result = Rasterization(**arguments, width=21, height=17)
    gradients = result.backward(np.zeros((17, 21, 2)), np.ones((17, 21)))
    weight = gaussian() * (result.alpha > 0)
    x = np.arange(21) - 10.0
    assert gradients.opacities[0] == pytest.approx(weight.sum())
    assert not gradients.features.any()
    assert gradients.means2d[0] == pytest.approx([0, 0], abs=1e-12)
    assert gradients.conics[0, 0] == pytest.approx(-0.35 * (weight * x**2).sum())
    assert gradients.conics[0, 1] == pytest.approx(0, abs=1e-12)


def test_no_splats() -> None:
    """N = 0 gives the background and empty gradients."""
    arguments = {name: array[:0] if name != "background" else array for name, array in one_splat().items()}
    result = Rasterization(**arguments, width=5, height=3)
    assert (result.image == [0.2, 0.4]).all() and not result.alpha.any()
    gradients = result.backward(np.ones((3, 5, 2)))
    assert gradients.means2d.shape == (0, 2)
    assert gradients.background == pytest.approx([15, 15])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conics": np.zeros((1, 2))}, r"conics: expected shape \[1, 3\], got \[1, 2\]"),
        ({"opacities": np.zeros(2)}, r"opacities: expected shape \[1\], got \[2\]"),
        ({"means2d": np.zeros((1, 2), np.float16)}, "expected float32 or float64"),
        ({"background": np.zeros(3)}, r"background: expected shape \[2\], got \[3\]"),
    ],
)
def test_wrong_arguments(change: dict[str, np.ndarray], message: str) -> None:
    """A wrong shape or type is a ValueError that says what was expected."""
    with pytest.raises(ValueError, match=message):
        Rasterization(**{**one_splat(), **change}, width=5, height=5)


def test_wrong_cotangent() -> None:
    """A cotangent of another size is refused before the library sees it."""
    result = Rasterization(**one_splat(), width=5, height=5)
    with pytest.raises(ValueError, match=r"v_image: expected shape \[5, 5, 2\]"):
        result.backward(np.zeros((5, 4, 2)))


def test_trimming_keeps_what_is_in_use() -> None:
    """Memory is given back between a forward and its backward, and the gradients are those without."""
    result = Rasterization(**one_splat(), width=21, height=17)
    cotangent = np.ones((17, 21, 2))
    before = result.backward(cotangent)
    native.trim_memory()
    after = result.backward(cotangent)
    assert before.opacities[0] != 0
    assert all(np.array_equal(first, second) for first, second in zip(before, after, strict=True))
