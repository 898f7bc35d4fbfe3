"""Settings of a fit: what is fitted, to what, for how long, and at what rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from splat_engine.formats.conventions import Formation
from splat_engine.formats.settings.declare import setting
from splat_engine.formats.settings.density import StrategyName

Target = Literal["auto", "linear", "display"]
Preset = Literal["draft", "standard", "high"]


@dataclass(frozen=True)
class FitSettings:
    """What is fitted, to what, and for how long."""

    preset: Preset = setting(
        "standard",
        "Quality",
        "Draft in seconds, standard in a minute, or high in minutes: steps and splats, and views and samples of a capture; "
        "each of them can be set by itself.",
    )
    steps: int = setting(
        2000,
        "Steps",
        "Number of optimisation steps, one view each.",
        unit="steps",
        minimum=0,
        maximum=10**7,
        soft=(100, 30000),
    )
    formation: Formation = setting(
        "blender", "Look", "Draw as Blender 5.3 does, or as web viewers and other trainers do."
    )
    target: Target = setting(
        "auto", "Colours", "Fit scene-linear light, display colours, or what the capture says."
    )
    sh_degree: int = setting(3, "SH Degree", "Degree of the view-dependent colour.", minimum=0, maximum=3)
    sh_interval: int = setting(
        100, "SH Interval", "Steps between two raises of the degree.", unit="steps", minimum=1
    )
    max_splats: int = setting(
        200000,
        "Most Splats",
        "No strategy goes beyond this number.",
        minimum=1,
        maximum=10**8,
        soft=(1000, 2e6),
    )
    min_sigma_px: float = setting(
        0.3,
        "Least Size",
        "No splat becomes thinner than this in the nearest view that sees it; 0: no bound. Look 'blender' alone.",
        unit="px",
        minimum=0,
        maximum=10,
    )
    strategy: StrategyName = setting(
        "auto",
        "Densification",
        "How the number of splats changes; auto: not at all where the first ones cover the surfaces, else adaptive.",
    )
    device: str = setting(
        "auto",
        "Device",
        "Where to fit: on the processor, on an NVIDIA card, or on a card where there is one.",
        choices=("auto", "cpu", "cuda"),
        pattern=r"cuda:\d{1,2}",
        pattern_help="cuda:N for the card of that number",
    )
    image_memory_mb: int = setting(
        4096,
        "Picture Memory",
        "Most memory for views; those beyond it are read from disk each time. On a card, those that do not fit into a "
        "quarter of its free memory are sent anew each time.",
        unit="MB",
        minimum=0,
        maximum=10**7,
    )
    threads: int = setting(0, "Threads", "CPU threads; 0: all.", minimum=0, maximum=4096)
    seed: int = setting(0, "Seed", "Same seed, same splats on one machine.", minimum=0, maximum=2**31 - 1)
    snapshot_interval: int = setting(
        500, "Snapshot Interval", "Steps between two snapshots; 0: none.", unit="steps", minimum=0
    )
    checkpoint_interval: int = setting(
        1000,
        "Checkpoint Interval",
        "Steps between two checkpoints: what a crash can lose. 0: only on save, stop and at the end.",
        unit="steps",
        minimum=0,
    )


@dataclass(frozen=True)
class OptimizerSettings:
    """Adam's learning rates, for a few thousand steps from points on the surfaces."""

    # Several times those of Kerbl et al. 2023, whose fits take 30 000 steps, and falling to the end. With them 1000
    # steps on shared/data/dataset/suzanne256 give 38 dB held out in place of 33.4.
    means: float = setting(
        5e-4, "Means", "Learning rate of the centres, times the scene's extent.", minimum=0, maximum=1
    )
    means_final: float = setting(
        2e-5, "Means, End", "The same at the last step; exponential in between.", minimum=0, maximum=1
    )
    final_share: float = setting(
        0.3,
        "Others, End",
        "Share of the other rates that is left at the last step; exponential in between.",
        minimum=0,
        maximum=1,
        shape="share",
    )
    log_scales: float = setting(4e-2, "Scales", "Learning rate of the log-scales.", minimum=0, maximum=1)
    quats: float = setting(4e-3, "Rotations", "Learning rate of the quaternions.", minimum=0, maximum=1)
    opacity_logits: float = setting(
        0.05, "Opacities", "Learning rate of the opacity logits.", minimum=0, maximum=10
    )
    sh_dc: float = setting(2e-2, "Colour", "Learning rate of the constant colour.", minimum=0, maximum=1)
    sh_rest: float = setting(
        3e-3, "Colour, Directional", "Learning rate of the other SH coefficients.", minimum=0, maximum=1
    )
    sparse: bool = setting(
        False, "Only Seen Splats", "Update only what the step's view sees: faster in scenes seen in parts."
    )
