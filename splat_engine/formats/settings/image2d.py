"""Settings of the fit of a picture with 2D Gaussians."""

from __future__ import annotations

from dataclasses import dataclass

from splat_engine.formats.settings.declare import setting


@dataclass(frozen=True)
class ImageFitSettings:
    """How a picture is fitted with 2D Gaussians."""

    count: int = setting(300, "Gaussians", "Number of 2D Gaussians.", minimum=1, maximum=10**7)
    steps: int = setting(
        600, "Steps", "Number of optimisation steps.", unit="steps", minimum=0, maximum=10**7
    )
    rate_means: float = setting(
        2e-3, "Centres", "Learning rate of the centres, times the picture's width.", minimum=0, maximum=1
    )
    rate_colors: float = setting(1e-2, "Colours", "Learning rate of the colours.", minimum=0, maximum=1)
    rate_shapes: float = setting(
        5e-3, "Shapes", "Learning rate of log-scales, angles and opacities.", minimum=0, maximum=1
    )
    start_opacity: float = setting(
        0.5, "Start Opacity", "Opacity of the first Gaussians.", minimum=0.01, maximum=0.98
    )
    longest_px: int = setting(
        512, "Longest Side", "A larger picture is shrunk to this; 0: never.", unit="px", minimum=0
    )
    seed: int = setting(0, "Seed", "Same seed, same result.", minimum=0, maximum=2**31 - 1)
