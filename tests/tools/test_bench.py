"""The benchmark: its inputs are everybody's, its stages add up, its records have their keys. No test looks at a time."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splat_engine.formats.splats import ARRAY_NAMES
from splat_engine.native.library import Library
from tools.bench import command, memory, report, stages
from tools.bench.inputs import CASES, make_input

ROOT = Path(__file__).resolve().parents[2]
TINY = (200, 40)
KEYS = {"kind", "case", "splats", "size_px", "formation", "isa", "threads", "load_average"}
KEYS |= {"forward_ms", "backward_ms", "forward_backward_ms", "step_ms", "stages_ms", "cores"}
KEYS |= {"pairs", "visited_pairs", "evaluated_pixel_pairs", "blended_pixel_pairs", "lanes", "peak_gflops"}
KEYS |= {
    f"{half}_{figure}" for half in ("forward", "backward") for figure in ("ns_per_pair", "share_of_peak")
}
KEYS |= {"forward_flops_per_pair", "backward_flops_per_pair"}


def workload(formation: str = "classic") -> Any:
    """A tiny input, ready to train."""
    pytest.importorskip("torch", reason="a training step needs torch")
    from tools.bench.training import make_workload

    return make_workload(make_input(*TINY), formation)


def test_inputs_are_those_of_the_peers() -> None:
    """Every array of the standard inputs has the bytes of ../shared/bench/gen.py, on which peers were measured."""
    path = ROOT.parent / "shared" / "bench" / "gen.py"
    if not path.is_file():
        pytest.skip(f"{path} is not beside this checkout")
    spec = importlib.util.spec_from_file_location("gen", path)
    assert spec is not None and spec.loader is not None
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    assert {name: (count, width) for name, (count, width, _) in gen.CASES.items()} == CASES
    for name in ("c10k_256", "c50k_512"):
        count, size = CASES[name]
        theirs, ours = gen.make(count, size, size), make_input(count, size)
        for array in ARRAY_NAMES:
            key = array.removesuffix("_wxyz")
            assert getattr(ours.splats, array).tobytes() == theirs[key].tobytes(), f"{name} {array}"
        assert ours.image_cotangent.tobytes() == theirs["v_rgb"].tobytes()
        assert np.array_equal(ours.camera.viewmat.astype(np.float32), theirs["viewmat"])
        camera = theirs["K"][[0, 1, 0, 1], [0, 1, 2, 2]]
        assert np.array_equal(ours.camera.intrinsics.astype(np.float32), camera)


@pytest.mark.parametrize("formation", ["classic", "blender", "own-order"])
def test_a_record_has_its_keys(formation: str) -> None:
    """One record an input: times, stages, counts and rates, as JSON, and the rates follow from the others."""
    pytest.importorskip("torch", reason="a training step needs torch")
    from splat_engine import native
    from tools.bench import measure

    threads = native.get_num_threads()
    given = make_input(*TINY)
    record = json.loads(json.dumps(measure.measure_case("tiny", given, formation, threads, 0.0)))
    assert record.keys() == KEYS
    assert (record["kind"], record["splats"], record["size_px"]) == ("input", *TINY)
    assert record["isa"] == native.isa() and record["formation"] == formation
    assert all(record[name] > 0 for name in ("forward_ms", "backward_ms", "step_ms"))
    assert record["forward_backward_ms"] == pytest.approx(record["forward_ms"] + record["backward_ms"])
    evaluated = record["evaluated_pixel_pairs"]
    assert 0 < record["blended_pixel_pairs"] < evaluated and evaluated % record["lanes"] == 0
    for half, stage in (("forward", stages.BLEND), ("backward", stages.RASTER_BACKWARD)):
        nanoseconds = record["stages_ms"][stage] * 1e6
        assert record[f"{half}_ns_per_pair"] == pytest.approx(nanoseconds * threads / evaluated)
        flops_a_ns = evaluated * record[f"{half}_flops_per_pair"] / nanoseconds
        assert record[f"{half}_share_of_peak"] == pytest.approx(flops_a_ns / record["peak_gflops"])


def test_the_comparison_with_plain_torch() -> None:
    """Both are timed on one input; its size and the reference's lack of tiles are said."""
    pytest.importorskip("torch", reason="the reference is torch")
    from tools.bench import measure

    figures = measure.reference_figures("classic", (20, 16), seconds=0.0)
    assert (figures["reference_splats"], figures["reference_size_px"]) == (20, 16)
    assert figures["reference_tile"] == "none"
    ratio = figures["reference_torch_ms"] / figures["reference_engine_ms"]
    assert figures["reference_ratio"] == pytest.approx(ratio) and ratio > 0


def test_stages_add_up_to_the_step() -> None:
    """Each stage of a step has its time; no native op is without a stage; binning is apart from blending."""
    step = workload().step_in_parts
    step()
    found = stages.time_stages(step)
    assert list(found) == list(stages.STAGES)
    assert all(milliseconds > 0 for milliseconds in found.values())


def test_an_op_of_a_new_name_is_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the table of stages does not know is shown by its own name, and the rest of the step does not grow."""
    step = workload().step_in_parts
    known = {op: stage for op, stage in stages.STAGE_OF_OP.items() if op != "update_splats"}
    monkeypatch.setattr(stages, "STAGE_OF_OP", known)
    found = stages.time_stages(step)
    assert found["update_splats"] > 0 and not any("Adam" in name for name in found)


def test_the_clock_lets_go_of_the_library() -> None:
    """After an error too, calls go to the library itself again."""
    original = Library.call
    with pytest.raises(KeyError), stages.NativeClock():
        assert Library.call is not original
        raise KeyError
    assert Library.call is original


@pytest.mark.parametrize("formation", ["classic", "blender", "own-order"])
def test_steps_leave_the_splats_where_they_are(formation: str) -> None:
    """Every round of the benchmark does the same work: after three steps the image is the same to the bit."""
    import torch

    work = workload(formation)
    before = work.forward().blended.detach().clone()
    for _ in range(3):
        work.step()
        work.step_in_parts()
    assert before.abs().max() > 0.1
    assert torch.equal(before, work.forward().blended)


@pytest.mark.parametrize("name", ["step", "step_in_parts"])
def test_a_step_has_gradients_to_work_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The target differs from the drawing: Adam is given gradients of the size that a fit has, no zeros."""
    work = workload()
    import torch

    from splat_engine.fit.optimizer import Adam

    found: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    moments = Adam.moments

    def keep_moments(self: Adam, state: Any) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        found.update(moments(self, state))
        return found

    monkeypatch.setattr(Adam, "moments", keep_moments)
    getattr(work, name)()
    assert set(found) == set(ARRAY_NAMES)
    for group, (first, _) in found.items():
        assert first.abs().max() > 1e-7, group  # a tenth of the gradient


def test_the_memory_worker(tmp_path: Path) -> None:
    """An input goes through its file unchanged; the worker's record says what was measured, above a base."""
    pytest.importorskip("torch", reason="a training step needs torch")
    path = str(tmp_path / "input.npz")
    memory.write_input(path, 30_000, 64)
    again, made = memory.read_input(path), make_input(30_000, 64)
    assert all(np.array_equal(getattr(again.splats, n), getattr(made.splats, n)) for n in ARRAY_NAMES)
    assert again.camera == made.camera and np.array_equal(again.image_cotangent, made.image_cotangent)
    record = json.loads([*command.start_worker("memory", ["run", path, "classic", "1"], "v2")][-1])
    assert (record["kind"], record["splats"], record["size_px"], record["threads"]) == (
        "memory",
        30_000,
        64,
        1,
    )
    assert record["parameters_moments_mb"] == pytest.approx(30_000 * 59 * 12 / 1e6)
    assert record["parameters_moments_mb"] < record["peak_mb"] <= record["later_peak_mb"]
    assert any("21 MB are the parameters" in line for line in report.memory_lines(record))


def test_a_worker_that_fails_says_why() -> None:
    """The end of its stderr is in the error."""
    with pytest.raises(command.BenchError, match="No module named tools.bench.nothing"):
        list(command.start_worker("nothing", [], "v2"))


def record(**changed: Any) -> report.Record:
    """A record with easy numbers."""
    made = {"case": "c50k_512", "formation": "blender", "isa": "isa_v4", "threads": 2}
    made |= {
        "forward_ms": 10.0,
        "backward_ms": 20.0,
        "step_ms": 11.0,
        "stages_ms": {"blend": 4.0, "Adam": 3.0},
    }
    made |= {"evaluated_pixel_pairs": 4_000_000, "blended_pixel_pairs": 3_000_000, "peak_gflops": 300.0}
    made |= {"forward_ns_per_pair": 0.5, "backward_ns_per_pair": 1.0, "reference_ratio": 321.0}
    made |= {"forward_share_of_peak": 0.25, "backward_share_of_peak": 0.5}
    made |= {"forward_flops_per_pair": 31, "backward_flops_per_pair": 56}
    made |= {"reference_splats": 300, "reference_size_px": 128, "cores": 1.9}
    return made | changed


def test_targets_are_compared_with_what_was_reached() -> None:
    """30 ms of 20 are 1.50, a step of 11 of 22 is 0.50, OpenSplat's 586 ms are 19.5 times more; others have no line."""
    *_, line = report.target_table([record(), record(threads=1), record(isa="isa_v2")])
    assert line.split() == "c50k_512 blender v4 2 30.00 / 20.0 = 1.50 11.00 / 22.0 = 0.50 19.5".split()
    assert report.target_table([record(threads=1)]) == []


def test_tables_have_a_line_a_record() -> None:
    """Rates and stages: figures stand under their heads, and a stage that only one record has is 0 in the other."""
    two = [record(), record(isa="isa_v3", stages_ms={"blend": 5.0, "fused": 1.5})]
    assert (
        report.rate_table(two)[-1].split()[4:] == "4.00 M 75% 0.500 1.000 25.0% 50.0% 300.0 1.90 321".split()
    )
    table = report.stage_table(two)
    assert table[1].split()[-4:] == ["blend", "Adam", "fused", "sum"]
    assert [line.split()[-4:] for line in table[2:]] == [
        ["4.00", "3.00", "0.00", "7.00"],
        ["5.00", "0.00", "1.50", "6.50"],
    ]


def test_a_busy_machine_is_named() -> None:
    """Two threads that had the arithmetic of 1.5 cores are told of; 1.9 pass."""
    lines = report.rate_table([record(), record(cores=1.5)])
    assert lines[-1].startswith("BUSY MACHINE: in 1 of 2 lines")
    assert not any("BUSY" in line for line in report.rate_table([record()]))


def test_levels_that_the_cpu_lacks_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With words; a CPU without levels has its one instruction set."""
    monkeypatch.setattr(command.native, "isa", lambda: "isa_v3")
    assert command.usable_levels(["v4", "v3", "v2"]) == ["v3", "v2"]
    assert "v4 is left out: this CPU has v3" in capsys.readouterr().out
    with pytest.raises(command.BenchError, match="none of the instruction sets asked for: v4"):
        command.usable_levels(["v4"])
    monkeypatch.setattr(command.native, "isa", lambda: "isa_base")
    assert command.usable_levels(["v4", "v3"]) == ["base"]
