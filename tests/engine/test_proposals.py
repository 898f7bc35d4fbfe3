"""``splat-engine propose``: a short fit, and from it the cameras to render next; bad input in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from splat_engine import cli
from splat_engine.fit.commands import CommandQueue, Interrupt
from splat_engine.fit.loop import FitRequest
from splat_engine.fit.proposals import ProposalRequest, brief, propose_views
from splat_engine.formats.capture import PROPOSED_NAME, TRANSFORMS_NAME, read_capture
from splat_engine.formats.events import Event, Finished
from splat_engine.formats.settings import FitSettings
from tests.engine.tiny_capture import known_splats, perturbed, ring_cameras, write_tiny_capture


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("capture")
    write_tiny_capture(root, views=4, hold_out=0)
    return root


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    """Eleven probes from other places, of splats that the capture does not show quite so."""
    cameras = [replace(item, near=0.25, far=50.0) for item in ring_cameras(11)]
    write_tiny_capture(tmp_path / "probes", cameras=cameras, hold_out=0, splats=perturbed(known_splats()))
    return tmp_path / "probes" / TRANSFORMS_NAME


def propose(capture: Path, out: Path, candidates: Path, *more: str) -> int:
    common = ["propose", str(capture), "--out", str(out), "--candidates", str(candidates), "--threads", "1"]
    return cli.main([*common, "--progress", "none", "--steps", "8", *more])


def test_proposed_cameras_are_candidates_best_first(capture: Path, candidates: Path, tmp_path: Path) -> None:
    """The file holds so many different cameras of the candidates, by their names; again, the same."""
    offered = {view.camera.name for view in read_capture(candidates).views}
    assert propose(capture, tmp_path / "a", candidates, "--count", "3") == 0
    chosen = [view.camera.name for view in read_capture(tmp_path / "a" / PROPOSED_NAME).views]
    assert len(set(chosen)) == 3 and set(chosen) <= offered
    assert propose(capture, tmp_path / "b", candidates, "--count", "3") == 0
    assert [view.camera.name for view in read_capture(tmp_path / "b" / PROPOSED_NAME).views] == chosen
    events = [json.loads(line) for line in (tmp_path / "a/events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events][-2:] == ["file", "finished"]
    assert events[-2]["kind"] == "proposed"


def test_an_interrupted_fit_proposes_nothing(capture: Path, candidates: Path, tmp_path: Path) -> None:
    """Whoever ends the fit wants no cameras: there is no file, and the ending is passed on."""
    commands, told = CommandQueue(), list[Event]()
    commands.put(Interrupt())
    fit = FitRequest(capture, tmp_path / "run", brief(FitSettings(), 8))
    finished = propose_views(ProposalRequest(fit, candidates, 3), told.append, commands)
    assert finished.reason == "interrupted" and isinstance(told[-1], Finished)
    assert not (tmp_path / "run" / PROPOSED_NAME).exists()


def test_the_brief_fit_is_brief() -> None:
    """Few splats, a fixed number of them, nothing saved on the way; the rest is as it was asked for."""
    fit = brief(FitSettings(seed=5, snapshot_interval=10, checkpoint_interval=10), 40).fit
    assert (fit.steps, fit.seed, fit.strategy) == (40, 5, "none")
    assert (fit.snapshot_interval, fit.checkpoint_interval) == (0, 0)


def broken(path: Path) -> Path:
    path.write_text('{"frames": [')
    return path


def absent(path: Path) -> Path:
    path.unlink()
    return path


@pytest.mark.parametrize(
    ("damage", "words", "more"),
    [
        (broken, TRANSFORMS_NAME, ("--count", "1")),
        (absent, "There is no capture", ("--count", "1")),
        (Path, "must be 1 or more", ("--count", "0")),
        (Path, "must be 1 or more", ("--count", "1", "--steps", "0")),
    ],
)
def test_bad_input_is_told(
    damage: Any,
    words: str,
    more: tuple[str, ...],
    capture: Path,
    candidates: Path,
    tmp_path: Path,
    capsys: Any,
) -> None:
    """A damaged or missing list and a senseless number are errors in words, before anything is fitted."""
    assert propose(capture, tmp_path / "run", damage(candidates), *more) == 1
    text = capsys.readouterr().err
    assert words in text and "Traceback" not in text
    assert not (tmp_path / "run" / "splats.ply").exists()
