"""Settings of the strategies that change the number of splats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from splat_engine.formats.settings.declare import setting

StrategyName = Literal["auto", "none", "adaptive", "absolute", "mcmc", "budget", "error"]


@dataclass(frozen=True)
class DensifySettings:
    """How the number of splats changes."""

    start: int = setting(
        200, "From", "First step that may change the number of splats.", unit="steps", minimum=0
    )
    stop_share: float = setting(
        0.7, "Until", "Share of all steps after which the number stays.", minimum=0, maximum=1, shape="share"
    )
    interval: int = setting(100, "Interval", "Steps between two changes.", unit="steps", minimum=1)
    gradient: float = setting(
        3e-4,
        "Gradient",
        "Mean screen-space gradient (in half image widths) above which a splat is cloned or split.",
        minimum=0,
    )
    absolute_gradient: float = setting(
        4e-4,
        "Gradient, Absolute",
        "The same of the gradient's absolute values, for the strategy of that name.",
        minimum=0,
    )
    split_size: float = setting(
        0.01,
        "Split Size",
        "Splats larger than this share of the scene's extent are split, others cloned.",
        minimum=0,
        maximum=1,
        shape="share",
    )
    prune_opacity: float = setting(
        0.005, "Prune Opacity", "Splats weaker than this are removed.", minimum=0, maximum=1, shape="share"
    )
    prune_size: float = setting(
        0.5, "Prune Size", "Splats larger than this share of the scene's extent are removed.", minimum=0
    )
    sort_interval: int = setting(
        0,
        "Sort Interval",
        "Every how many-th change of the splats' number also sorts them in memory by their place in space; 0: never.",
        minimum=0,
    )
    reset_interval: int = setting(
        0, "Reset Interval", "Steps between two opacity resets; 0: none.", unit="steps", minimum=0
    )
    looks: int = setting(
        8,
        "Looks",
        "Training views that the strategies 'budget' and 'error' look at before each change.",
        minimum=1,
        maximum=10**6,
    )
    noise: float = setting(
        100.0,
        "Noise",
        "Strategy 'mcmc': how far faint splats wander, relative to the learning rate of the centres.",
        minimum=0,
        maximum=1e9,
    )
    opacity_decay: float = setting(
        0.0,
        "Opacity Decay",
        "Strategy 'mcmc': share of its learning rate by which each step lowers opacity, so that idle splats fade.",
        minimum=0,
        maximum=1,
    )
    scale_decay: float = setting(
        0.0,
        "Scale Decay",
        "Strategy 'mcmc': share of its learning rate by which each step lowers the log-scales.",
        minimum=0,
        maximum=1,
    )
