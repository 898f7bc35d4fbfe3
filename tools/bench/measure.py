"""The benchmark's worker: times inputs in one process, of one instruction set and thread count, and prints JSON lines.

``python -m tools.bench.measure '{"task": "inputs", ...}'``: see ``TASKS``. SPLAT_ISA chooses the instruction set.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from splat_engine import native
from splat_engine.native.measure import RasterCounts, peak_flops, raster_counts
from tools.bench.inputs import CASES, BenchInput, make_input
from tools.bench.stages import BLEND, RASTER_BACKWARD, NativeClock, time_stages
from tools.bench.training import Workload, make_workload, set_up_process

ROUNDS_LEAST = 3

# Additions and multiplications of one evaluated pixel-splat pair with three channels, counted in the sources; a fused
# multiply-add is two, and so is what the peak is measured with. Not counted, though they take the same units: minima,
# comparisons, selections, integer work, the estimate of a reciprocal, and all that is once a pair and not a pixel.
#   both: Footprint::offsets     dx, dy 2; u 3; v 1                                                   6
#         drawn_alpha            log2_opacity - u u - v v                                             4
#         Simd::exp2             x + M, - M, x - : 3; five multiply-adds 10                          13
#         blend                  alpha T, T -                                                         2
#   forward: blend_block         three sums += weight feature                                         6
#   backward: replay_block       own 5 (the first is no sum); three sums += weight v_image 6         11
#                                behind - weight own                                                  2
#                                g u, g v 2; sums of g, gu, gv 3; of guu, guv, gvv 6                 11
#         log_alpha_gradient     reciprocal's Newton step 4; own - behind r 2; weight * 1             7
# The compiled inner loops for AVX-512 have 23 + 8 and 23 + 39: the backward makes the offsets twice, 6 that are no progress
# and so are left out here.
FLOPS_SHARED = 6 + 4 + 13 + 2
FLOPS_FORWARD = FLOPS_SHARED + 6
FLOPS_BACKWARD = FLOPS_SHARED + 11 + 2 + 11 + 7

REFERENCE_CASE = (300, 128)
"""Splats and px of the comparison with plain torch, which has no tiles and blends each splat over the whole image."""


def repeat(work: Callable[[], Any], seconds: float) -> list[Any]:
    """Runs ``work`` for about ``seconds``, after one round that does not count; returns what each round returned."""
    work()
    results: list[Any] = []
    start = time.perf_counter()
    while len(results) < ROUNDS_LEAST or time.perf_counter() - start < seconds:
        results.append(work())
    return results


def least_times(work: Workload, seconds: float) -> dict[str, float]:
    """Returns forward_ms, backward_ms and step_ms: each the least of its rounds."""

    def gradients() -> tuple[float, float]:
        start = time.perf_counter()
        drawn = work.forward()
        middle = time.perf_counter()
        work.backward(drawn)
        return middle - start, time.perf_counter() - middle

    def step() -> float:
        start = time.perf_counter()
        work.step()
        return time.perf_counter() - start

    halves, steps = repeat(gradients, seconds), repeat(step, seconds)
    return {
        "forward_ms": 1e3 * min(forward for forward, _ in halves),
        "backward_ms": 1e3 * min(backward for _, backward in halves),
        "step_ms": 1e3 * min(steps),
    }


def counts_of(work: Workload) -> RasterCounts:
    """Returns what one forward does."""
    with NativeClock() as clock:
        drawn = work.forward()
    counts = raster_counts(*clock.contexts[0])
    del drawn  # it kept the context
    return counts


def rate_figures(
    counts: RasterCounts, stages_ms: dict[str, float], threads: int, peak: float
) -> dict[str, float]:
    """Returns times a pair and shares of the peak, of blending and of the rasterizer's backward.

    Args:
        counts: Of the forward; the backward visits the same pairs.
        stages_ms: Of a step; blending is without binning, the backward whole.
        threads: In use; times a pair are those of one core.
        peak: Additions and multiplications a second, of all threads.
    """
    figures: dict[str, float] = {
        "pairs": counts.pairs,
        "visited_pairs": counts.visited_pairs,
        "evaluated_pixel_pairs": counts.evaluated,
        "blended_pixel_pairs": counts.blended,
        "lanes": counts.lanes,
        "peak_gflops": peak * 1e-9,
    }
    for name, stage, flops in (
        ("forward", BLEND, FLOPS_FORWARD),
        ("backward", RASTER_BACKWARD, FLOPS_BACKWARD),
    ):
        seconds = 1e-3 * stages_ms[stage]
        figures[f"{name}_ns_per_pair"] = 1e9 * seconds * threads / counts.evaluated
        figures[f"{name}_flops_per_pair"] = flops
        figures[f"{name}_share_of_peak"] = counts.evaluated * flops / (seconds * peak)
    return figures


def measure_case(
    case: str, given: BenchInput, formation: str, threads: int, seconds: float
) -> dict[str, Any]:
    """Times one input; returns its record. ``seconds`` is for each of three groups of rounds."""
    work = make_workload(given, formation)
    peak, peak_of_one = peak_flops(), peak_of_one_thread(threads)
    times = least_times(work, seconds)
    rounds: list[dict[str, float]] = repeat(lambda: time_stages(work.step_in_parts), seconds / 2)
    peak, peak_of_one = max(peak, peak_flops()), max(peak_of_one, peak_of_one_thread(threads))
    stages = {name: min(stages[name] for stages in rounds) for name in rounds[0]}
    return {
        **identity(case, given, formation, threads),
        **times,
        "forward_backward_ms": times["forward_ms"] + times["backward_ms"],
        "stages_ms": stages,
        "cores": peak / peak_of_one,
        **rate_figures(counts_of(work), stages, threads, peak),
    }


def peak_of_one_thread(threads: int) -> float:
    """Returns the peak with one thread; afterwards there are ``threads`` again."""
    native.set_num_threads(1)
    try:
        return peak_flops()
    finally:
        native.set_num_threads(threads)


def identity(case: str, given: BenchInput, formation: str, threads: int) -> dict[str, Any]:
    """Returns what tells one record from another, and how busy the machine was (the last minute's runnable processes)."""
    return {
        "kind": "input",
        "case": case,
        "splats": len(given.splats.means),
        "size_px": given.camera.width,
        "formation": formation,
        "isa": native.isa(),
        "threads": threads,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def reference_figures(
    formation: str, case: tuple[int, int] = REFERENCE_CASE, *, seconds: float = 0.2
) -> dict[str, Any]:
    """Times forward + backward of a small input by plain torch and by the engine, in this process."""
    given = make_input(*case)
    engine = least_times(make_workload(given, formation), seconds)
    plain = make_workload(given, formation, backend="reference")

    def torch_round() -> float:
        start = time.perf_counter()
        plain.backward(plain.forward())
        return time.perf_counter() - start

    torch_ms = 1e3 * min(torch_round() for _ in range(2))
    engine_ms = engine["forward_ms"] + engine["backward_ms"]
    return {
        "reference_splats": case[0],
        "reference_size_px": case[1],
        "reference_tile": "none",
        "reference_torch_ms": torch_ms,
        "reference_engine_ms": engine_ms,
        "reference_ratio": torch_ms / engine_ms,
    }


def run_inputs(
    cases: list[str], formations: list[str], threads: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Yields the record of each standard input and formation."""
    references = {formation: reference_figures(formation) for formation in formations}
    for case in cases:
        given = make_input(*CASES[case])
        for formation in formations:
            yield measure_case(case, given, formation, threads, seconds) | references[formation]


def run_growth(
    points: list[tuple[str, int, int]], formation: str, threads: int, seconds: float
) -> Iterator[dict[str, Any]]:
    """Yields the times of inputs of any size; a point is (series, splats, px)."""
    for series, count, size_px in points:
        given = make_input(count, size_px)
        times = least_times(make_workload(given, formation), seconds)
        yield identity(f"{count}_{size_px}", given, formation, threads) | {
            "kind": "growth",
            "series": series,
            **times,
        }


TASKS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {"inputs": run_inputs, "growth": run_growth}


def main() -> int:
    """Runs the task that the one argument describes; returns the exit code."""
    asked = json.loads(sys.argv[1])
    set_up_process(asked["threads"])
    for record in TASKS[asked.pop("task")](**asked):
        print(json.dumps(record), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
