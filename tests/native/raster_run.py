"""Renders a fixed scene with the numpy API and saves all results: ``python raster_run.py OUT.npz``. Run by test_isa.py."""

from __future__ import annotations

import sys

import numpy as np

from splat_engine import native
from splat_engine.native.rasterize import Rasterization

WIDTH, HEIGHT = 75, 58


def scene(dtype: type[np.floating], channels: int = 3, count: int = 400) -> dict[str, np.ndarray]:
    """Arguments of ``Rasterization`` without the image's size."""
    random = np.random.default_rng(4)
    sigmas = np.exp(random.uniform(np.log(0.4), np.log(8), (count, 2)))
    angle = random.uniform(0, np.pi, count)
    cosine, sine = np.cos(angle), np.sin(angle)
    first, second = sigmas.T**-2
    conics = [
        cosine**2 * first + sine**2 * second,
        cosine * sine * (first - second),
        sine**2 * first + cosine**2 * second,
    ]
    made = {
        "means2d": random.uniform(-0.1, 1.1, (count, 2)) * [WIDTH, HEIGHT],
        "conics": np.stack(conics, axis=1),
        "opacities": random.uniform(0, 1, count),
        "features": random.uniform(-0.5, 1.5, (count, channels)),
        "depths": random.uniform(1, 2, count),
        "background": random.uniform(0, 1, channels),
    }
    return {name: array.astype(dtype) for name, array in made.items()}


def slopes(dtype: type[np.floating], count: int = 400) -> np.ndarray:
    """[count, 2] slopes of the depths with which neighbouring pixels have other orders."""
    return np.random.default_rng(6).uniform(-0.05, 0.05, (count, 2)).astype(dtype)


def run(dtype: type[np.floating], channels: int, *, by_ray: bool = False) -> dict[str, np.ndarray]:
    """Image, alpha and all gradients for a fixed cotangent."""
    order = {"depth_slopes": slopes(dtype)} if by_ray else {}
    result = Rasterization(**scene(dtype, channels), **order, width=WIDTH, height=HEIGHT)
    random = np.random.default_rng(5)
    v_image, v_alpha = random.normal(size=result.image.shape), random.normal(size=result.alpha.shape)
    gradients = result.backward(v_image, v_alpha)._asdict()
    named = {"image": result.image, "alpha": result.alpha, **gradients}
    kind = f"{np.dtype(dtype).name}_{channels}{'_ray' if by_ray else ''}"
    return {f"{kind}_{name}": array for name, array in named.items()}


if __name__ == "__main__":
    results = {"isa": np.array(native.isa())}
    for scalar in (np.float32, np.float64):
        for channel_count in (1, 3, 4, 7, 8):
            results.update(run(scalar, channel_count))
        results.update(run(scalar, 3, by_ray=True))
    np.savez(sys.argv[1], **results)
