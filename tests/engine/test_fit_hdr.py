"""Light brighter than white is fitted as what it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.drawing import draw
from splat_engine.formats.conventions import SH_C0, srgb_from_linear
from splat_engine.formats.settings import OptimizerSettings
from splat_engine.formats.splats import Splats
from tests.engine.run_settings import run_settings
from tests.engine.test_fit_trainer import trainer_of
from tests.engine.tiny_capture import known_splats, write_tiny_capture

EMITTED = 20.0
STEPS = 500
RATES = OptimizerSettings(means=2e-3, means_final=2e-4, log_scales=0.01, sh_dc=0.2, sh_rest=2e-3)
"""From white to an emission of 20 the constant colour has a long way, 10: quick, so that the test is short."""


def emitter() -> Splats:
    """A body whose upper half emits 20 times white."""
    splats = known_splats()
    sh = splats.sh.copy()
    sh[splats.means[:, 2] > 0] = (srgb_from_linear(np.array(EMITTED)) - 0.5) / SH_C0
    return replace(splats, sh=sh)


@pytest.mark.parametrize(("space", "least"), [("encoded", 0.97), ("linear", 0.83)])
def test_an_emitter_is_as_bright_as_it_was(tmp_path: Path, space: str, least: float) -> None:
    """From white splats, light of 20 is met within 3 % in a view that was held out. The loss of linear light is as true but
    slower, since it weighs differences by brightness: within 17 % here, within 3 % after three times the steps."""
    capture = write_tiny_capture(tmp_path, splats=emitter())
    start = replace(emitter(), sh=np.minimum(emitter().sh, 0.5 / SH_C0))
    values = {"steps": STEPS, "strategy": "none", "sh_degree": 0, "loss_space": space}
    trainer = trainer_of(capture, run_settings(values, optimizer=RATES), start)
    held_out = CaptureImages(capture, "test", trainer.formation)[0]
    bright = (held_out.color[..., 0] > 0.9 * EMITTED) & (held_out.alpha > 0.95)
    assert int(bright.sum()) > 30

    def brightness() -> float:
        with torch.no_grad():
            drawn = draw(
                trainer.state.params,
                held_out.viewmat,
                held_out.intrinsics,
                held_out.camera,
                trainer.formation,
                background=torch.zeros(3),
            )
        return float((drawn.blended[bright] / held_out.color[bright]).mean())

    assert brightness() < 0.1
    for _ in range(STEPS):
        trainer.train_step()
    assert least < brightness() < 1.03
