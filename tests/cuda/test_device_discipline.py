"""A fit on a device of its own: nothing of the processor's meets it unsent, and the processor hardly ever waits for it.

The device is pretended (pretended_card.py) and its kernels are emulated, so all numbers are real.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.guard import log_scale_floors
from splat_engine.fit.metrics import score_views
from splat_engine.fit.place import send
from splat_engine.fit.trainer import PSNR_INTERVAL
from tests.cuda import tiny_fit
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.pretended_card import CardTensor, pretended_card, waits_of
from tests.engine.tiny_capture import write_tiny_capture

READ_BACK = "splat_engine/ops/_cuda/tiles.py"
"""Where the number of pairs of a splat and a tile is read."""
SLOTS = "splat_engine/ops/_cuda/by_ray.py"
"""Where a backward in each pixel's own order reads how many shares of splats there are."""
DENSIFY = "splat_engine/fit/strategies/"
TIDY = "splat_engine/fit/tidy.py"
LOOK = "splat_engine/fit/trainer.py"
WEIGHTS: dict[str, dict[str, object]] = {
    "colour alone": {},
    "depth and normals": {"depth_weight": 0.2, "normal_weight": 0.05},
    "linear light": {"loss_space": "linear"},
}


def files_of(waits: list[str]) -> Counter[str]:
    """How often the processor waited in each file; the strategies' count as one."""
    files = (wait.rpartition(" at ")[2].partition(":")[0] for wait in waits)
    return Counter(DENSIFY if file.startswith(DENSIFY) else file for file in files)


@pytest.mark.parametrize("weights", list(WEIGHTS.values()), ids=list(WEIGHTS))
@pytest.mark.parametrize("formation", ["blender", "classic"])
def test_a_step_waits_for_the_card_once(
    emulated: EmulatedLauncher, formation: str, weights: dict[str, object]
) -> None:
    """For the number of pairs; in each pixel's own order, with which the "blender" formation ends, once more. Every tenth
    step also for loss and PSNR, and densification for what it chooses; at the end each view is looked at, and what none sees
    is chosen."""
    steps = PSNR_INTERVAL + 3
    run = tiny_fit.settings(formation, steps, sh_interval=2, **weights)  # type: ignore[arg-type]
    plain = tiny_fit.trainer(run, torch.device("cpu"), "cuda")
    with pretended_card() as (device, waits):
        made = tiny_fit.trainer(run, device, "cuda")
        for step in range(1, steps + 1):
            found = files_of(waits_of(made.train_step, waits))
            is_over = (
                step == steps
            )  # then what no view sees goes, and it looks whether every group has learned
            looks = 1 + len(made.images) * is_over
            assert found.pop(READ_BACK) == looks
            in_own_order = made.schedule.share(step) > run.schedule.own_order_from
            assert found.pop(SLOTS, 0) == looks * (formation == "blender" and in_own_order)
            assert (found.pop(TIDY, 0) > 0) == is_over
            told = step % PSNR_INTERVAL == 1
            assert found.pop(LOOK, 0) == 2 * told if not is_over else found.pop(LOOK) > 2
            densifies = (
                tiny_fit.DENSIFY.start <= step <= 0.7 * steps and step % tiny_fit.DENSIFY.interval == 0
            )
            assert found.pop(DENSIFY, 0) == 0 or densifies, found
            assert not found, f"step {step} waits in {dict(found)}"
        for value in (*made.state.params.values(), *made.state.buffers.values()):
            assert isinstance(value, CardTensor)
        saved = tiny_fit.everything(made)
    assert len(made.state) > 30
    for _ in range(steps):
        plain.train_step()
    for name, value in tiny_fit.everything(plain).items():
        assert torch.equal(saved[name], value), name


def test_a_comparison_waits_once(emulated: EmulatedLauncher) -> None:
    """Without strategies, bounds and looks, step after step: one wait each, all at the same line."""
    run = tiny_fit.settings("classic", 40, strategy="none", random_background=True)
    with pretended_card() as (device, waits):
        made = tiny_fit.trainer(run, device, "cuda")
        made.train_step()
        waits.clear()
        for _ in range(PSNR_INTERVAL - 1):
            made.train_step()
        assert len(waits) == PSNR_INTERVAL - 1 and len(set(waits)) == 1


def test_scores_and_bounds_follow_the_device(emulated: EmulatedLauncher) -> None:
    """Evaluation and the least sizes give the numbers of the processor from tensors on the card."""
    run = tiny_fit.settings("blender", 4)
    plain = tiny_fit.trainer(run, torch.device("cpu"), "cuda")
    expected = list(score_views(plain.state.params, plain.images, plain.formation, "cuda"))
    floors = log_scale_floors(plain.state.params["means"], tiny_fit.cameras(), 0.3)
    with pretended_card() as (device, _):
        made = tiny_fit.trainer(run, device, "cuda")
        assert list(score_views(made.state.params, made.images, made.formation, "cuda")) == expected
        found = log_scale_floors(made.state.params["means"], tiny_fit.cameras(), 0.3)
        assert isinstance(found, CardTensor)
        assert torch.equal(found.cpu(), floors) and bool(torch.isfinite(floors).any())


@pytest.mark.parametrize(
    ("device_bytes", "budget_bytes"), [(1 << 30, 0), (0, 1 << 30), (0, 0)], ids=["there", "pinned", "anew"]
)
def test_views_come_without_waiting(tmp_path: Path, device_bytes: int, budget_bytes: int) -> None:
    """Views that are kept on the card, kept pinned, or read anew arrive there unwaited for, with the file's numbers."""
    capture = write_tiny_capture(tmp_path, views=3, hold_out=0)
    expected = CaptureImages(capture, "train", ImageFormation("blender"))
    with pretended_card() as (device, waits):
        images = CaptureImages(
            capture,
            "train",
            ImageFormation("blender"),
            budget_bytes=budget_bytes,
            device=device,
            device_bytes=device_bytes,
        )
        first = [images[number] for number in range(3)]
        again = [images[number] for number in range(3)]
        assert waits == []
        for number, (view, second) in enumerate(zip(first, again, strict=True)):
            assert all(isinstance(value, CardTensor) for value in (view.color, view.alpha, view.viewmat))
            stays = view.color.data_ptr() == second.color.data_ptr()
            assert stays == (device_bytes > 0)
            tolerance = {"rtol": 0, "atol": 0} if device_bytes else {"rtol": 6e-4, "atol": 1e-6}
            torch.testing.assert_close(second.color.cpu(), expected[number].color, **tolerance)
            assert torch.equal(second.viewmat.cpu(), expected[number].viewmat)
        if device_bytes or budget_bytes:
            for view in capture.views:
                (tmp_path / str(view.exr)).unlink()
            assert images[1].color.shape == first[1].color.shape


# -- the pretended card itself -----------------------------------------------------------------------------------------


def a(device: torch.device) -> Tensor:
    return torch.arange(4.0).to(device)


WAITING = {
    "item": lambda device: a(device).sum().item(),
    "bool": lambda device: bool(a(device).any()),
    "cpu": lambda device: a(device).cpu(),
    "nonzero": lambda device: a(device).nonzero(),
    "mask": lambda device: a(device)[a(device) > 1],
    "unpinned": lambda device: torch.ones(3).to(device, non_blocking=True),
    "blocking": lambda device: torch.ones(3).pin_memory().to(device),
}
RUNNING_AHEAD = {
    "arithmetic": lambda device: (a_sent(device) * 2 + 1).sum(),
    "sort": lambda device: torch.sort(a_sent(device), stable=True),
    "index": lambda device: a_sent(device)[torch.zeros(2, dtype=torch.int64, device=device)],
    "fill": lambda device: torch.full((3,), 2.0, device=device),
    "write": lambda device: a_sent(device)[1:].add_(1),
}


def a_sent(device: torch.device) -> Tensor:
    return send(torch.arange(4.0), device)


@pytest.mark.parametrize("name", WAITING)
def test_a_wait_is_seen(name: str) -> None:
    """Whatever needs a number of the card, or copies without leave to run ahead."""
    with pretended_card() as (device, waits):
        before = len(waits_of(lambda: a(device), waits))
        found = waits_of(lambda: WAITING[name](device), waits)
    sending = 0 if name in ("unpinned", "blocking") else before * (2 if name == "mask" else 1)
    assert len(found) == sending + 1


@pytest.mark.parametrize("name", RUNNING_AHEAD)
def test_what_runs_ahead_is_not_a_wait(name: str) -> None:
    """Arithmetic, sorts, gathers, and sending out of pinned memory."""
    with pretended_card() as (device, waits):
        assert waits_of(lambda: RUNNING_AHEAD[name](device), waits) == []


def test_strangers_are_refused() -> None:
    """A tensor of the processor in an op of the card is an error, but for single numbers; numpy sees nothing of it."""
    with pretended_card() as (device, _):
        there = a_sent(device)
        with pytest.raises(RuntimeError, match="meet tensors of the card"):
            _ = there + torch.ones(4)
        with pytest.raises(RuntimeError, match="meet tensors of the card"):
            torch.cat((there, torch.ones(1)))
        with pytest.raises(TypeError, match="cpu"):
            there.numpy()
        assert (there * torch.tensor(2.0)).cpu().tolist() == [0, 2, 4, 6]
        assert np.array_equal(there.cpu().numpy(), np.arange(4))


def test_the_lines_are_those_of_the_product() -> None:
    """The read-back stands where the tests above look for it."""
    root = Path(__file__).resolve().parents[2]
    assert ".item()" in (root / READ_BACK).read_text()
