"""What each CUDA kernel needs on each architecture, held to the bounds of csrc/cuda/resources.json.

    python -m tools.cuda_resources [--architectures sm_86 ...] [--archive kernels.zip] [--json FILE]

Compiles every kernel with NVRTC, without a cache, and prints registers, stack, spills and static shared memory; or reads them
from an archive that was compiled before (which does not tell spills apart from the stack). Exit code 1: a bound is broken.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = ROOT / "csrc" / "cuda" / "resources.json"
REGISTERS_OF_BLOCK = 65536
"""What a block may have at most, on every architecture from sm_75 to sm_120 (CUDA C++ Programming Guide, table 32)."""
SHARED_BYTES_MAX = 48 << 10
"""Static shared memory of a block, on all of them."""
PARAMETER_BYTES_MAX = 4096
"""Arguments of a kernel, on all of them, with every compiler."""
REGISTER_UNIT = 8
"""Registers are given to a thread in groups of 8."""
_LOG = re.compile(
    r"Function properties for (\w+)\n.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*?Used (\d+) registers(?:.*?(\d+) bytes smem)?"
)

_CHANNELS = re.compile(r"_c\d+(?=_f\d\d$)")


@dataclass(frozen=True)
class Record:
    """One kernel on one architecture; the fields are those of ``cubin.KernelFacts``.

    Attributes:
        spill_bytes: what ptxas says it stores and loads for lack of registers; None from an archive.
    """

    architecture: str
    module: str
    name: str
    registers: int
    stack_bytes: int
    spill_bytes: int | None
    shared_bytes: int
    threads_max: int
    parameter_bytes: int
    code_bytes: int


@dataclass(frozen=True)
class PtxasWords:
    """What ptxas says of one kernel while it compiles."""

    stack_bytes: int
    spill_bytes: int
    registers: int
    shared_bytes: int


def ptxas_words(log: str) -> dict[str, PtxasWords]:
    """Kernel to what the compiler's log says of it."""
    return {
        name: PtxasWords(int(stack), int(stores) + int(loads), int(registers), int(shared or 0))
        for name, stack, stores, loads, registers, shared in _LOG.findall(log)
    }


def records_of(architecture: str, module: str, facts: Iterable[Any], log: str = "") -> list[Record]:
    """The records of a module's kernels, from its ``cubin.kernel_facts`` and, where there is one, the compiler's log."""
    words = ptxas_words(log)
    return [
        Record(
            architecture=architecture,
            module=module,
            spill_bytes=words[fact.name].spill_bytes if log else None,
            **asdict(fact),
        )
        for fact in facts
    ]


def compiled_records(architectures: Sequence[str]) -> list[Record]:
    """Compiles every module for some architectures.

    Raises:
        UserError: a module does not compile.
    """
    from splat_engine.ops._cuda.compile import compile_module
    from splat_engine.ops._cuda.cubin import kernel_facts
    from splat_engine.ops._cuda.source import module_names

    records = []
    for architecture in architectures:
        for module in module_names():
            log = io.StringIO()
            cubin = compile_module(module, architecture, log=log)
            records += records_of(architecture, module, kernel_facts(cubin), log.getvalue())
    return records


def archive_records(path: Path) -> list[Record]:
    """Reads the kernels of an archive."""
    from splat_engine.ops._cuda.cubin import kernel_facts
    from splat_engine.ops._cuda.prebuilt import open_archive

    archive = open_archive(path)
    return [
        record
        for architecture in archive.architectures
        for module, cubin in archive.modules(architecture).items()
        for record in records_of(architecture, module, kernel_facts(cubin))
    ]


def faults(records: Iterable[Record], bounds: dict[str, Any] | None = None) -> list[str]:
    """What breaks a bound, in words; empty if all is well.

    Args:
        records: kernels.
        bounds: contents of resources.json; default those of this checkout.
    """
    bounds = bounds or json.loads(BOUNDS.read_text(encoding="utf-8"))
    return [
        f"{record.name} on {record.architecture}: {fault}"
        for record in records
        for fault in _faults(record, bounds)
    ]


def _faults(record: Record, bounds: dict[str, Any]) -> list[str]:
    of_all_channels = _CHANNELS.sub("", record.name)
    own = {
        **bounds[record.name[-3:]],
        **bounds["kernels"].get(of_all_channels, {}),
        **bounds["kernels"].get(record.name, {}),
    }
    threads = record.threads_max or 1024
    granted = -(-record.registers // REGISTER_UNIT) * REGISTER_UNIT
    limits: list[tuple[str, int | None, int]] = [
        *((name, getattr(record, name), limit) for name, limit in own.items()),
        ("registers of a block", granted * threads, REGISTERS_OF_BLOCK),
        ("shared_bytes", record.shared_bytes, SHARED_BYTES_MAX),
        ("parameter_bytes", record.parameter_bytes, PARAMETER_BYTES_MAX),
    ]
    found = [
        f"{name} {value}, at most {limit} are allowed"
        for name, value, limit in limits
        if value is not None and value > limit
    ]
    return found if record.threads_max else [*found, "it has no __launch_bounds__"]


def table(records: Sequence[Record]) -> str:
    """Kernels by architectures: registers, "s" and bytes of the stack, "!" and bytes of spills; then what all share."""
    architectures = list(dict.fromkeys(record.architecture for record in records))
    cells: dict[str, dict[str, Record]] = {}
    for record in records:
        cells.setdefault(record.name, {})[record.architecture] = record
    width = max((len(name) for name in cells), default=0)
    lines = [
        f"{'kernel':{width}}  {'threads':>7} {'shared':>6} {'args':>5}  "
        + "".join(f"{a:>12}" for a in architectures)
    ]
    for name, of in sorted(cells.items()):
        some = next(iter(of.values()))
        row = f"{name:{width}}  {some.threads_max:7} {some.shared_bytes:6} {some.parameter_bytes:5}  "
        lines.append(row + "".join(f"{_cell(of.get(a)):>12}" for a in architectures))
    return "\n".join(lines)


def _cell(record: Record | None) -> str:
    if record is None:
        return "-"
    stack = f" s{record.stack_bytes}" if record.stack_bytes else ""
    return f"{record.registers}{stack}" + (f" !{record.spill_bytes}" if record.spill_bytes else "")


def main() -> int:
    """Runs the command line; returns the exit code."""
    from splat_engine.formats.errors import UserError
    from splat_engine.ops._cuda.compile import compiler_version
    from splat_engine.ops._cuda.prebuilt import ARCHITECTURES

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--architectures", nargs="+", default=list(ARCHITECTURES), metavar="SM")
    parser.add_argument("--archive", type=Path, help="read this kernels.zip; do not compile")
    parser.add_argument("--json", type=Path, help="also write the records to this file")
    options = parser.parse_args()
    start = time.monotonic()
    try:
        records = (
            archive_records(options.archive) if options.archive else compiled_records(options.architectures)
        )
        by = "read" if options.archive else "NVRTC {}.{}".format(*compiler_version())
    except UserError as error:
        sys.stderr.write(f"error: {error}\n{error.cause or ''}\n")
        return 1
    print(table(records))
    print(f"{len(records)} kernels, {time.monotonic() - start:.1f} s ({by})")
    if options.json:
        options.json.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")
    broken = faults(records)
    for fault in broken:
        sys.stderr.write(f"error: {fault}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
