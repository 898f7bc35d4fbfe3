"""A run that runs out of a card's memory ends in words, and what it had reached is saved."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from splat_engine.fit.checkpoint import load_checkpoint
from splat_engine.fit.commands import CommandQueue
from splat_engine.fit.loop import FitRequest, run_fit
from splat_engine.fit.model import SplatState
from splat_engine.fit.place import Place
from splat_engine.formats.errors import OutOfMemory
from splat_engine.formats.events import Event, Finished
from splat_engine.formats.settings import DensifySettings, FitSettings, RunSettings, StartSettings
from splat_engine.ops._cuda.launch import emulated_by
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.engine.tiny_capture import known_splats, ring_cameras, write_tiny_capture

EMULATED = Place(torch.device("cpu"), "cuda")
STEPS = 6
WORDS = "CUDA out of memory. Tried to allocate 2.00 GiB."


class SmallCard(EmulatedLauncher):
    """Has no memory left from a step on: the launch that ends that step's update fails, and all after it."""

    last_step = STEPS
    steps = 0

    def launch(
        self, entry: str, arguments: ctypes.Structure, *, grid: tuple[int, int], block: int, shared_bytes: int
    ) -> None:
        if self.steps >= self.last_step:
            raise torch.OutOfMemoryError(WORDS)
        super().launch(entry, arguments, grid=grid, block=block, shared_bytes=shared_bytes)
        self.steps += entry == "update_splats_f32"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cameras = ring_cameras(4, 20, 16)
    return write_tiny_capture(
        tmp_path_factory.mktemp("capture"), splats=known_splats(30), cameras=cameras, hold_out=4
    ).root


def request(capture: Path, run: Path, **fit: object) -> FitRequest:
    chosen = {"steps": STEPS, "max_splats": 40, **fit}
    settings = RunSettings(
        fit=FitSettings(**chosen),  # type: ignore[arg-type]
        densify=DensifySettings(start=2, interval=2, gradient=1e-5, stop_share=1.0),
        start=StartSettings(start_splats=30),
    )
    return FitRequest(capture, run, settings, place=EMULATED)


def fit(wanted: FitRequest, card: EmulatedLauncher) -> tuple[Finished, list[Event]]:
    said: list[Event] = []
    with emulated_by(card):
        return run_fit(wanted, said.append, CommandQueue()), said


def test_a_step_without_memory(capture: Path, tmp_path: Path) -> None:
    """The error has the numbers and a budget; the checkpoint is of the last whole step, and a resume ends the fit."""
    card = SmallCard()
    card.last_step = 3
    with pytest.raises(OutOfMemory, match=r"splats \(2.0 GiB needed") as caught:
        fit(request(capture, tmp_path), card)
    assert "--max-splats" in caught.value.hint and "step 3" in caught.value.hint
    assert isinstance(caught.value.cause, torch.OutOfMemoryError)
    assert load_checkpoint(tmp_path / "checkpoint.pt")["trainer"]["step"] == 3
    wanted = replace(request(capture, tmp_path, max_splats=35), resume=True)
    finished, _ = fit(wanted, EmulatedLauncher())
    assert finished.reason == "done" and finished.step == STEPS and finished.metrics["engine.psnr"] > 5


def rearranges_in_part(times: int) -> Callable[..., None]:
    """A ``rearrange`` that runs out of memory between two groups, from its n-th call on."""
    original = SplatState.rearrange
    calls = 0

    def rearrange(self: SplatState, kept: torch.Tensor, *others: object) -> None:
        nonlocal calls
        calls += 1
        if calls < times:
            original(self, kept, *others)  # type: ignore[arg-type]
            return
        self.params["means"] = self.params["means"][kept[:-1]]
        raise torch.OutOfMemoryError(WORDS)

    return rearrange


def test_half_rearranged_splats_are_not_saved(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the checkpoint that was there stays as it was, and is named."""
    monkeypatch.setattr(SplatState, "rearrange", rearranges_in_part(2))
    with pytest.raises(OutOfMemory) as caught:
        asked = request(capture, tmp_path, checkpoint_interval=3, max_splats=1000, strategy="adaptive")
        fit(asked, EmulatedLauncher())
    assert "step 3" in caught.value.hint
    saved = load_checkpoint(tmp_path / "checkpoint.pt")["trainer"]
    assert saved["step"] == 3 and SplatState.from_state_dict(saved["splats"]).is_whole()


def test_before_the_first_step(capture: Path, tmp_path: Path) -> None:
    """Without a checkpoint none is spoken of, and a run that stood there is not touched."""
    (tmp_path / "checkpoint.pt").write_bytes(b"old")
    original = SplatState.from_splats
    with pytest.MonkeyPatch.context() as patch, pytest.raises(OutOfMemory) as caught:
        patch.setattr(SplatState, "from_splats", lambda splats: raise_memory(original))
        fit(request(capture, tmp_path), EmulatedLauncher())
    assert "--resume" not in caught.value.hint
    assert (tmp_path / "checkpoint.pt").read_bytes() == b"old"


def raise_memory(_: object) -> None:
    raise MemoryError
