"""The instruction sets: the choice at run time, their agreement, and their separation in the library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from splat_engine import native
from splat_engine.native import build

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LEVELS = [entry.namespace for entry in build.instruction_sets()]


def run_with(level: str, folder: Path) -> dict[str, np.ndarray]:
    """Results of raster_run.py under SPLAT_ISA = level."""
    out = folder / f"{level}.npz"
    environment = {**os.environ, "SPLAT_ISA": level.removeprefix("isa_"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(HERE / "raster_run.py"), str(out)], check=True, env=environment)
    with np.load(out) as stored:
        return {name: stored[name] for name in stored.files}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, np.ndarray]]:
    """Results of every instruction set that this CPU has, by the name that the library reports."""
    folder = tmp_path_factory.mktemp("isa")
    usable = LEVELS[: LEVELS.index(native.isa()) + 1]
    return {level: run_with(level, folder) for level in usable}


def test_the_override_chooses_a_lower_level(results: dict[str, dict[str, np.ndarray]]) -> None:
    """SPLAT_ISA=v2 and so on is what splat_isa() then reports, for every level up to the CPU's own."""
    assert results
    for level, arrays in results.items():
        assert str(arrays["isa"]) == level


@pytest.mark.parametrize("nonsense", ["v9", "avx512", "", "v1"])
def test_an_unknown_override_is_ignored(nonsense: str) -> None:
    """Anything but v2, v3, v4 leaves the CPU's own level."""
    code = "from splat_engine import native; print(native.isa())"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPLAT_ISA": nonsense}
    chosen = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True
    )
    environment.pop("SPLAT_ISA")
    own = subprocess.run(
        [sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True
    )
    assert chosen.stdout == own.stdout


def test_all_levels_agree(results: dict[str, dict[str, np.ndarray]]) -> None:
    """Image and gradients of all instruction sets agree to rounding, in both types and for all compiled widths."""
    baseline = results[LEVELS[0]]
    assert baseline["float32_3_alpha"].max() > 0.5
    for level, arrays in results.items():
        for name, array in arrays.items():
            if name == "isa":
                continue
            tolerance = 3e-6 if name.startswith("float32") else 1e-12
            error = np.linalg.norm(array - baseline[name]) / np.linalg.norm(baseline[name])
            assert error < tolerance, f"{level} {name}: {error:.1e}"


def test_kernels_share_no_code_between_instruction_sets() -> None:
    """No object of one instruction set defines a symbol that the linker could take for another's (KERNELS.md, 2)."""
    if shutil.which("nm") is None:
        pytest.skip("needs nm of binutils")
    objects = build.object_directory(build.find_compiler(), [])
    units = [unit for unit in build.plan(build.find_compiler(), objects, [], build.source_root())]
    kernels = [unit for unit in units if unit.source.name.endswith("_kernel.cpp") and unit.object.is_file()]
    if not kernels:
        pytest.skip("the objects of the build are not here (an installed library)")
    for unit in kernels:
        namespace = unit.object.suffixes[0].removeprefix(".")
        listing = subprocess.run(
            ["nm", "-C", str(unit.object)], check=True, capture_output=True, text=True
        ).stdout
        defined = re.findall(r"^[0-9a-f]+ [TWVuBDR] (.+)$", listing, re.MULTILINE)
        strangers = [symbol for symbol in defined if namespace not in symbol]
        assert not strangers, f"{unit.object.name}: {strangers[:5]}"


def test_only_entry_points_are_exported() -> None:
    """The library shows splat_* and nothing else: no C++ runtime that could meet Blender's or torch's."""
    if shutil.which("nm") is None or not sys.platform.startswith("linux"):
        pytest.skip("needs nm of binutils, and ELF")
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(native.library_path())], check=True, capture_output=True, text=True
    ).stdout
    names = [line.split()[-1] for line in listing.splitlines()]
    assert "splat_rasterize_fwd_f32" in names
    assert [name for name in names if not name.startswith("splat_")] == []
