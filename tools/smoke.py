"""Runs built libraries with tools/smoke_library.cpp, here or under an emulator, and compares the sums it prints.

The logic of tools/test_wheels. Standard library only.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.wheels import ENGINE, ROOT, WheelError

if TYPE_CHECKING:
    from splat_engine.native.build import Target

DRIVER = ROOT / "tools" / "smoke_library.cpp"
DRIVER_SOURCES = (
    DRIVER,
    ROOT / "csrc/cpu/kernels.h",
    ROOT / "csrc/cpu/abi.h",
    ROOT / "csrc/include/macros.h",
)
TIMEOUT_SECONDS = 900

# Largest difference of two sums, over the sum of magnitudes. The issue allows gradients 1e-4 of relative L2 between
# backends, and sums of some thousand numbers differ less than they do. What may differ: the order of additions, fused
# multiply-adds, which vector width and each CPU's set of instructions decide; seldom a pixel where a splat is just
# above or below 1/255. A wrong kernel is off by its own size.
TOLERANCES = {"f32": 1e-4, "f64": 1e-9}


class MissingEmulatorError(Exception):
    """A program or library of the system is missing; the text names the Debian packages."""


@dataclass(frozen=True)
class Run:
    """One way to run a platform's library on this machine.

    Attributes:
        how: in words, to follow the platform's name.
        emulator: the program with its arguments; empty for none; "wine" stands for whatever Wine is called.
        isa: the instruction set that must be chosen, "" where the machine decides.
        level: what SPLAT_ISA asks for, such as "v2"; "" for nothing.
        needs: files or programs to Debian packages.
    """

    how: str
    emulator: tuple[str, ...] = ()
    isa: str = ""
    level: str = ""
    needs: tuple[tuple[str, str], ...] = ()


def runs_for(target: Target, here: Target) -> list[Run]:
    """The ways to run a platform's library on a machine; none if there are none."""
    runs = []
    if target == here:
        runs.append(Run("natively", isa="isa_base" if target.machine == "aarch64" else ""))
    if (target.system, here.system) == ("linux", "linux"):
        runs += _under_qemu(target, here)
    if (target.system, target.machine) == ("win32", "x86_64") and (here.system, here.machine) == (
        "linux",
        "x86_64",
    ):
        needs = (("wine", "wine64"),)
        runs.append(Run("under Wine", ("wine",), needs=needs))
        # Wine shows programs this machine's processor: older ones' kernels are asked for.
        runs += [
            Run(f"under Wine, SPLAT_ISA={level}", ("wine",), level=level, needs=needs)
            for level in ("v3", "v2")
        ]
    return runs


def _under_qemu(target: Target, here: Target) -> Iterator[Run]:
    program = f"qemu-{target.machine}"
    folder = f"/usr/{target.machine}-linux-gnu"
    debian = {"x86_64": "amd64", "aarch64": "arm64"}[target.machine]
    needs = [(program, "qemu-user")]
    system: tuple[str, ...] = ()
    if target.machine != here.machine:
        needs.append((folder, f"libc6-{debian}-cross"))
        system = ("-L", folder)
    if target.machine == "x86_64":
        for cpu, isa in (("Nehalem", "isa_v2"), ("Haswell", "isa_v3")):
            command = (program, "-cpu", cpu, *system)
            yield Run(f"under {program} -cpu {cpu}", command, isa, needs=tuple(needs))
    elif target != here:
        yield Run(f"under {program}", (program, *system), "isa_base", needs=tuple(needs))


def find_program(name: str) -> str | None:
    """Path of an emulator: qemu's may end in -static; Debian's wine64 is not on the PATH."""
    names = ["wine64", "wine", "/usr/lib/wine/wine64"] if name == "wine" else [name, f"{name}-static"]
    return next((path for path in map(shutil.which, names) if path), None)


def check_needs(run: Run) -> None:
    """Refuse a run that this machine lacks something for.

    Raises:
        MissingEmulatorError: with the command that installs it on Debian.
    """
    missing = [
        package
        for name, package in run.needs
        if not (Path(name).exists() if name.startswith("/") else find_program(name))
    ]
    if missing:
        raise MissingEmulatorError(f"on Debian, apt-get install --no-install-recommends {' '.join(missing)}")


def build_driver(target: Target) -> Path:
    """Compile tools/smoke_library.cpp for a platform with zig, unless build/smoke has it.

    Raises:
        WheelError: the compiler's words.
    """
    folder = ROOT / "build" / "smoke" / target.name
    path = folder / ("smoke_library.exe" if target.system == "win32" else "smoke_library")
    newest = max(source.stat().st_mtime for source in (*DRIVER_SOURCES, Path(__file__)))
    if path.is_file() and path.stat().st_mtime > newest:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    # -s and -fPIC as for the library: zig then finds the C++ library that it has compiled for it.
    command = [str(ENGINE if ENGINE.is_file() else sys.executable), "-m", "ziglang", "c++"]
    command += ["-target", target.zig, "-std=c++17", "-O3", "-s", "-Wall", "-Wextra", "-pthread"]
    command += ["-fno-sanitize=undefined", *([] if target.system == "win32" else ["-fPIC", "-ldl"])]
    done = subprocess.run([*command, str(DRIVER), "-o", str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        raise WheelError(
            f"{DRIVER.name} could not be compiled for {target.name}:\n{done.stdout}{done.stderr}"
        )
    return path


@dataclass(frozen=True)
class Sum:
    """A line of the driver: the sum with random weights, the sum of magnitudes, how many numbers."""

    weighted: float
    magnitude: float
    count: int


def parse_output(text: str) -> tuple[str, dict[str, Sum]]:
    """Read what the driver prints.

    Returns:
        The instruction set, and name to sums.

    Raises:
        WheelError: it is something else.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines or lines[0][0] != "isa" or any(len(line) != 4 for line in lines[1:]):
        raise WheelError(f"the driver printed something unexpected:\n{text[:500]}")
    sums = {name: Sum(float(first), float(second), int(count)) for name, first, second, count in lines[1:]}
    return lines[0][1], sums


def compare(found: dict[str, Sum], reference: dict[str, Sum]) -> dict[str, float]:
    """Compare the sums of two runs.

    Returns:
        The largest difference over the sum of magnitudes, for each type.

    Raises:
        WheelError: other names or counts, sums that are empty or not finite, or a difference above the tolerance.
    """
    if found.keys() != reference.keys() or not found:
        odd = sorted(found.keys() ^ reference.keys())
        raise WheelError(f"the results are not the same ones: {', '.join(odd[:4]) or 'none at all'}")
    worst = dict.fromkeys(TOLERANCES, 0.0)
    for name, expected in reference.items():
        scalar, got = name.split(":")[2], found[name]
        if (
            got.count != expected.count
            or not 0 < got.magnitude < math.inf
            or not 0 < expected.magnitude < math.inf
        ):
            raise WheelError(f"{name}: expected {expected}, got {got}")
        difference = max(abs(got.weighted - expected.weighted), abs(got.magnitude - expected.magnitude))
        error = difference / expected.magnitude
        if not error <= TOLERANCES[scalar]:
            raise WheelError(f"{name}: expected {expected}, got {got}, a difference of {error:.1e}")
        worst[scalar] = max(worst[scalar], error)
    return worst


def threads_of(sums: dict[str, Sum], threads: int) -> dict[str, Sum]:
    """The sums with a number of threads, under names without it."""
    return {name.rpartition(":")[0]: value for name, value in sums.items() if name.endswith(f":{threads}")}


@contextmanager
def wine_environment(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of Wine with all its files in a folder (never in the checkout: it links to the root of the disk)."""
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "WINEPREFIX": str(folder / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree=;mshtml=",  # neither of them is here, and Wine would offer to fetch them
    }
    try:
        yield environment
    finally:
        servers = ["wineserver", "/usr/lib/wine/wineserver64", "/usr/lib/wine/wineserver"]
        server = next((path for path in map(shutil.which, servers) if path), None)
        if server:
            subprocess.run([server, "-k"], env=environment, capture_output=True)


def run_driver(run: Run, driver: Path, library: Path, folder: Path) -> tuple[str, dict[str, Sum]]:
    """Run the driver on a library; see parse_output.

    Args:
        run: how.
        driver: the compiled driver.
        library: the library.
        folder: a temporary folder.

    Raises:
        WheelError: it failed; its words are in the text.
    """
    emulator = list(run.emulator)
    if emulator:
        emulator[0] = find_program(emulator[0]) or emulator[0]
    command = [*emulator, str(driver), str(library)]
    try:
        if run.emulator[:1] == ("wine",):
            with wine_environment(folder) as environment:
                done = _run(command, environment, run.level)
        else:
            done = _run(command, dict(os.environ), run.level)
    except subprocess.TimeoutExpired as error:
        raise WheelError(f"no end after {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        raise WheelError(f"exit code {done.returncode}: {done.stderr.strip()[-1000:]}")
    isa, sums = parse_output(done.stdout)
    if run.isa and isa != run.isa:
        raise WheelError(f"it chose {isa}, expected {run.isa}")
    return isa, sums


def _run(command: list[str], environment: dict[str, str], level: str) -> subprocess.CompletedProcess[str]:
    # what the caller's environment asks for is not what is under test
    environment = {**environment, "SPLAT_ISA": level}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS
    )
