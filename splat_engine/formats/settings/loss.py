"""Settings of what a fit minimises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from splat_engine.formats.settings.declare import setting

LossSpace = Literal["auto", "encoded", "linear"]


@dataclass(frozen=True)
class LossSettings:
    """How drawn views are compared with the capture's."""

    loss_space: LossSpace = setting(
        "encoded",
        "Loss",
        "Compare encoded values, sharper; or linear light, which noisy views do not bias; or by the capture's samples.",
    )
    ssim_weight: float = setting(
        0.2,
        "SSIM Weight",
        "Share of D-SSIM in the loss of encoded values; the rest is L1.",
        minimum=0,
        maximum=1,
        shape="share",
    )
    mse_weight: float = setting(0.0, "MSE Weight", "Weight of the squared error.", minimum=0, maximum=1000)
    alpha_weight: float = setting(
        0.1, "Alpha Weight", "Weight of the L1 loss on alpha.", minimum=0, maximum=1000
    )
    depth_weight: float = setting(
        0.0,
        "Depth Weight",
        "Weight of the L1 loss on depth, relative to the scene's extent.",
        minimum=0,
        maximum=1000,
    )
    normal_weight: float = setting(
        0.0, "Normal Weight", "Weight of the loss on normals.", minimum=0, maximum=1000
    )
    random_background: bool = setting(
        True,
        "Random Background",
        "Compose alpha over random colours, so that no splat paints the background.",
    )
