"""A fit of a scene made in the test: it learns, repeats itself, resumes bit for bit, and meets the known traps."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.metrics import mean_scores, score_views
from splat_engine.fit.model import PARAMETER_NAMES, SplatState
from splat_engine.fit.trainer import FLOOR, Trainer
from splat_engine.formats.capture import Capture, CaptureInfo, View
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import DensifySettings, OptimizerSettings, RunSettings
from splat_engine.formats.splats import Splats
from tests.engine.run_settings import run_settings
from tests.engine.tiny_capture import (
    HEIGHT,
    WIDTH,
    known_splats,
    look_at,
    perturbed,
    ring_cameras,
    write_tiny_capture,
    write_view,
)

RATES = OptimizerSettings(means=2e-3, means_final=2e-4, log_scales=0.02, quats=0.01, sh_dc=0.02, sh_rest=2e-3)


def settings_of(steps: int, densify: DensifySettings | None = None, **fit: object) -> RunSettings:
    chosen = {"strategy": "none" if densify is None else "adaptive", "sh_degree": 1, "sh_interval": 20, **fit}
    return run_settings({"steps": steps, **chosen}, optimizer=RATES, densify=densify or DensifySettings())


def trainer_of(
    capture: Capture, settings: RunSettings, start: Splats | None = None, warn: object = pytest.fail
) -> Trainer:
    formation = ImageFormation(settings.fit.formation)
    loss = settings.loss
    images = CaptureImages(
        capture, "train", formation, with_depth=loss.depth_weight > 0, with_normals=loss.normal_weight > 0
    )
    state = SplatState.from_splats(perturbed(known_splats()) if start is None else start)
    return Trainer(settings, images, state, extent=4.4, warn=warn)  # type: ignore[arg-type]


def psnr_of(trainer: Trainer, capture: Capture, split: str = "test") -> float:
    images = CaptureImages(capture, split, trainer.formation)  # type: ignore[arg-type]
    return mean_scores(list(score_views(trainer.state.params, images, trainer.formation)))["engine.psnr"]


def same(a: SplatState, b: SplatState) -> bool:
    return len(a) == len(b) and all(torch.equal(a.params[name], b.params[name]) for name in PARAMETER_NAMES)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return write_tiny_capture(tmp_path_factory.mktemp("capture"))


@pytest.mark.parametrize("formation", ["blender", "classic"])
def test_a_fit_learns(tmp_path: Path, formation: str) -> None:
    """From moved, grey-sized splats 150 steps gain at least 7 dB on held-out views, in both formations."""
    capture = write_tiny_capture(tmp_path, formation=formation)  # type: ignore[arg-type]
    trainer = trainer_of(capture, settings_of(150, formation=formation))
    before = psnr_of(trainer, capture)
    losses = [trainer.train_step().loss for _ in range(150)]
    after = psnr_of(trainer, capture)
    assert 10 < before < 25
    assert after > before + 7 and after > 25
    assert np.mean(losses[-20:]) < 0.4 * np.mean(losses[:20])
    assert trainer.state.sh_degree == 1


def test_densification_and_geometry_losses_learn_too(capture: Capture) -> None:
    """With clone, split, prune, depth and normal losses the fit still gains, and the number of splats changes."""
    densify = DensifySettings(start=20, interval=20, gradient=1e-4)
    settings = settings_of(120, densify, depth_weight=0.1, normal_weight=0.02, max_splats=150)
    trainer = trainer_of(capture, settings)
    before = psnr_of(trainer, capture)
    for _ in range(120):
        trainer.train_step()
    assert psnr_of(trainer, capture) > before + 6
    assert 120 < len(trainer.state) <= 150


def test_same_seed_same_splats(capture: Capture) -> None:
    """Two runs of one seed are equal in every bit; another seed gives other splats."""
    densify = DensifySettings(start=10, interval=10, gradient=1e-4)

    def run(seed: int) -> SplatState:
        trainer = trainer_of(capture, settings_of(40, densify, seed=seed))
        for _ in range(40):
            trainer.train_step()
        return trainer.state

    first = run(3)
    assert len(first) > 120
    assert same(first, run(3))
    assert not same(first, run(4))


@pytest.mark.parametrize("stop", [1, 17, 30])
def test_resume_equals_never_stopped(capture: Capture, stop: int) -> None:
    """A trainer loaded from another's state_dict goes on bit for bit, densification, sorting and all."""
    densify = DensifySettings(start=10, interval=10, gradient=1e-4, sort_interval=2, reset_interval=15)
    settings = settings_of(45, densify)
    whole = trainer_of(capture, settings)
    for _ in range(stop):
        whole.train_step()
    saved = whole.state_dict()
    saved = {**saved, "splats": SplatState.from_state_dict(saved["splats"]).state_dict()}
    saved["splats"] = {
        "params": {name: value.clone() for name, value in saved["splats"]["params"].items()},
        "moments": {name: (a.clone(), b.clone()) for name, (a, b) in saved["splats"]["moments"].items()},
        "buffers": {name: value.clone() for name, value in saved["splats"]["buffers"].items()},
    }
    other = trainer_of(capture, settings)
    other.load_state_dict(saved)
    for _ in range(45 - stop):
        assert whole.train_step() == other.train_step()
    assert same(whole.state, other.state) and len(whole.state) != 120
    assert all(
        torch.equal(whole.state.buffers[name], other.state.buffers[name]) for name in whole.state.buffers
    )


def test_every_view_is_seen_once_an_epoch(capture: Capture) -> None:
    """Views come as a new permutation each epoch."""
    trainer = trainer_of(capture, settings_of(18))
    count = len(trainer.images)
    order = [trainer._view_of(step) for step in range(1, 2 * count + 1)]
    assert sorted(order[:count]) == sorted(order[count:]) == list(range(count))
    assert order[:count] != order[count:]


def test_opaque_splats_over_nothing_vanish(tmp_path: Path) -> None:
    """Against transparent targets opaque splats shrink or fade: no background leaks into them."""
    cameras = ring_cameras(4)
    for number in range(4):
        write_view(tmp_path / f"{number}.exr", np.zeros((HEIGHT, WIDTH, 4), np.float32))
    views = tuple(View(camera, exr=f"{number}.exr") for number, camera in enumerate(cameras))
    trainer = trainer_of(Capture(tmp_path, views, CaptureInfo()), settings_of(80))

    def coverage() -> float:
        opacity = torch.sigmoid(trainer.state.params["opacity_logits"])
        area = trainer.state.params["log_scales"].exp().square().mean(dim=1)
        return (opacity * area).sum().item()

    before = coverage()
    for _ in range(80):
        trainer.train_step()
    assert coverage() < 0.3 * before


def test_no_splat_becomes_thinner_than_the_bound(capture: Capture) -> None:
    """In the ``blender`` formation no axis falls below the least size of the nearest view; 0 lifts the bound."""
    thin = perturbed(known_splats())
    thin.log_scales[:, 2] = math.log(1e-4)
    trainer = trainer_of(capture, settings_of(5, min_sigma_px=0.4), thin)
    for _ in range(5):
        trainer.train_step()
    scales = trainer.state.params["log_scales"].exp()
    pixel = 3.0 / (1.1 * WIDTH)  # nearest splats are about 3 units from the nearest camera
    assert scales.min() >= 0.4 * pixel * 0.9
    floors = trainer.state.buffers[FLOOR]
    assert (trainer.state.params["log_scales"] >= floors[:, None]).all()
    free = trainer_of(capture, settings_of(5, min_sigma_px=0.0), thin)
    free.train_step()
    assert free.state.params["log_scales"].exp().min() < 1e-3 and FLOOR not in free.state.buffers


def test_a_fit_that_cannot_learn_is_noticed(capture: Capture) -> None:
    """Splats that no view sees never move: each group is named in a warning. A good fit warns of nothing."""
    said: list[str] = []
    lost = perturbed(known_splats())
    lost.means[:, 2] += 500
    trainer = trainer_of(capture, settings_of(8), lost, said.append)
    for _ in range(8):
        trainer.train_step()
    for name in ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh_dc"):
        assert any(f"the splats' {name} in 8 steps" in message for message in said)
    good = trainer_of(capture, settings_of(8))  # warn is pytest.fail
    for _ in range(8):
        good.train_step()


@pytest.mark.parametrize("count", [0, 1, 10])
def test_few_splats_train(capture: Capture, count: int) -> None:
    """0, 1 and 10 splats go through steps and densification with finite losses."""
    densify = DensifySettings(start=2, interval=2)
    start = perturbed(known_splats()).select(np.arange(count))
    trainer = trainer_of(capture, settings_of(6, densify), start, warn=lambda message: None)
    assert all(math.isfinite(trainer.train_step().loss) for _ in range(6))
    assert len(trainer.state) >= (count > 0)


def test_broken_splats_do_not_break_the_fit(capture: Capture) -> None:
    """Infinite scales, zero quaternions and splats at a camera leave loss and all other splats finite."""
    start = perturbed(known_splats())
    start.log_scales[0] = 200.0
    start.quats_wxyz[1] = 0.0
    start.means[2] = ring_cameras()[0].position
    start.log_scales[3] = -200.0
    trainer = trainer_of(capture, settings_of(10), start, warn=lambda message: None)
    for _ in range(10):
        assert math.isfinite(trainer.train_step().loss)
    for name in PARAMETER_NAMES:
        assert torch.isfinite(trainer.state.params[name][4:]).all()


def test_a_view_that_sees_nothing_does_no_harm(tmp_path: Path) -> None:
    """A camera that looks away gives steps without gradients; the others still teach."""
    away = replace(
        ring_cameras(8)[0], world_from_camera=look_at(np.array([4.0, 0, 0]), np.array([9.0, 0, 0]))
    )
    capture = write_tiny_capture(tmp_path, cameras=[away, *ring_cameras(5)], hold_out=0)
    images = CaptureImages(capture, "train", ImageFormation("blender"))
    assert images[0].is_empty and not images[1].is_empty
    trainer = trainer_of(capture, settings_of(60))
    before = psnr_of(trainer, capture, "train")
    assert all(math.isfinite(trainer.train_step().loss) for _ in range(60))
    assert psnr_of(trainer, capture, "train") > before + 5


def test_divergence_is_an_error(capture: Capture) -> None:
    """A loss that is not finite ends the fit in words."""
    start = perturbed(known_splats())
    trainer = trainer_of(capture, settings_of(5), start, warn=lambda message: None)
    huge = CaptureImages(capture, "train", trainer.formation)
    trainer.images = huge
    trainer.settings = replace(trainer.settings, loss=replace(trainer.settings.loss, alpha_weight=math.inf))
    with pytest.raises(UserError, match="not finite at step 1"):
        trainer.train_step()


def test_orthographic_views_train(tmp_path: Path) -> None:
    """A capture of orthographic cameras is fitted as well."""
    cameras = [replace(camera, model="orthographic", fx=14.0, fy=14.0) for camera in ring_cameras(6)]
    capture = write_tiny_capture(tmp_path, cameras=cameras, hold_out=3)
    trainer = trainer_of(capture, settings_of(80))
    before = psnr_of(trainer, capture)
    for _ in range(80):
        trainer.train_step()
    assert psnr_of(trainer, capture) > before + 5
