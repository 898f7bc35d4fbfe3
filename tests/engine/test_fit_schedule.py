"""A fit from coarse to fine and one that ends early: what it reads, when it ends, and that it resumes bit for bit."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

import splat_engine.fit.trainer as trainer_module
from splat_engine.fit.commands import CommandQueue
from splat_engine.fit.data import CaptureImages
from splat_engine.fit.loop import FitRequest, run_fit
from splat_engine.fit.model import SplatState
from splat_engine.fit.schedule import views_aside
from splat_engine.fit.trainer import FLOOR, Trainer
from splat_engine.formats import events
from splat_engine.formats.capture import Capture
from splat_engine.formats.settings import DensifySettings, RunSettings
from tests.engine.run_settings import run_settings
from tests.engine.test_fit_trainer import RATES, same, trainer_of
from tests.engine.tiny_capture import known_splats, ring_cameras, write_tiny_capture

STEPS = 160
STOP = {"steps": STEPS, "early_stop": True, "stop_gain_db": 10.0, "sh_interval": 20}
"""Stages end at the steps 20, 40 and 80. None after the first gains 10 dB: the second is the last but for 4 steps."""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    cameras = ring_cameras(16)
    return write_tiny_capture(tmp_path_factory.mktemp("capture"), cameras=cameras, hold_out=8)


def settings(**values: object) -> RunSettings:
    densify = DensifySettings(start=10, interval=10, gradient=1e-4)
    return run_settings({**STOP, **values}, optimizer=RATES, densify=densify)


def saved_by(trainer: Trainer) -> Any:
    """Everything a trainer needs, through a file's bytes."""
    stream = io.BytesIO()
    torch.save(trainer.state_dict(), stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


class Taken:
    """Records the view of each step in place of the module's ``take_step``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.views: list[object] = []
        self.widths: list[int] = []
        self._take_step = trainer_module.take_step
        monkeypatch.setattr(trainer_module, "take_step", self)

    def __call__(self, state: SplatState, view: object, *rest: object, **options: object) -> object:
        self.views.append(view.camera.world_from_camera.tobytes())  # type: ignore[attr-defined]
        self.widths.append(view.camera.width)  # type: ignore[attr-defined]
        return self._take_step(state, view, *rest, **options)  # type: ignore[arg-type]


def test_views_aside_are_learned_from_at_the_end_alone(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the plateau no step sees them; the steps after it see any view, and no new splats come."""
    taken = Taken(monkeypatch)
    trainer = trainer_of(capture, settings())
    counts = []
    while trainer.step < trainer.schedule.last_step:
        trainer.train_step()
        counts.append(len(trainer.state))
    assert (trainer.schedule.plateau_step, trainer.step, len(trainer.images)) == (40, 44, 14)
    assert 120 < counts[14] == counts[19] < counts[29] == counts[-1]
    cameras = [camera.world_from_camera.tobytes() for camera in trainer.images.cameras]
    aside = {cameras[number] for number in views_aside(14, 0.05)}
    assert len(aside) == 3 and set(taken.views[:40]) == set(cameras) - aside
    assert aside & set(taken.views[40:])


def test_all_steps_without_a_plateau(capture: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that may lose takes all its steps, and its last part sees all views."""
    taken = Taken(monkeypatch)
    trainer = trainer_of(capture, settings(stop_gain_db=0.0, strategy="none"))
    trainer._looks_db = [-100.0]
    while trainer.step < trainer.schedule.last_step:
        trainer.train_step()
    assert trainer.step == STEPS and trainer.schedule.plateau_step is None
    assert len(trainer._looks_db) == 4 and trainer._looks_db[1:] == sorted(trainer._looks_db[1:])
    assert (len(set(taken.views[:145])), len(set(taken.views[145:]))) == (11, 14)


@pytest.mark.parametrize("stop", [3, 20, 30, 40, 42])
def test_resume_equals_never_stopped(capture: Capture, stop: int) -> None:
    """Before, at and after the plateau, a trainer goes on bit for bit from what another saved, and ends when it ends."""
    whole, other = trainer_of(capture, settings()), trainer_of(capture, settings())
    for _ in range(stop):
        whole.train_step()
    other.load_state_dict(saved_by(whole))
    while whole.step < whole.schedule.last_step:
        assert whole.train_step() == other.train_step()
    assert whole.step == 44 == other.schedule.last_step and same(whole.state, other.state)


def test_few_views_are_all_learned_from(capture: Capture) -> None:
    """Where views are few, none is kept aside: a sentence says so, and the fit takes all its steps."""
    said: list[str] = []
    few = Capture(capture.root, capture.views[:9], capture.info, capture.init)
    trainer = trainer_of(few, settings(), warn=said.append)
    for _ in range(60):
        trainer.train_step()
    assert said == ["8 training views are too few to keep some aside: the fit takes all its steps."]
    assert trainer.schedule.last_step == STEPS


def test_a_run_says_that_it_ended_early(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is "plateau", the metrics hold the steps made, progress counts to the nearer end, and held-out views are
    not looked at before it."""
    read: list[tuple[str, int]] = []
    read_file = CaptureImages._read
    trainers: list[Trainer] = []
    made = Trainer.__init__

    def init(self: Trainer, *rest: object, **options: object) -> None:
        made(self, *rest, **options)  # type: ignore[arg-type]
        trainers.append(self)

    def reading(self: CaptureImages, view: object) -> object:
        read.append((view.split, trainers[0].step))  # type: ignore[attr-defined]
        return read_file(self, view)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "__init__", init)
    monkeypatch.setattr(CaptureImages, "_read", reading)
    said: list[events.Event] = []
    finished = run_fit(FitRequest(capture.root, tmp_path, settings()), said.append, CommandQueue())
    assert (finished.reason, finished.step, finished.metrics["steps"]) == ("plateau", 44, 44)
    progress = [event for event in said if isinstance(event, events.Progress)]
    assert (progress[-1].step, progress[-1].steps, progress[-1].seconds_left) == (44, 44, 0.0)
    assert {step for split, step in read if split == "test"} == {44}
    again = FitRequest(capture.root, tmp_path, settings(), resume=True)
    assert run_fit(again, said.append, CommandQueue()).reason == "plateau"


def test_the_work_of_a_fit(capture: Capture) -> None:
    """In steps at full resolution: coarse ones, which come in the first stage alone, count less."""
    trainer = trainer_of(capture, settings(coarse_share=0.5, early_stop=False))
    assert trainer.work_until(0) == 0 and trainer.work_until(24) == pytest.approx(12)
    assert trainer.work_until(STEPS) - trainer.work_until(80) == pytest.approx(80)
    trainer = trainer_of(capture, settings(coarse_share=0.5))
    assert trainer.work_until(3) == pytest.approx(1.5)
    assert trainer.work_until(STEPS) - trainer.work_until(10) == pytest.approx(STEPS - 10)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    cameras = ring_cameras(4, 128, 128)
    return write_tiny_capture(tmp_path_factory.mktemp("large"), cameras=cameras, hold_out=4)


def coarse_trainer(capture: Capture, share: float) -> Trainer:
    values = {"steps": 21, "coarse_share": share, "strategy": "none", "early_stop": False}
    return trainer_of(capture, settings(**values), known_splats())


def test_the_first_steps_are_coarse(large: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the resolution until its share of the steps; the least size of splats follows at once."""
    taken = Taken(monkeypatch)
    trainer, fine = coarse_trainer(large, 0.5), coarse_trainer(large, 0.0)
    for _ in range(10):
        trainer.train_step()
    fine.train_step()
    coarse_floor, fine_floor = (made.state.buffers[FLOOR].median() for made in (trainer, fine))
    assert torch.exp(coarse_floor - fine_floor).item() == pytest.approx(2.0, rel=0.1)
    for _ in range(11):
        trainer.train_step()
    assert taken.widths[:10] + taken.widths[11:] == [64] * 10 + [128] * 11
    assert torch.exp(trainer.state.buffers[FLOOR].median() - fine_floor).item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("stop", [5, 10, 11])
def test_a_coarse_fit_resumes_bit_for_bit(large: Capture, stop: int) -> None:
    """Around the step at which the resolution changes."""
    whole, other = coarse_trainer(large, 0.5), coarse_trainer(large, 0.5)
    for _ in range(stop):
        whole.train_step()
    other.load_state_dict(saved_by(whole))
    for _ in range(21 - stop):
        assert whole.train_step() == other.train_step()
    assert same(whole.state, other.state)
