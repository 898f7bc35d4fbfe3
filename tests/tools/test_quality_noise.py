"""The noise study: a record of a fit of a pool, one row for both losses, one line of the chart for each kind of view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="a fit needs torch")

from tests.engine.tiny_capture import write_tiny_capture  # noqa: E402
from tools.bench.quality import noise_study  # noqa: E402
from tools.bench.quality.noise_study import chart, fitted, lines_of, markdown  # noqa: E402


def record(samples: int, denoised: bool, loss: str, psnr_db: float, cpu_s: float = 5.0) -> dict[str, Any]:
    """Returns what the study writes down of one fit."""
    return {
        "scene": "matte",
        "samples": samples,
        "denoised": denoised,
        "budget_s": cpu_s,
        "cpu_s": cpu_s,
        "views": 400 // samples,
        "loss": loss,
        "psnr_db": psnr_db,
    }


def test_a_pool_is_fitted_and_measured_on_other_views(tmp_path: Path) -> None:
    """Figures of views that the fit has not seen; more steps do not make them worse."""
    write_tiny_capture(tmp_path / "pool", hold_out=0)
    write_tiny_capture(tmp_path / "test", views=5, hold_out=0)
    short, longer = (fitted(tmp_path / "pool", tmp_path / "test", "encoded", steps) for steps in (1, 60))
    assert set(longer) == {"psnr_db", "ssim", "splats"} and longer["splats"] > 0
    assert longer["psnr_db"] > short["psnr_db"] > 5


def test_both_losses_stand_in_one_row() -> None:
    """Samples, denoising and views make the row; the losses its two figures, empty where there is none."""
    records = [
        record(4, False, "encoded", 30.123),
        record(4, False, "linear", 29.0),
        record(16, True, "linear", 31),
    ]
    assert markdown(records).splitlines()[2:] == [
        "| matte | 5.0 | 4 | no | 100 | 30.12 | 29.00 |",
        "| matte | 5.0 | 16 | yes | 25 |  | 31.00 |",
    ]


def test_lines_are_told_apart_without_colour() -> None:
    """Denoised views are dashed, the points follow render time, and the colours differ in brightness."""
    records = [record(s, d, "encoded", 30.0, t) for s in (4, 64) for d in (False, True) for t in (9.0, 3.0)]
    lines = lines_of(records)
    assert [line.label for line in lines] == [
        "4 samples",
        "4 samples, OIDN",
        "64 samples",
        "64 samples, OIDN",
    ]
    assert [line.dashed for line in lines] == [False, True, False, True]
    assert all(line.points == [(3.0, 30.0), (9.0, 30.0)] for line in lines)
    grey = sorted(np.dot(color, (0.299, 0.587, 0.114)) for color in noise_study.COLORS.values())
    assert min(np.diff(grey)) > 5


def test_the_chart_draws_every_series() -> None:
    """A panel for each loss, in which the pixels of each series' colour are found."""
    records = [
        record(s, False, loss, 30.0 + s / 16, t)
        for s in (4, 16, 64)
        for loss in ("encoded", "linear")
        for t in (3, 9)
    ]
    picture = np.asarray(chart(records, 1000), np.int16)
    for color in noise_study.COLORS.values():
        assert (np.abs(picture - np.array(color)).sum(axis=-1) < 30).sum() > 100
