"""The run's directory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import read_json, write_json
from splat_engine.formats.run import RunDirectory

NAMES = {
    "settings": "settings.json",
    "events": "events.jsonl",
    "log": "engine.log",
    "preview": "preview.png",
    "snapshot": "snapshot.ply",
    "checkpoint": "checkpoint.pt",
    "splats": "splats.ply",
    "metrics": "metrics.json",
}


def test_the_files_have_the_names_of_the_design() -> None:
    """DESIGN.md lists them; the add-on and the engine find each other by them."""
    run = RunDirectory(Path("somewhere"))
    assert {name: getattr(run, name) for name in NAMES} == {
        n: Path("somewhere") / f for n, f in NAMES.items()
    }


def test_a_run_is_made_once_and_opened_again(tmp_path: Path) -> None:
    """Making it twice does no harm; opening needs settings.json."""
    root = tmp_path / "a" / "run"
    run = RunDirectory.create(str(root))
    with pytest.raises(UserError, match="There is no run at") as caught:
        RunDirectory.open(root)
    assert "settings.json" in caught.value.hint
    write_json(run.settings, {})
    assert RunDirectory.create(root) == RunDirectory.open(str(root)) == run


def test_a_run_cannot_be_made_inside_a_file(tmp_path: Path) -> None:
    """Words, not an OSError."""
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match="Cannot write") as caught:
            RunDirectory.create(root)
        assert caught.value.hint


def test_metrics_gather(tmp_path: Path) -> None:
    """The engine writes its figures, Blender adds its own; a key given again is replaced."""
    run = RunDirectory.create(tmp_path)
    run.write_metrics({"engine": {"psnr": 31.5}, "splats": 10})
    run.write_metrics({"blender": {"psnr_linear": 30.0}, "splats": 12})
    assert read_json(run.metrics) == {
        "engine": {"psnr": 31.5},
        "splats": 12,
        "blender": {"psnr_linear": 30.0},
    }


def test_a_figure_that_is_no_number_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """NaN is not written, and what stood there stays."""
    run = RunDirectory.create(tmp_path)
    run.write_metrics({"splats": 10})
    with pytest.raises(ValueError, match="JSON"):
        run.write_metrics({"psnr": math.nan})
    assert read_json(run.metrics) == {"splats": 10}


@pytest.mark.parametrize("content", ["[]", "3", "{"])
def test_a_damaged_metrics_file_is_said_and_kept(tmp_path: Path, content: str) -> None:
    """It is not written over in silence."""
    run = RunDirectory.create(tmp_path)
    run.metrics.write_text(content)
    with pytest.raises(UserError, match=r"metrics\.json"):
        run.write_metrics({"splats": 1})
    assert run.metrics.read_text() == content
