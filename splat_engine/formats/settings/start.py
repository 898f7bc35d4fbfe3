"""Settings of the first splats of a fit."""

from __future__ import annotations

from dataclasses import dataclass

from splat_engine.formats.settings.declare import setting

RANDOM_START = "random"
"""The start that is no file: random points, also where the capture has some."""


@dataclass(frozen=True)
class StartSettings:
    """Where the first splats of a fit come from, and how they look."""

    start: str = setting(
        "",
        "Start",
        "PLY of points or of splats to start from, COLMAP's points3D.bin, points3D.txt or their folder, or 'random'; "
        "empty: the surfaces that the views show, else the capture's init.ply, else random.",
    )
    start_splats: int = setting(
        50000,
        "Start Splats",
        "Number of splats that are laid on the surfaces that the views show.",
        minimum=1,
        maximum=10**8,
    )
    start_opacity: float = setting(
        0.5,
        "Start Opacity",
        "Opacity of the first splats; of random ones at most 0.1.",
        minimum=0.01,
        maximum=0.98,
        shape="share",
    )
    random_points: int = setting(
        20000,
        "Random Points",
        "Number of splats where nothing says where to start.",
        minimum=1,
        maximum=10**8,
    )
