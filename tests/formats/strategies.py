"""What hypothesis draws for the tests of the formats."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.splats import Splats

SEEDS = st.integers(0, 2**32 - 1)
FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def rotations(draw: st.DrawFn) -> NDArray[np.float64]:
    """Draws a [3, 3] rotation, uniformly."""
    q = np.random.default_rng(draw(SEEDS)).normal(size=4)
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@st.composite
def poses(draw: st.DrawFn) -> NDArray[np.float64]:
    """Draws a [4, 4] rigid transform."""
    pose = np.eye(4)
    pose[:3, :3] = draw(rotations())
    pose[:3, 3] = [draw(st.floats(-100, 100)) for _ in range(3)]
    return pose


@st.composite
def cameras(draw: st.DrawFn) -> Camera:
    """Draws a camera of either model with square or oblong pixels and a shifted centre."""
    width, height = draw(st.integers(1, 4000)), draw(st.integers(1, 4000))
    return Camera(
        width=width,
        height=height,
        fx=draw(st.floats(0.5, 5000)),
        fy=draw(st.floats(0.5, 5000)),
        cx=draw(st.floats(-1, 2)) * width,
        cy=draw(st.floats(-1, 2)) * height,
        world_from_camera=draw(poses()),
        model=draw(st.sampled_from(["perspective", "orthographic"])),
        near=draw(st.floats(0, 1)),
        far=draw(st.floats(1.5, 1e6)),
        name=draw(st.text(max_size=8)),
    )


def random_splats(count: int, degree: int, seed: int = 0) -> Splats:
    """Returns a cloud of random splats."""
    rng = np.random.default_rng(seed)
    return Splats(
        means=rng.normal(size=(count, 3)),
        log_scales=rng.normal(-3, 1, (count, 3)),
        quats_wxyz=rng.normal(size=(count, 4)),
        opacity_logits=rng.normal(size=count),
        sh=rng.normal(size=(count, (degree + 1) ** 2, 3)),
    )
