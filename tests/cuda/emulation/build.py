"""Compiles csrc/cuda/*.cu for the CPU, unchanged: one library a source, and one with the scheduler that they share.

Everything lies under build/cuda_emulation, named by a hash of what it was made from: nothing is compiled twice, and two
processes may build at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PYTHONPATH = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "engine")))
"""For processes that tests start: what pyproject.toml gives pytest."""
FOLDER = ROOT / "build" / "cuda_emulation"
SANITIZER_VARIABLE = "SPLAT_EMULATION_SANITIZER"
"""Environment variable: "address" or "thread" where this process runs under that sanitizer (tools/test_sanitizers)."""

COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-Wall", "-Wextra", "-g1")
KERNEL = (
    "-O2",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-Wno-unknown-pragmas",
    "-Wno-attributes",
)
SCHEDULER = ("-O2", "-pthread")
SHARED = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,now")


@dataclass(frozen=True)
class Variant:
    """A way of compiling.

    Attributes:
        name: "plain", "address" or "thread".
        kernel: flags for kernels alone.
        both: flags for kernels and scheduler.
    """

    name: str
    kernel: tuple[str, ...] = ()
    both: tuple[str, ...] = ()


VARIANTS = {
    "plain": Variant("plain"),
    # What overflows an array on a thread's stack or an address is found by the first, an index beyond a shared array by
    # the second.
    "address": Variant(
        "address",
        (
            "-fsanitize=address,undefined,float-cast-overflow",
            "-fno-sanitize-recover=all",
            "-fno-sanitize-address-use-after-scope",
            "-fno-omit-frame-pointer",
            "-static-libubsan",
        ),
        ("-DEMULATION_ADDRESS",),
    ),
    "thread": Variant("thread", ("-fsanitize=thread", "-fno-omit-frame-pointer"), ("-DEMULATION_THREAD",)),
}


class BuildError(Exception):
    """A source does not compile; the text is the compiler's."""


def variant_of_process() -> Variant:
    """The variant that this process can load: a sanitizer's only where the process was started under it."""
    return VARIANTS[os.environ.get(SANITIZER_VARIABLE) or "plain"]


def sources(tree: Path = ROOT) -> dict[str, Path]:
    """Name to file of the kernels' sources in a copy of the repository."""
    return {path.stem: path for path in sorted((tree / "csrc" / "cuda").glob("*.cu"))}


def closure(source: Path) -> list[Path]:
    """A source and all files that it includes, each once."""
    found: list[Path] = []
    waiting = [source.resolve()]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.append(path)
        for name in re.findall(
            r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            waiting.append((path.parent / name).resolve())
    return found


def build_kernels(source: Path, variant: Variant | None = None) -> Path:
    """Compiles one .cu file; returns the library, which finds the scheduler's functions in the process it is loaded into.

    Raises:
        BuildError: it does not compile.
    """
    variant = variant or variant_of_process()
    header = HERE / "cuda_on_cpu.h"
    flags = [*COMMON, *KERNEL, *variant.both, *variant.kernel, *SHARED]
    command = ["-include", str(header), "-x", "c++", str(source)]
    return _built(source.stem, variant, [*closure(source), *closure(header)], [*flags, *command])


def kernels_in(library: Path) -> set[str]:
    """The names of a library's kernels, without their number types."""
    listed = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" T emulated_(\w+)_f(?:32|64)$", listed, re.MULTILINE))


@cache
def build_scheduler(variant: Variant) -> Path:
    """Compiles the scheduler; returns the library."""
    files = [HERE / f"{name}.cpp" for name in ("launch", "scheduler", "warp_rules")]
    flags = [*COMMON, *SCHEDULER, *variant.both, *SHARED]
    inputs = [path for file in files for path in closure(file)]
    return _built("scheduler", variant, inputs, [*flags, *map(str, files)])


def build_report_hook() -> Path:
    """Compiles report_hook.cpp; returns the library."""
    source = HERE / "report_hook.cpp"
    return _built("report_hook", VARIANTS["plain"], [source], [*COMMON, *SHARED, str(source)])


def _built(name: str, variant: Variant, inputs: list[Path], arguments: list[str]) -> Path:
    """Runs g++ unless its result for the same inputs and arguments is there."""
    digest = hashlib.sha256("\0".join(arguments).encode())
    for path in sorted(set(inputs)):
        digest.update(path.read_bytes())
    library = FOLDER / variant.name / f"{name}-{digest.hexdigest()[:20]}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as aside:
        made = Path(aside) / "made.so"
        command = ["g++", *arguments, "-o", str(made)]
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{' '.join(command)}\n{done.stderr}")
        os.replace(made, library)
    return library
