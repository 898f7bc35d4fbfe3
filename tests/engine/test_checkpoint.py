"""A checkpoint holds everything, runs no code, and is whole or not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from splat_engine.fit.checkpoint import CHECKPOINT_VERSION, load_checkpoint, save_checkpoint
from splat_engine.formats.errors import UserError


def test_round_trip(tmp_path: Path) -> None:
    """Tensors, tuples, text and numbers come back equal."""
    values = {
        "a": {"b": (torch.arange(5.0), torch.zeros(0, 3)), "c": [1, 2.5, "text"]},
        "generator": torch.Generator().manual_seed(4).get_state(),
    }
    save_checkpoint(tmp_path / "c.pt", values)
    back = load_checkpoint(tmp_path / "c.pt")
    assert torch.equal(back["a"]["b"][0], values["a"]["b"][0]) and back["a"]["b"][1].shape == (0, 3)  # type: ignore[index]
    assert back["a"]["c"] == [1, 2.5, "text"] and torch.equal(back["generator"], values["generator"])  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["c.pt"]


def test_missing_checkpoint(tmp_path: Path) -> None:
    """Resuming from nothing says what to do."""
    with pytest.raises(UserError, match="no checkpoint") as caught:
        load_checkpoint(tmp_path / "c.pt")
    assert "without --resume" in caught.value.hint


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.98])
def test_damaged_checkpoint(tmp_path: Path, kept: float) -> None:
    """A file cut off anywhere is an error in words."""
    save_checkpoint(tmp_path / "c.pt", {"a": torch.arange(1000.0)})
    content = (tmp_path / "c.pt").read_bytes()
    (tmp_path / "c.pt").write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError, match="not a readable checkpoint"):
        load_checkpoint(tmp_path / "c.pt")


class Malice:
    """Would make a file on unpickling."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("malice",))


def test_loading_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle that calls a function is refused."""
    monkeypatch.chdir(tmp_path)
    torch.save({"version": CHECKPOINT_VERSION, "a": Malice()}, tmp_path / "c.pt")
    with pytest.raises(UserError, match="not a readable checkpoint"):
        load_checkpoint(tmp_path / "c.pt")
    assert not (tmp_path / "malice").exists()


def test_other_version(tmp_path: Path) -> None:
    """A checkpoint of another version is refused by its number; a tensor alone is no checkpoint."""
    torch.save({"version": 99}, tmp_path / "c.pt")
    with pytest.raises(UserError, match="version 99"):
        load_checkpoint(tmp_path / "c.pt")
    torch.save(torch.zeros(3), tmp_path / "d.pt")
    with pytest.raises(UserError, match="not a readable checkpoint"):
        load_checkpoint(tmp_path / "d.pt")


def test_full_disk_keeps_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing fails for want of space the old file stays, no other is left, and the error says so."""
    save_checkpoint(tmp_path / "c.pt", {"step": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"Cannot write .*c\.pt") as caught:
        save_checkpoint(tmp_path / "c.pt", {"step": 2})
    assert "disk is full" in caught.value.hint
    monkeypatch.undo()
    assert load_checkpoint(tmp_path / "c.pt") == {"step": 1} and os.listdir(tmp_path) == ["c.pt"]
