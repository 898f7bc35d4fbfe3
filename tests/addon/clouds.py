"""Clouds that several tests use."""

from __future__ import annotations

import numpy as np

from splat_engine.formats.conventions import sh_count
from splat_engine.formats.splats import Splats


def cloud(count: int = 50, degree: int = 3, seed: int = 0) -> Splats:
    random = np.random.default_rng(seed)
    return Splats(
        means=random.normal(size=(count, 3)),
        log_scales=random.uniform(-4, -1, (count, 3)),
        quats_wxyz=random.normal(size=(count, 4)),
        opacity_logits=random.normal(size=count),
        sh=random.normal(size=(count, sh_count(degree), 3)),
        metadata={"formation": "blender"},
    )
