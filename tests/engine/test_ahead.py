"""What is made ahead of torch is what the fit would make: the same splats, pictures, warnings and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from splat_engine.fit import ahead
from splat_engine.fit.ahead import look_ahead
from splat_engine.fit.commands import CommandQueue
from splat_engine.fit.data import CaptureImages
from splat_engine.fit.decoding import decoded_picture
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.loop import FitRequest, run_fit
from splat_engine.fit.start import start_splats
from splat_engine.formats.capture import read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import RunSettings
from tests.engine.tiny_capture import write_tiny_capture

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("capture")
    write_tiny_capture(root, pictures=True)
    return root


def settings_of(**fit: object) -> RunSettings:
    settings = RunSettings()
    return replace(
        settings,
        fit=replace(settings.fit, **{"target": "display", **fit}),
        start=replace(settings.start, start_splats=100),
    )


def test_nothing_of_it_needs_torch() -> None:
    """It would be imported twice."""
    code = "import sys\nfrom splat_engine.fit import ahead\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False\n"


def test_the_first_splats_and_warnings_are_the_fits_own(root: Path) -> None:
    """Bit for bit."""
    settings = settings_of(max_splats=40)
    settings = replace(settings, start=replace(settings.start, start=str(root / "init.ply")))
    warnings: list[str] = []
    expected = start_splats(
        read_capture(root), settings, np.random.default_rng(settings.fit.seed), warnings.append
    )
    made = look_ahead(root, settings, lambda: True)
    assert made.start is not None and warnings and made.warnings == tuple(warnings)
    assert made.start.extent == expected.extent
    for name in ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh"):
        assert np.array_equal(getattr(made.start.splats, name), getattr(expected.splats, name))
    assert look_ahead(root, settings, lambda: True, with_start=False).start is None


def test_what_the_first_splats_took_counts_as_time_of_the_fit(root: Path, tmp_path: Path) -> None:
    """Else a fit would seem faster for its work being done elsewhere."""
    settings = settings_of(steps=1)
    made = replace(look_ahead(root, settings, lambda: True), seconds=1000.0)
    assert look_ahead(root, settings, lambda: True).seconds > 0
    run_fit(FitRequest(root, tmp_path, settings, ahead=made), lambda event: None, CommandQueue())
    assert json.loads((tmp_path / "metrics.json").read_text())["seconds.fit"] > 1000


@pytest.mark.parametrize("budget_bytes", [0, 1 << 30])
def test_views_of_pictures_decoded_ahead_are_the_same(root: Path, budget_bytes: int) -> None:
    """And the file is read again where a view is not kept: the pixels handed over serve once."""
    made = look_ahead(root, settings_of(), lambda: False, with_start=False)
    capture = read_capture(root)
    assert len(made.pictures) == len(capture.views)

    def images(decoded: Mapping[Path, NDArray[Any]] | None) -> CaptureImages:
        formation = ImageFormation("blender")
        return CaptureImages(
            capture, "train", formation, target="display", budget_bytes=budget_bytes, decoded=decoded
        )

    own, given = images(None), images(made.pictures)
    for number in range(len(own)):
        for _ in range(2):
            assert torch.equal(own[number].color, given[number].color)
            assert torch.equal(own[number].alpha, given[number].alpha)


def test_pixels_handed_over_are_used_and_not_read_anew(root: Path) -> None:
    """Else decoding ahead would be for nothing."""
    capture = read_capture(root)
    path = root / str(capture.of_split("train")[0].image)
    black = np.zeros_like(decoded_picture(path))
    images = CaptureImages(
        capture, "train", ImageFormation("blender"), target="display", decoded={path: black}
    )
    assert not images[0].alpha.any() and images[1].alpha.any()


def test_decoding_ends_when_it_is_asked_for_or_full(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a picture, and the memory is bounded."""
    asked = iter([False, False, True])
    assert len(look_ahead(root, settings_of(), lambda: next(asked), with_start=False).pictures) == 2
    first = read_capture(root).views[0]
    monkeypatch.setattr(ahead, "PIXELS_MOST_BYTES", 4 * first.camera.width * first.camera.height + 1)
    assert len(look_ahead(root, settings_of(), lambda: False, with_start=False).pictures) == 2


def test_views_of_linear_light_are_left_to_the_fit(root: Path) -> None:
    """Their pictures are not what is compared."""
    assert not look_ahead(root, settings_of(target="linear"), lambda: False, with_start=False).pictures


def test_a_damaged_picture_is_left_to_who_needs_it(tmp_path: Path) -> None:
    """The others are decoded; the fit names the file when it comes to it."""
    write_tiny_capture(tmp_path, pictures=True)
    capture = read_capture(tmp_path)
    path = tmp_path / str(capture.of_split("train")[0].image)
    path.write_bytes(path.read_bytes()[:100])
    made = look_ahead(tmp_path, settings_of(), lambda: False, with_start=False)
    assert path not in made.pictures and len(made.pictures) == len(capture.views) - 1
    images = CaptureImages(
        capture, "train", ImageFormation("blender"), target="display", decoded=made.pictures
    )
    with pytest.raises(UserError, match=path.name):
        images[0]
