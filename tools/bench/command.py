"""Times the engine's stages on the standard inputs, for each instruction set and thread count.

    make bench                                     the three inputs, all formations, v4 v3 v2, 1 and 2 threads
    make bench ARGS="--case c50k_512 --isa v4 --json out/bench.json"
    make bench ARGS="--skip-inputs --growth out/growth.png --memory"

forward is everything from raw parameters to the image: activations, projection, SH, sort, binning, blending.
backward is the gradient with respect to every parameter. step is a whole training step: forward, the
comparison with a target (L1 and D-SSIM), backward, and Adam over all parameters. Every figure is the least of several
rounds. One instruction set and thread count is one process, which also measures the peak of arithmetic and plain torch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from splat_engine import native
from tools.bench import growth, memory, report
from tools.bench.inputs import CASES

FORMATIONS = ("classic", "blender", "own-order")
"""The keys of ``tools.bench.training.FORMATIONS``, which imports torch."""

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("v4", "v3", "v2")
GROWTH_FORMATION = "blender"
MEMORY_THREADS = 2


class BenchError(Exception):
    """It cannot be measured; the text says why: the end of a worker's stderr, or what this machine lacks."""


def start_worker(module: str, arguments: list[str], isa: str) -> Iterator[str]:
    """Runs a module of the benchmark in a fresh process; yields its lines as they come.

    Raises:
        BenchError: It failed.
    """
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": str(ROOT), "SPLAT_ISA": isa}
    command = [sys.executable, "-m", f"tools.bench.{module}", *arguments]
    with tempfile.TemporaryFile("w+") as errors:
        worker = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert worker.stdout is not None
        yield from worker.stdout
        if worker.wait() != 0:
            errors.seek(0)
            raise BenchError(f"{module} with {isa} failed:\n{errors.read()[-3000:]}")


def usable_levels(asked: list[str]) -> list[str]:
    """Returns those of the asked instruction sets that this CPU has; says which are left out.

    Raises:
        BenchError: None is left.
    """
    own = native.isa().removeprefix("isa_")
    if own not in LEVELS:
        return [own]
    usable = [level for level in asked if level <= own]
    for level in asked:
        if level not in usable:
            print(f"{level} is left out: this CPU has {own}")
    if not usable:
        raise BenchError(f"This CPU has none of the instruction sets asked for: {', '.join(asked)}.")
    return usable


def run_inputs(
    cases: list[str], formations: list[str], levels: list[str], threads: list[int], seconds: float
) -> list[report.Record]:
    """Measures the standard inputs, printing each line as it comes; returns the records in the order of the inputs."""
    print(report.TIME_HEAD, flush=True)
    records = []
    for isa in levels:
        for count in threads:
            task = {"task": "inputs", "cases": cases, "formations": formations, "threads": count}
            for line in start_worker("measure", [json.dumps({**task, "seconds": seconds})], isa):
                records.append(json.loads(line))
                print(report.time_row(records[-1]), flush=True)
    return sorted(records, key=lambda r: (cases.index(r["case"]), formations.index(r["formation"])))


def run_growth(picture: Path, isa: str, threads: list[int], seconds: float) -> list[report.Record]:
    """Measures how cost grows, and draws it."""
    print(f"\nGrowth, {GROWTH_FORMATION} formation:\n{report.TIME_HEAD}", flush=True)
    records = []
    for count in threads:
        task = {"task": "growth", "points": growth.points(), "formation": GROWTH_FORMATION, "threads": count}
        for line in start_worker("measure", [json.dumps({**task, "seconds": seconds})], isa):
            records.append(json.loads(line))
            print(report.time_row(records[-1]), flush=True)
    picture.parent.mkdir(parents=True, exist_ok=True)
    growth.chart(records).save(picture)
    print(f"look at {picture}")
    return records


def run_memory(isa: str) -> report.Record:
    """Measures the memory of a step on the largest input."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "input.npz")
        count, size_px = memory.MEMORY_CASE
        for _ in start_worker("memory", ["make", path, str(count), str(size_px)], isa):
            pass
        lines = list(start_worker("memory", ["run", path, GROWTH_FORMATION, str(MEMORY_THREADS)], isa))
    record: report.Record = json.loads(lines[-1])
    print("", *report.memory_lines(record), sep="\n", flush=True)
    return record


def machine() -> str:
    """Returns this machine's processor in words, and how busy it is: figures of a busy machine say little."""
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.is_file()
        else []
    )
    name = names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{name}, {os.cpu_count()} cores{load}"


def parse(words: list[str] | None) -> Any:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/bench/kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), help="standard inputs")
    parser.add_argument("--formation", nargs="+", choices=FORMATIONS, default=list(FORMATIONS))
    parser.add_argument("--isa", nargs="+", choices=LEVELS, default=list(LEVELS), help="instruction sets")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0, help="of rounds, for each figure")
    parser.add_argument("--skip-inputs", action="store_true", help="not the standard inputs")
    parser.add_argument(
        "--growth",
        type=Path,
        metavar="PICTURE.png",
        help="also draw how cost grows: 1 k to 1 M splats, 128 to 1600 px",
    )
    parser.add_argument(
        "--memory", action="store_true", help="also the peak memory of a step at 1 M splats, 1600 x 1600 px"
    )
    parser.add_argument("--json", type=Path, help="also write all records to this file")
    return parser.parse_args(words)


def run(options: Any) -> list[report.Record]:
    """Measures what was asked for and prints it; returns all records."""
    levels = usable_levels(options.isa)
    records: list[report.Record] = []
    print(machine())
    if not options.skip_inputs:
        records = run_inputs(options.case, options.formation, levels, options.threads, options.seconds)
        for table in (report.rate_table, report.stage_table, report.target_table):
            print("", *table(records), sep="\n")
    if options.growth:
        records += run_growth(options.growth, levels[0], options.threads, options.seconds / 2)
    if options.memory:
        records.append(run_memory(levels[0]))
    return records


def main(words: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    options = parse(words)
    try:
        records = run(options)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    return 0
