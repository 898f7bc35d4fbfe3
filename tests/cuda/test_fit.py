"""Fits on the emulated card: step by step those of the processor; they resume here and there, and survive want of memory."""

from __future__ import annotations

import pytest
import torch

from splat_engine.fit.trainer import FLOOR, PSNR_INTERVAL
from splat_engine.formats.errors import UserError
from tests.cuda import tiny_fit
from tests.cuda.emulation.launcher import EmulatedLauncher

HOST = torch.device("cpu")
WEIGHTS: dict[str, dict[str, object]] = {
    "colour alone": {},
    "depth and normals": {"depth_weight": 0.2, "normal_weight": 0.05},
    "linear light": {"loss_space": "linear"},
}


@pytest.mark.parametrize("weights", list(WEIGHTS.values()), ids=list(WEIGHTS))
@pytest.mark.parametrize("formation", ["blender", "classic"])
def test_a_fit_is_the_processors(
    emulated: EmulatedLauncher, formation: str, weights: dict[str, object]
) -> None:
    """Ten steps with clones, splits, an opacity reset and raised degrees: the same splats after each, to 1e-4."""
    run = tiny_fit.settings(formation, 10, **weights)  # type: ignore[arg-type]
    ours, processors = (tiny_fit.trainer(run, HOST, backend) for backend in ("cuda", "cpu"))
    before = tiny_fit.everything(ours)
    counts = set()
    for _ in range(10):
        result, expected = ours.train_step(), processors.train_step()
        assert tiny_fit.worst_difference(ours, processors) < 1e-4
        assert result.psnr is None or abs(result.psnr - expected.psnr) < 1e-2
        counts.add(len(ours.state))
    assert emulated.launches.total() >= 100
    assert len(counts) > 1 and max(counts) > 30
    assert not torch.equal(before["sh"][:, 0], tiny_fit.everything(ours)["sh"][:30, 0])
    assert ours.state.sh_degree == 2 and (FLOOR in ours.state.buffers) == (formation == "blender")


def test_the_loss_is_told_every_tenth_step(emulated: EmulatedLauncher) -> None:
    """And it is the mean of the steps in between, which the processor tells one by one."""
    run = tiny_fit.settings("classic", 2 * PSNR_INTERVAL, strategy="none")
    ours, processors = (tiny_fit.trainer(run, HOST, backend) for backend in ("cuda", "cpu"))
    told = [ours.train_step().loss for _ in range(20)]
    each = [processors.train_step().loss for _ in range(20)]
    looked = [0, 10, 19]
    assert [number for number, loss in enumerate(told) if loss is not None] == looked
    for first, last in ((0, 0), (1, 10), (11, 19)):
        assert told[last] == pytest.approx(sum(each[first : last + 1]) / (last + 1 - first), rel=1e-4)


@pytest.mark.parametrize("way", [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")], ids="-".join)
def test_a_fit_resumes_here_and_there(emulated: EmulatedLauncher, way: tuple[str, str]) -> None:
    """From five steps on one backend to ten on the other: the splats of the processor's ten."""
    run = tiny_fit.settings("blender", 10)
    whole, first, second = (tiny_fit.trainer(run, HOST, backend) for backend in ("cpu", *way))
    for _ in range(5):
        first.train_step()
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        second.train_step()
    for _ in range(10):
        whole.train_step()
    assert second.step == 10 and tiny_fit.worst_difference(second, whole) < 1e-4


def test_divergence_is_noticed_before_anything_is_saved(emulated: EmulatedLauncher) -> None:
    """A loss that is not finite between two looks ends the fit at the next look, or when its state is asked for."""
    run = tiny_fit.settings("classic", 12, strategy="none")
    made = tiny_fit.trainer(run, HOST, "cuda")
    made.train_step()
    good = made.images[made._view_of(2)].color
    good[0, 0, 0] = float("nan")
    made.train_step()
    good[0, 0, 0] = 0.0
    made.train_step()
    with pytest.raises(UserError, match="one of the steps 2 to 3"):
        made.state_dict()
