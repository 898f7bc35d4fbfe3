"""The smoke test of wheels: what is run where, what is missing, and which sums count as the same."""

from __future__ import annotations

import re

import pytest

from splat_engine.native import structs
from splat_engine.native.build import TARGETS, Target
from tools import smoke
from tools.smoke import (
    MissingEmulatorError,
    Run,
    Sum,
    check_needs,
    compare,
    parse_output,
    runs_for,
    threads_of,
)
from tools.wheels import WheelError

HERE = TARGETS["linux-x64"]
SUMS = {"ssim_fwd:mean:f32:1": Sum(-0.5, 2.0, 10), "ssim_fwd:mean:f64:3": Sum(0.25, 1.0, 10)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linux-x64", ["natively", "under qemu-x86_64 -cpu Nehalem", "under qemu-x86_64 -cpu Haswell"]),
        ("linux-arm64", ["under qemu-aarch64"]),
        ("windows-x64", ["under Wine", "under Wine, SPLAT_ISA=v3", "under Wine, SPLAT_ISA=v2"]),
        ("macos-arm64", []),
        ("macos-x64", []),
    ],
)
def test_what_linux_x64_runs(name: str, expected: list[str]) -> None:
    """Its own as it is and on two older processors, arm64 and Windows by an emulator, macOS not at all."""
    assert [run.how for run in runs_for(TARGETS[name], HERE)] == expected


def test_the_instruction_set_that_must_be_chosen() -> None:
    """The baseline on Nehalem, the middle one on Haswell, the only one on arm64; else it depends on the machine."""
    chosen = {run.how.split()[-1]: run.isa for name in TARGETS for run in runs_for(TARGETS[name], HERE)}
    assert chosen == {
        "natively": "",
        "Nehalem": "isa_v2",
        "Haswell": "isa_v3",
        "qemu-aarch64": "isa_base",
        "Wine": "",
        "SPLAT_ISA=v3": "",
        "SPLAT_ISA=v2": "",
    }


def test_other_machines() -> None:
    """A Mac runs its own alone; Linux on arm64 its own as it is, and x64 under qemu with that system's libraries."""
    mac, arm = TARGETS["macos-arm64"], TARGETS["linux-arm64"]
    assert [run.how for run in runs_for(mac, mac)] == ["natively"]
    assert all(runs_for(target, mac) == [] for target in TARGETS.values() if target != mac)
    assert [run.how for run in runs_for(arm, arm)] == ["natively"]
    assert all(run.emulator[-2:] == ("-L", "/usr/x86_64-linux-gnu") for run in runs_for(HERE, arm))
    assert runs_for(TARGETS["windows-x64"], arm) == []
    assert runs_for(Target("freebsd14", "x86_64"), HERE) == []


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it at once, in the words of the command that installs it; what is there is not."""
    monkeypatch.setattr(smoke, "find_program", lambda name: "/usr/bin/true" if name == "there" else None)
    needs = (
        ("there", "here"),
        ("qemu-aarch64", "qemu-user"),
        ("/no/such/folder", "libc6-arm64-cross"),
        ("/", "root"),
    )
    with pytest.raises(
        MissingEmulatorError, match=r"apt-get install --no-install-recommends qemu-user libc6-arm64-cross$"
    ):
        check_needs(Run("under qemu-aarch64", needs=needs))
    check_needs(Run("natively"))


def test_the_drivers_output_is_read() -> None:
    """With the line ends of Windows too; anything else is an error that shows it."""
    text = "isa isa_v4\r\nadam_step:exp_avg:f32:1 -1.5 3e2 7\r\n"
    assert parse_output(text) == ("isa_v4", {"adam_step:exp_avg:f32:1": Sum(-1.5, 300.0, 7)})
    for wrong in ("", "Segmentation fault\n", "isa v4\nadam_step:exp_avg:f32:1 -1.5 3e2\n"):
        with pytest.raises(WheelError, match="unexpected"):
            parse_output(wrong)


def changed(**values: float) -> dict[str, Sum]:
    """SUMS with another float sum."""
    return {**SUMS, "ssim_fwd:mean:f32:1": Sum(**{"weighted": -0.5, "magnitude": 2.0, "count": 10, **values})}  # type: ignore[arg-type]


def test_sums_that_agree() -> None:
    """The largest difference of each type, over the sum of magnitudes."""
    assert compare(SUMS, SUMS) == {"f32": 0, "f64": 0}
    assert compare(changed(weighted=-0.5 + 1e-5), SUMS)["f32"] == pytest.approx(5e-6)
    assert compare(changed(magnitude=2.0 - 1e-5), SUMS)["f32"] == pytest.approx(5e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        changed(weighted=-0.5 + 3e-4),
        changed(magnitude=2.0 + 3e-4),
        changed(weighted=float("nan")),
        changed(magnitude=float("nan")),
        changed(magnitude=float("inf")),
        changed(count=9),
        changed(weighted=0.0, magnitude=0.0),
        {**SUMS, "ssim_fwd:mean:f64:3": Sum(0.25 + 1e-8, 1.0, 10)},
        {"ssim_fwd:mean:f32:1": SUMS["ssim_fwd:mean:f32:1"]},
        {**SUMS, "more:than:f32:1": Sum(1, 1, 1)},
        {},
    ],
)
def test_sums_that_do_not(wrong: dict[str, Sum]) -> None:
    """A difference above the tolerance of its type, NaN, infinity, another count, nothing but zeros, other results."""
    with pytest.raises(WheelError):
        compare(wrong, SUMS)


def test_empty_results_are_no_agreement() -> None:
    """Zeros on both sides prove nothing."""
    zeros = {"ssim_fwd:mean:f32:1": Sum(0, 0, 10)}
    with pytest.raises(WheelError):
        compare(zeros, zeros)


def test_sums_by_threads() -> None:
    """Without the thread count in the name, so that two counts can be compared."""
    assert threads_of(SUMS, 3) == {"ssim_fwd:mean:f64": SUMS["ssim_fwd:mean:f64:3"]}


def test_the_driver_calls_every_op() -> None:
    """tools/smoke_library.cpp names each op of the table: a new one needs a function there."""
    called = re.findall(r'library\.call\(\s*"(\w+)"', smoke.DRIVER.read_text(encoding="utf-8"))
    assert sorted(called) == sorted(structs.OPS)
