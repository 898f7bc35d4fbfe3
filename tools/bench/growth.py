"""How cost grows with the number of splats and with the image: the points that are measured, and their picture."""

from __future__ import annotations

import math
from typing import Any

from PIL import Image

from tools.bench.chart import Line, Panel, draw_chart

SPLATS_SERIES, SIZE_SERIES = "splats", "size"
SPLATS_AT_PX = 512
SIZES_AT_SPLATS = 100_000
COUNTS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SIZES_PX = (128, 256, 512, 1024, 1600)
STAGES = {"step_ms": "training step", "backward_ms": "backward", "forward_ms": "forward"}
COLORS = {"step_ms": (35, 92, 158), "backward_ms": (200, 92, 32), "forward_ms": (32, 138, 104)}


def points() -> list[tuple[str, int, int]]:
    """Returns (series, splats, px) of every point; the two series share one."""
    splats = [(SPLATS_SERIES, count, SPLATS_AT_PX) for count in COUNTS]
    return splats + [(SIZE_SERIES, SIZES_AT_SPLATS, size) for size in SIZES_PX]


def exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    """Returns the slope between two points in log-log: y grows as x to this power."""
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def chart(records: list[dict[str, Any]]) -> Image.Image:
    """Draws the records of ``measure.run_growth``, of one instruction set and formation."""
    values = [record[stage] for record in records for stage in STAGES]
    limits = (10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values))))
    panels = [
        _panel(
            records,
            SPLATS_SERIES,
            "splats",
            limits,
            1,
            f"Splats, image {SPLATS_AT_PX} x {SPLATS_AT_PX}",
            "splats",
            [],
        ),
        _panel(
            records,
            SIZE_SERIES,
            "size_px",
            limits,
            2,
            f"Image, {SIZES_AT_SPLATS:,} splats".replace(",", " "),
            "image side, px",
            [float(size) for size in SIZES_PX],
        ),
    ]
    one = records[0]
    title = f"Time against size: {one['formation']} formation, {one['isa'].removeprefix('isa_')}, float32, SH degree 3"
    return draw_chart(title, panels)


def _panel(
    records: list[dict[str, Any]],
    series: str,
    key: str,
    limits: tuple[float, float],
    slope: int,
    title: str,
    x_label: str,
    x_ticks: list[float],
) -> Panel:
    mine = sorted((r for r in records if r["series"] == series), key=lambda record: record[key])
    threads = sorted({record["threads"] for record in mine})
    lines = []
    for stage, name in STAGES.items():
        for count in threads:
            found = [(float(r[key]), float(r[stage])) for r in mine if r["threads"] == count]
            label = f"{name}, {count} thread{'s' if count > 1 else ''}"
            lines.append(Line(label, found, COLORS[stage], dashed=count == threads[0] and len(threads) > 1))
    ends = (float(mine[0][key]), float(mine[-1][key]))
    fastest = next(
        line
        for line in lines
        if line.label == f"forward, {threads[-1]} thread{'s' if threads[-1] > 1 else ''}"
    )
    lines.append(_reference(fastest, ends, limits, slope))
    padding = (ends[1] / ends[0]) ** 0.03
    notes = [f"Growth over the last half of the axis, {threads[-1]} thread{'s' if threads[-1] > 1 else ''}:"]
    for stage, name in STAGES.items():
        found = [(float(r[key]), float(r[stage])) for r in mine if r["threads"] == threads[-1]]
        symbol = "N" if slope == 1 else "side"
        notes.append(f"{name} ~ {symbol}^{exponent(found[len(found) // 2], found[-1]):.2f}")
    return Panel(
        title,
        x_label,
        "ms, least of the rounds",
        (ends[0] / padding, ends[1] * padding),
        limits,
        lines,
        x_ticks,
        notes,
    )


def _reference(below: Line, ends: tuple[float, float], limits: tuple[float, float], slope: int) -> Line:
    """A line of the given slope that ends a little below the last point of another, cut at the bottom."""
    last = below.points[-1][1] / 2
    first_x = max(ends[0], ends[1] * (limits[0] / last) ** (1 / slope))
    first_y = last * (first_x / ends[1]) ** slope
    word = "proportional to splats" if slope == 1 else "proportional to pixels"
    return Line(word, [(first_x, first_y), (ends[1], last)], reference=True)
