"""Each strategy in whole fits: within its number, same seed same splats, resumed bit for bit, few splats, views held out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import PARAMETER_NAMES, SplatState
from splat_engine.fit.trainer import Trainer
from splat_engine.fit.views import ViewList, ViewTensors
from splat_engine.formats.capture import Capture
from splat_engine.formats.settings import (
    DensifySettings,
    FitSettings,
    OptimizerSettings,
    RunSettings,
    ScheduleSettings,
    StrategyName,
)
from splat_engine.formats.splats import Splats
from tests.engine.tiny_capture import known_splats, perturbed, write_tiny_capture

RATES = OptimizerSettings(means=2e-3, means_final=2e-4, log_scales=0.02, quats=0.01, sh_dc=0.02, sh_rest=2e-3)
DENSIFY = DensifySettings(
    start=5, interval=5, gradient=1e-4, absolute_gradient=3e-4, stop_share=0.7, looks=2, noise=50.0
)
STEPS, START, MOST = 30, 100, 140
NAMES: tuple[StrategyName, ...] = ("none", "adaptive", "absolute", "mcmc", "budget", "error")


def trainer_of(
    capture: Capture, name: StrategyName, count: int = START, most: int = MOST, seed: int = 0
) -> Trainer:
    fit = FitSettings(steps=STEPS, strategy=name, max_splats=most, sh_degree=1, sh_interval=10, seed=seed)
    start: Splats = perturbed(known_splats()).select(np.arange(count))
    images = CaptureImages(capture, "train", ImageFormation("blender"), with_depth=name == "error")
    settings = RunSettings(fit=fit, optimizer=RATES, densify=DENSIFY)
    state = SplatState.from_splats(start)
    return Trainer(settings, images, state, extent=4.4, warn=lambda message: None)


def run(trainer: Trainer, steps: int = STEPS) -> list[int]:
    """Takes steps; returns the number of splats after each."""
    counts = []
    for _ in range(steps):
        assert math.isfinite(trainer.train_step().loss or 0.0)
        counts.append(len(trainer.state))
    return counts


def same(a: SplatState, b: SplatState) -> bool:
    return len(a) == len(b) and all(torch.equal(a.params[name], b.params[name]) for name in PARAMETER_NAMES)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return write_tiny_capture(tmp_path_factory.mktemp("capture"))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_stay_within_bounds_and_settle(capture: Capture, name: StrategyName) -> None:
    """No strategy goes beyond the most splats; after its last moment none comes, and only the end's look removes some."""
    counts = run(trainer_of(capture, name))
    assert max(counts) <= MOST and all(
        later <= earlier for earlier, later in zip(counts[20:], counts[21:], strict=False)
    )
    assert len(set(counts[21:-1])) == 1
    if name != "none":
        assert counts[19] > START
    if name in ("mcmc", "budget"):
        assert counts[19] == MOST


@pytest.mark.parametrize("name", ["absolute", "mcmc", "budget", "error"])
def test_resume_equals_never_stopped(capture: Capture, name: StrategyName) -> None:
    """Saved in the midst of its growth and loaded, a fit goes on bit for bit; so do two fits of one seed."""
    whole = trainer_of(capture, name)
    run(whole, 13)
    saved = whole.state_dict()
    copied = SplatState.from_state_dict(saved["splats"])
    splats = {
        "params": {key: value.clone() for key, value in copied.params.items()},
        "moments": {key: (a.clone(), b.clone()) for key, (a, b) in copied.moments.items()},
        "buffers": {key: value.clone() for key, value in copied.buffers.items()},
    }
    other = trainer_of(capture, name)
    other.load_state_dict({**saved, "splats": splats})
    run(whole, STEPS - 13)
    run(other, STEPS - 13)
    again, changed = trainer_of(capture, name), trainer_of(capture, name, seed=1)
    run(again)
    run(changed)
    assert same(whole.state, other.state) and same(whole.state, again.state)
    assert not same(whole.state, changed.state)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [0, 1, 10])
def test_few_splats_and_more_than_allowed(capture: Capture, name: StrategyName, count: int) -> None:
    """From 0, 1 and 10 splats the fit goes through; with more than allowed none comes, and ``budget`` lets some go."""
    trainer = trainer_of(capture, name, count)
    run(trainer)
    assert trainer.state.is_whole()
    if name == "error" and not count:
        assert len(trainer.state) > 20
    if count == 10:
        many = trainer_of(capture, name, START, most=80)
        counts = run(many)
        assert max(counts) <= START and (counts[19] == 80 or name != "budget")


@pytest.mark.parametrize("name", ["budget", "error"])
def test_held_out_views_are_never_read(tmp_path: Path, name: StrategyName) -> None:
    """A fit is the same when the held-out views' files are gone."""
    capture = write_tiny_capture(tmp_path)
    whole = trainer_of(capture, name)
    run(whole)
    held_out = capture.of_split("test")
    assert len(held_out) == 2
    for view in held_out:
        (tmp_path / str(view.exr)).unlink()
    blind = trainer_of(capture, name)
    run(blind)
    assert same(whole.state, blind.state)
    assert {view.camera.name for view in held_out}.isdisjoint(camera.name for camera in blind.images.cameras)


def test_the_limits_hold_for_a_fit(capture: Capture) -> None:
    """Coefficients that begin beyond their limit end within it; without a limit they do not."""
    trainer = trainer_of(capture, "none")
    assert trainer.settings.tidy.sh_limit == 1.0
    trainer.state.raise_sh_degree(1)
    trainer.state.params["sh"][:, 1:] = 3.0
    free = replace(trainer.settings, tidy=replace(trainer.settings.tidy, sh_limit=0.0))
    other = Trainer(
        free,
        trainer.images,
        SplatState({name: value.clone() for name, value in trainer.state.params.items()}),
        extent=4.4,
        warn=lambda message: None,
    )
    run(trainer)
    run(other)
    assert trainer.state.params["sh"][:, 1:].abs().max() <= 1.0 < other.state.params["sh"][:, 1:].abs().max()


class Watched(ViewList):
    """Views that note which of them are asked for."""

    asked: set[int]

    def __getitem__(self, number: int) -> ViewTensors:
        self.asked.add(number)
        return super().__getitem__(number)


@pytest.mark.parametrize("name", ["budget", "error"])
def test_views_kept_aside_are_not_looked_at(capture: Capture, name: StrategyName) -> None:
    """What watches over a fit that may end early does not steer where splats come."""
    read = CaptureImages(capture, "train", ImageFormation("blender"))
    images = Watched([read[number % len(read)] for number in range(13)])
    object.__setattr__(images, "asked", set())
    fit = FitSettings(steps=STEPS, strategy=name, max_splats=MOST, sh_degree=1)
    settings = RunSettings(fit=fit, densify=DENSIFY, schedule=ScheduleSettings(early_stop=True))
    state = SplatState.from_splats(perturbed(known_splats()).select(np.arange(START)))
    trainer = Trainer(settings, images, state, extent=4.4, warn=pytest.fail)
    run(trainer, 9)
    images.asked.clear()
    for _ in range(20):
        trainer._strategy.after_step(10, trainer.state, trainer._generator)
        trainer.state.rearrange(torch.arange(50), torch.arange(0), {})  # there is room again
        trainer._strategy.after_backward(
            9, trainer.state, torch.ones(len(trainer.state), 2), torch.ones(len(trainer.state), 2), (44, 36)
        )
    assert len(trainer._aside) == 3
    assert len(images.asked) > 5 and images.asked.isdisjoint(trainer._aside)
