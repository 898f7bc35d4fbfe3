"""gpu_check runs without a card on tiny inputs, tells failures, and its counts know every kernel."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="a check of the kernels needs torch")

from tools.gpu import checks, command, costs, speed  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SIZES = costs.Sizes(
    splats=1000,
    drawn=900,
    pairs=4000,
    visited=3000.0,
    patch_buckets=750.0,
    evaluated=90_000,
    pixels=4096,
    tiles=16,
)


def report_of(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of a run on an emulated card."""
    file = folder / "deep" / "gpu.json"
    code = command.main(["--emulate", "--json", str(file), *words])
    return code, json.loads(file.read_text())


def test_it_runs_without_a_card(tmp_path: Path) -> None:
    """All parts that can be emulated: machine, tests, a fit and the speed of a tiny input with every kernel."""
    code, report = report_of(tmp_path)
    assert code == 0 and report["ok"] and report["emulated"] and report["seconds"] > 0
    parts = report["parts"]
    assert set(parts) == set(command.PARTS)
    states = {name: part["state"] for name, part in parts.items()}
    assert states.pop("dataset") == states.pop("gsplat") == "skipped"
    assert set(states.values()) == {"ok"}
    assert parts["machine"]["torch"] and isinstance(parts["machine"]["missing"], list)
    assert parts["tests"]["passed"] >= 2 and parts["tests"]["failed"] == 0
    assert 0 < parts["tests"]["worst_differences"]["test_a_fit: splats"] < 1e-4
    assert parts["fit"]["steps"] == 3 and parts["fit"]["psnr"] > 5
    tiny = parts["speed"]["inputs"]["tiny"]
    assert min(tiny["forward_ms"], tiny["backward_ms"], tiny["step_ms"], tiny["step_floor_ms"]) > 0
    assert tiny["pairs"] > 200
    counted = {name for name, rates in tiny["kernels"].items() if "share_of_copy" in rates}
    assert counted == set(tiny["kernels"]) and {"rasterize_fwd", "rasterize_bwd", "update_splats"} <= counted
    own = tiny["own_order"]
    assert min(own["forward_ms"], own["backward_ms"], own["by_centers_forward_ms"]) > 0
    assert 0 <= own["tiles_scanned_again"] <= 1
    assert {"touched_patches", "rasterize_by_ray_fwd", "ray_shares", "rasterize_by_ray_bwd"} <= set(
        own["kernels"]
    )
    assert all("share_of_copy" in rates for rates in own["kernels"].values())


def test_a_failure_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What failed is in the report with its text, the parts behind it are done, and the exit code is 1."""

    def broken(check: checks.Check) -> dict[str, Any]:
        raise ZeroDivisionError("planted")

    def poor(check: checks.Check) -> dict[str, Any]:
        raise checks.Failed("too low", {"psnr": 3.0})

    monkeypatch.setattr(checks, "machine", broken)
    monkeypatch.setattr(checks, "fit", poor)
    monkeypatch.setattr(speed, "measure", lambda *given, **options: {"failed_inputs": ["tiny"], "inputs": {}})
    code, report = report_of(tmp_path, "--part", "machine", "fit", "dataset", "speed")
    parts = report["parts"]
    assert code == 1 and not report["ok"]
    assert {name: part["state"] for name, part in parts.items()} == {
        "machine": "failed",
        "fit": "failed",
        "dataset": "skipped",
        "speed": "failed",
    }
    assert "planted" in parts["machine"]["text"] and "Traceback" in parts["machine"]["text"]
    assert parts["fit"]["psnr"] == 3.0 and parts["fit"]["text"] == "too low"
    assert "tiny" in parts["speed"]["text"] and "something failed" in capsys.readouterr().out


def test_without_a_card_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not emulated, on a machine without a card: exit code 1, and the report says what is missing."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a card")
    file = tmp_path / "gpu.json"
    assert command.main(["--json", str(file), "--part", "fit"]) == 1
    assert "no NVIDIA card" in json.loads(file.read_text())["parts"]["card"]["text"]


def test_a_report_of_tests_is_read() -> None:
    """Counts, worst differences over a test's cases, and the words of what failed."""
    xml = """<testsuites><testsuite>
      <testcase name="test_a[1]"><properties><property name="image" value="1e-6"/></properties></testcase>
      <testcase name="test_a[2]"><properties><property name="image" value="3e-6"/></properties></testcase>
      <testcase name="test_b"><failure message="assert 1 == 2">long</failure></testcase>
      <testcase name="test_c"><skipped message="no card"/></testcase>
    </testsuite></testsuites>"""
    figures, failures = checks._read(ElementTree.ElementTree(ElementTree.fromstring(xml)))
    assert (figures["passed"], figures["failed"], figures["skipped"]) == (2, 1, ["test_c: no card"])
    assert figures["worst_differences"] == {"test_a: image": 3e-6}
    assert failures == ["test_b: assert 1 == 2"]


def test_every_kernel_is_known_to_the_counts() -> None:
    """Each kernel of csrc/cuda is counted, or is said to be left out; and no other is."""
    named = re.compile(r"SPLAT_(?:CHANNEL_)?KERNELS?\(\s*([a-z]\w+)\s*,")
    kernels = {
        costs.kernel_of(f"{name}_f32")
        for path in (ROOT / "csrc" / "cuda").glob("*.cu")
        for name in named.findall(path.read_text())
    }
    known = {name for name in (*costs.COSTS, *costs.OTHERS) if "torch" not in name} | costs.UNCOUNTED
    assert kernels == known and len(kernels) > 15


def test_entry_points_and_kernels() -> None:
    """The scalar type and the number of channels are no part of a kernel's name."""
    assert costs.kernel_of("rasterize_fwd_c3_f32") == "rasterize_fwd"
    assert costs.kernel_of("project_colors_fwd_f64") == "project_colors_fwd"


def test_floors_add_up() -> None:
    """A step's floor is the sum of its kernels', each the larger of its bytes' and its operations' time."""
    assert costs.Cost(4.8e9, 1.0).floor_ms() == pytest.approx(1.0)
    assert costs.Cost(1.0, 67e9).floor_ms() == pytest.approx(1.0)
    parts = [cost(SIZES).floor_ms() for cost in costs.COSTS.values()]
    assert min(parts) > 0 and costs.step_floor_ms(SIZES) == pytest.approx(sum(parts))
    lines = costs.table({"one": SIZES})
    assert len(lines) == len(parts) + 3 and lines[-1].startswith("| **step**")
    assert all(line.count("|") == lines[0].count("|") for line in lines)
