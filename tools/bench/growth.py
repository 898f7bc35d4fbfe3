"""How cost grows with the number of splats and with the image: the points that are measured, and their picture."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from PIL import Image

from tools.bench.chart import Line, Panel, draw_chart, tick_text

SPLATS_SERIES, SIZE_SERIES = "splats", "size"
SPLATS_AT_PX = 512
SIZES_AT_SPLATS = 100_000
COUNTS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SIZES_PX = (128, 256, 512, 1024, 1600)
STAGES = {"step_ms": "training step", "backward_ms": "backward", "forward_ms": "forward"}
COLORS = {"step_ms": (35, 92, 158), "backward_ms": (200, 92, 32), "forward_ms": (32, 138, 104)}
ROOM_BELOW, ROOM_ABOVE = 2.5, 8.0
"""Factors from the least and greatest time to the ends of the y axis: for the reference line, and for the notes."""
REFERENCE_BELOW = 1.6


def points() -> list[tuple[str, int, int]]:
    """Returns (series, splats, px) of every point; the two series share one."""
    splats = [(SPLATS_SERIES, count, SPLATS_AT_PX) for count in COUNTS]
    return splats + [(SIZE_SERIES, SIZES_AT_SPLATS, size) for size in SIZES_PX]


def exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    """Returns the slope between two points in log-log: y grows as x to this power."""
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


class Axis(NamedTuple):
    """What a panel's x axis is.

    Attributes:
        series: The records that it shows.
        key: Their value along the axis.
        title, label: Words above and below.
        symbol: Of the value, in "cost ~ symbol^1.00".
        slope: Exponent of a cost that is proportional to ``proportional_to``.
        proportional_to: In words.
        ticks: Values with a label; the powers of ten when empty.
    """

    series: str
    key: str
    title: str
    label: str
    symbol: str
    slope: int
    proportional_to: str
    ticks: tuple[int, ...] = ()


AXES = (
    Axis(SPLATS_SERIES, "splats", f"Image {SPLATS_AT_PX} x {SPLATS_AT_PX} px", "splats N", "N", 1, "splats"),
    Axis(
        SIZE_SERIES,
        "size_px",
        f"{tick_text(SIZES_AT_SPLATS)} splats",
        "image side, px",
        "side",
        2,
        "pixels",
        SIZES_PX,
    ),
)


def chart(records: list[dict[str, Any]]) -> Image.Image:
    """Draws the records of ``measure.run_growth``, of one instruction set and formation.

    Of several thread counts, the least is drawn dashed and the greatest in full.
    """
    values = [record[stage] for record in records for stage in STAGES]
    limits = (min(values) / ROOM_BELOW, max(values) * ROOM_ABOVE)
    one = records[0]
    isa = one["isa"].removeprefix("isa_")
    title = f"Cost against size: {one['formation']} formation, {isa}, float32, SH degree 3"
    return draw_chart(title, [panel_of(axis, records, limits) for axis in AXES])


def panel_of(axis: Axis, records: list[dict[str, Any]], limits: tuple[float, float]) -> Panel:
    """Returns the panel of an axis; ``limits`` are the ends of the y axis."""
    counts = {record["threads"] for record in records}
    few, many = min(counts), max(counts)
    lines, notes = [], []
    for stage, name in STAGES.items():
        for threads in sorted({few, many}):
            found = sorted(
                (float(record[axis.key]), float(record[stage]))
                for record in records
                if record["series"] == axis.series and record["threads"] == threads
            )
            lines.append(Line(_with_threads(name, threads), found, COLORS[stage], dashed=threads < many))
        middle, last = found[len(found) // 2], found[-1]
        notes.append(f"{name} ~ {axis.symbol}^{exponent(middle, last):.2f}")
    ends = (found[0][0], last[0])
    head = _with_threads(f"From {tick_text(middle[0])} to {tick_text(last[0])}", many)
    padding = (ends[1] / ends[0]) ** 0.03
    return Panel(
        axis.title,
        axis.label,
        "ms, least of the rounds",
        (ends[0] / padding, ends[1] * padding),
        limits,
        [*lines, _reference(axis, lines, ends, limits[0])],
        [float(tick) for tick in axis.ticks],
        notes=[f"{head}:", *notes],
    )


def _with_threads(words: str, threads: int) -> str:
    return f"{words}, {threads} thread{'s' if threads > 1 else ''}"


def _reference(axis: Axis, lines: list[Line], ends: tuple[float, float], bottom: float) -> Line:
    """The line of the axis' slope that lies as near below all points as it can, cut at the bottom."""
    heights = [y * (ends[1] / x) ** axis.slope for line in lines for x, y in line.points]
    last = min(heights) / REFERENCE_BELOW
    first_x = max(ends[0], ends[1] * (bottom / last) ** (1 / axis.slope))
    first_y = last * (first_x / ends[1]) ** axis.slope
    words = f"proportional to {axis.proportional_to}"
    return Line(words, [(first_x, first_y), (ends[1], last)], reference=True)
