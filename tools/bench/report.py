"""The benchmark's records as tables of text, and what they are compared with."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

# Milliseconds with two threads, the formations in the order of the centres: (forward + backward, training step), at most.
TARGETS_MS = {
    "isa_v4": {"c10k_256": (4.0, 4.5), "c50k_512": (20.0, 22.0), "c200k_800": (60.0, 72.0)},
    "isa_v3": {"c10k_256": (6.0, 6.0), "c50k_512": (30.0, 31.0), "c200k_800": (85.0, 100.0)},
}
TARGET_THREADS = 2
# OpenSplat 1.2.0, forward + backward, two AVX-512 cores, best of clean runs: ../shared/bench/README.md.
OPENSPLAT_MS = {"c10k_256": 86.0, "c50k_512": 586.0, "c200k_800": 1712.0}

CORES_LEAST = 0.9
"""Share of the threads that must have had a core each, or the machine was busy with something else."""

KEY_HEAD = f"{'input':10} {'formation':9} {'isa':4} {'threads':>7}"
TIME_HEAD = f"{KEY_HEAD} {'forward':>9} {'backward':>9} {'f + b':>9} {'step':>9}   ms"


def _key(record: Record) -> str:
    isa = record["isa"].removeprefix("isa_")
    return f"{record['case']:10} {record['formation']:9} {isa:4} {record['threads']:7}"


def time_row(record: Record) -> str:
    """Returns the line of an input's or growth point's times."""
    both = record["forward_ms"] + record["backward_ms"]
    return (
        f"{_key(record)} {record['forward_ms']:9.2f} {record['backward_ms']:9.2f} {both:9.2f} "
        f"{record['step_ms']:9.2f}"
    )


def rate_table(records: list[Record]) -> list[str]:
    """Returns lines: time a pair, share of the peak, ratio to plain torch."""
    one = records[0]
    lines = [
        "Rasterizer: time of one core for a pixel-splat pair that is evaluated (forward: blending alone; backward: all "
        "of it); share",
        f"of the peak of an FMA loop in the same run ({one['forward_flops_per_pair']} and "
        f"{one['backward_flops_per_pair']} additions and multiplications a pair); how many times",
        f"faster than plain torch forward + backward are on {one['reference_splats']} splats, "
        f"{one['reference_size_px']} x {one['reference_size_px']} px (it has no tiles: each splat over the whole image).",
        f"{KEY_HEAD} {'evaluated':>10} {'blended':>8} {'ns f':>7} {'ns b':>7} {'peak f':>7} {'peak b':>7} "
        f"{'GFLOP/s':>8} {'cores':>6} {'x torch':>8}",
    ]
    for record in records:
        blended = record["blended_pixel_pairs"] / record["evaluated_pixel_pairs"]
        lines.append(
            f"{_key(record)} {record['evaluated_pixel_pairs'] / 1e6:8.2f} M {blended:8.0%} "
            f"{record['forward_ns_per_pair']:7.3f} {record['backward_ns_per_pair']:7.3f} "
            f"{record['forward_share_of_peak']:7.1%} {record['backward_share_of_peak']:7.1%} "
            f"{record['peak_gflops']:8.1f} {record['cores']:6.2f} {record['reference_ratio']:8.0f}"
        )
    busy = [record for record in records if record["cores"] < CORES_LEAST * record["threads"]]
    if busy:
        lines.append(
            f"BUSY MACHINE: in {len(busy)} of {len(records)} lines the threads did not have a core each (`cores`: the "
            "peak over that of one thread)."
        )
    return lines


def stage_table(records: list[Record]) -> list[str]:
    """Returns lines: the stages of a training step in milliseconds, a column each."""
    stages = list(dict.fromkeys(name for record in records for name in record["stages_ms"]))
    widths = {name: max(8, len(name)) for name in stages}
    heads = " ".join(f"{name:>{widths[name]}}" for name in stages)
    lines = ["Stages of a training step, ms, each the least of its rounds:", f"{KEY_HEAD} {heads}      sum"]
    for record in records:
        cells = " ".join(f"{record['stages_ms'].get(name, 0.0):{widths[name]}.2f}" for name in stages)
        lines.append(f"{_key(record)} {cells} {sum(record['stages_ms'].values()):8.2f}")
    return lines


def target_table(records: list[Record]) -> list[str]:
    """Returns lines for the records that have a target: reached / target, and OpenSplat / reached. None: no lines."""
    lines = []
    for record in records:
        targets = TARGETS_MS.get(record["isa"], {}).get(record["case"])
        if targets is None or record["threads"] != TARGET_THREADS or record["formation"] == "own-order":
            continue
        both = record["forward_ms"] + record["backward_ms"]
        cells = [
            f"{reached:8.2f} / {target:5.1f} = {reached / target:5.2f}"
            for reached, target in zip((both, record["step_ms"]), targets, strict=True)
        ]
        lines.append(
            f"{_key(record)} {cells[0]:>26} {cells[1]:>26} {OPENSPLAT_MS[record['case']] / both:10.1f}"
        )
    if not lines:
        return []
    head = f"{KEY_HEAD} {'f + b, ms / target':>26} {'step, ms / target':>26} {'x OpenSplat':>10}"
    explained = "Reached against the targets (1 or less: reached), and times faster than OpenSplat 1.2.0, forward + backward"
    return [f"{explained}:", head, *lines]


def memory_lines(record: Record) -> list[str]:
    """Returns lines: the peak of a training step's memory."""
    isa, size = record["isa"].removeprefix("isa_"), record["size_px"]
    return [
        f"Memory, resident, of {record['splats']} splats on {size} x {size} px ({record['formation']}, {isa}, "
        f"{record['threads']} threads):",
        f"  one step {record['peak_mb']:.0f} MB, with {record['later_steps']} more {record['later_peak_mb']:.0f} MB, "
        f"above the {record['base_mb']:.0f} MB of Python, torch and the library;",
        f"  of these {record['parameters_moments_mb']:.0f} MB are the parameters and Adam's moments.",
    ]
