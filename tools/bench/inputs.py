"""The standard inputs on which splat engines are compared: random splats in the unit ball.

The definition is that of ``../shared/bench/README.md``, so that figures stand beside those of peers: the draws
come from ``numpy.random.default_rng(1234)`` in the order means, log-scales, quaternions, opacities, colours, SH,
cotangent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import SH_C0
from splat_engine.formats.splats import Splats

CASES = {"c10k_256": (10_000, 256), "c50k_512": (50_000, 512), "c200k_800": (200_000, 800)}
FIELD_OF_VIEW_RAD = math.radians(50)
CAMERA_DISTANCE = 3.0


@dataclass(frozen=True)
class BenchInput:
    """One standard input.

    Attributes:
        splats: N splats of SH degree 3.
        camera: Looks at the origin from three units away.
        image_cotangent: [H, W, 3] float32, the gradient that a backward pass starts from.
    """

    splats: Splats
    camera: Camera
    image_cotangent: NDArray[np.float32]


def make_input(count: int, size_px: int, seed: int = 1234, *, height_px: int | None = None) -> BenchInput:
    """Makes an input of any size; the standard ones are ``make_input(*CASES[name])``.

    Args:
        count: Number of splats.
        size_px: Width of the image, and its height if that is not given.
        seed: Seed of numpy's default generator.
        height_px: Height of the image.
    """
    height_px = size_px if height_px is None else height_px
    random = np.random.default_rng(seed)
    directions = random.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    means = directions * np.cbrt(random.uniform(size=count))[:, None]
    log_scales = math.log(0.5 / count ** (1 / 3)) + 0.4 * random.normal(size=(count, 3))
    quats = random.normal(size=(count, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    opacity_logits = 1.5 * random.normal(size=count)
    sh = np.zeros((count, 16, 3))
    sh[:, 0] = (random.uniform(size=(count, 3)) - 0.5) / SH_C0
    sh[:, 1:] = 0.1 * random.normal(size=(count, 15, 3))
    cotangent = random.normal(size=(height_px, size_px, 3)) / (height_px * size_px * 3)
    splats = Splats(_single(means), _single(log_scales), _single(quats), _single(opacity_logits), _single(sh))
    return BenchInput(splats, camera_of(size_px, height_px), _single(cotangent))


def _single(array: NDArray[np.float64]) -> NDArray[np.float32]:
    return array.astype(np.float32)


def camera_of(size_px: int, height_px: int | None = None) -> Camera:
    """Returns the camera of an input: ``size_px`` wide, and as high if nothing else is said."""
    height_px = size_px if height_px is None else height_px
    focal_px = size_px / 2 / math.tan(FIELD_OF_VIEW_RAD / 2)
    pose = np.eye(4)
    pose[2, 3] = -CAMERA_DISTANCE
    return Camera(size_px, height_px, focal_px, focal_px, size_px / 2, height_px / 2, pose)
