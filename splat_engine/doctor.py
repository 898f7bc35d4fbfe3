"""What ``splat-engine doctor`` finds out: versions, memory, cards, and a fit of one second by the real kernels."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from typing import Any

import torch

from splat_engine import native
from splat_engine.fit.drawing import blend, draw, screen_gradients, screen_leaves
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.memory import system_bytes, words
from splat_engine.fit.metrics import psnr_db
from splat_engine.fit.model import SplatState
from splat_engine.fit.optimizer import Adam, Seen
from splat_engine.fit.schedule import Schedule
from splat_engine.formats.cameras import Camera
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import OptimizerSettings
from splat_engine.ops import photometric_loss
from splat_engine.ops._cuda.report import describe_cuda

SECONDS = 1.0
GAIN_MIN_DB = 1.0
"""A fit that does not gain this much in a second is broken, however slow the machine."""


def examine(card_bytes: tuple[int, int] | None = None) -> dict[str, Any]:
    """Returns what was found, as plain values in the order to tell them.

    Args:
        card_bytes: (free, total) memory of the card that fits would run on; None: the processor's is told.

    Raises:
        UserError: The fit does not learn.
    """
    steps, first_db, last_db = one_second_fit()
    facts = {
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        **{name: metadata.version(name) for name in ("torch", "numpy", "OpenEXR", "pillow", "scipy")},
        "native library": str(native.library_path()),
        "instruction set": native.isa(),
        "threads": native.get_num_threads(),
        "memory": _memory(card_bytes),
        **describe_cuda(),
        "fit of one second": f"{steps} steps, {first_db:.1f} to {last_db:.1f} dB",
    }
    if last_db < first_db + GAIN_MIN_DB:
        raise UserError(
            f"The fit of one second does not learn: {first_db:.1f} to {last_db:.1f} dB in {steps} steps.",
            "Please report this, with what `splat-engine info` and your processor's name say.",
        )
    return facts


def _memory(card_bytes: tuple[int, int] | None) -> str:
    free, total = card_bytes or system_bytes()
    if free is not None and total is not None:
        return f"{words(free)} of {words(total)} free"
    try:
        return words(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return "unknown"


def one_second_fit(seconds: float = SECONDS) -> tuple[int, float, float]:
    """Fits 500 splats to a picture of other splats; returns steps, and PSNR in dB at the first and the last."""
    camera = Camera(96, 96, 100.0, 100.0, 48.0, 48.0, _pose())
    generator = torch.Generator().manual_seed(1)
    formation = ImageFormation("blender")
    viewmat = torch.from_numpy(camera.viewmat).float()
    intrinsics = torch.from_numpy(camera.intrinsics).float()
    black = torch.zeros(3)

    target = draw(_splats(generator).params, viewmat, intrinsics, camera, formation, background=black)
    state = _splats(generator)
    adam = Adam(OptimizerSettings(sh_dc=0.02), formation, extent=10.0, schedule=Schedule(1000))
    errors: list[float] = []
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s or len(errors) < 20:
        screen = screen_leaves(state.params, viewmat, intrinsics, camera, formation)
        drawn = blend(screen, camera, background=black)
        loss = photometric_loss(
            drawn.blended, drawn.alpha, target.blended, target.alpha, black, encode=True, ssim_weight=0.2
        )
        errors.append(loss.squared.item())
        gradients = screen_gradients(loss.loss, screen)
        seen = Seen(gradients, screen.projected.radii, viewmat, intrinsics, camera)
        adam.step(state, seen, len(errors))
    return len(errors), psnr_db(errors[0]), psnr_db(errors[-1])


def _pose() -> Any:
    pose = torch.eye(4, dtype=torch.float64)
    pose[2, 3] = -4.0
    return pose.numpy()


def _splats(generator: torch.Generator, count: int = 500) -> SplatState:
    def random(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator)

    return SplatState(
        {
            "means": random(count, 3) * 2 - 1,
            "log_scales": random(count, 3) - 3.0,
            "quats_wxyz": random(count, 4) - 0.5,
            "opacity_logits": random(count) * 2 - 1,
            "sh": random(count, 1, 3) * 2 - 1,
        }
    )
