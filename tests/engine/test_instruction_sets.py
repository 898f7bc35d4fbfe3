"""The ops give the same on every instruction set of this CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from splat_engine import native

HERE = Path(__file__).resolve().parent
LEVELS = ["isa_v2", "isa_v3", "isa_v4"]


@pytest.mark.parametrize("level", LEVELS[:-1])
def test_older_instruction_sets_give_the_same(level: str, tmp_path: Path) -> None:
    """Values and gradients of project, sh_colors, ssim and adam_step under SPLAT_ISA equal this CPU's best."""
    best = native.isa()
    if best not in LEVELS or LEVELS.index(level) >= LEVELS.index(best):
        pytest.skip(f"this CPU's instruction set is {best}: nothing above {level} to compare with")
    saved = {}
    for name in (level, best):
        environment = {**os.environ, "SPLAT_ISA": name.removeprefix("isa_"), "OMP_WAIT_POLICY": "PASSIVE"}
        environment["PYTHONPATH"] = str(HERE.parents[1])
        out = tmp_path / f"{name}.npz"
        subprocess.run([sys.executable, str(HERE / "ops_run.py"), str(out)], check=True, env=environment)
        saved[name] = np.load(out)
    assert len(saved[level].files) == len(saved[best].files) > 30
    for key in saved[best].files:
        a, b = saved[level][key].astype(np.float64), saved[best][key].astype(np.float64)
        tolerance = 5e-6 if "float32" in key else 1e-13
        assert np.linalg.norm(b) > 0, key
        assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b), key
