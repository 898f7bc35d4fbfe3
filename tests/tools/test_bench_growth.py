"""The picture of growth: its points, its axes, and that what is drawn stands where it belongs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("PIL", reason="the picture is drawn with Pillow")

from tools.bench import growth  # noqa: E402
from tools.bench.chart import Line, Panel, decades, draw_chart, position, subdivisions, tick_text  # noqa: E402

RED = (220, 20, 20)


def test_the_points_cover_the_ranges() -> None:
    """1 k to 1 M splats on 512 px, and 128 to 1600 px with 100 k splats."""
    splats = [(count, size) for series, count, size in growth.points() if series == growth.SPLATS_SERIES]
    sizes = [(count, size) for series, count, size in growth.points() if series == growth.SIZE_SERIES]
    assert splats[0] == (1000, 512) and splats[-1] == (1_000_000, 512) and splats == sorted(splats)
    assert sizes[0] == (100_000, 128) and sizes[-1] == (100_000, 1600) and sizes == sorted(sizes)


def test_exponent() -> None:
    """y = 3 x^1.5 has 1.5."""
    assert growth.exponent((4, 24), (100, 3000)) == pytest.approx(1.5)


def test_axes() -> None:
    """Logarithmic; ticks at powers of ten within the range, and lines between."""
    assert [position(x, (1, 10_000)) for x in (1, 100, 10_000)] == pytest.approx([0, 0.5, 1])
    assert decades((0.9, 1000)) == [1, 10, 100, 1000]
    assert subdivisions((4, 31)) == [5, 6, 7, 8, 9, 20, 30]
    labels = [tick_text(value) for value in (0.1, 1, 128, 1600, 3000, 10_000, 1e6)]
    assert labels == ["0.1", "1", "128", "1600", "3 k", "10 k", "1 M"]


def test_a_marker_stands_at_its_value() -> None:
    """The middle of both logarithmic axes is the middle of the panel; nothing of the colour lies outside the axes."""
    line = Line("series", [(1, 1), (10, 10), (100, 100)], RED)
    panel = Panel("title", "x", "y", (1, 100), (1, 100), [line])
    picture = draw_chart("all", [panel])
    left, top, right, bottom = 70, 44 + 44, 620 - 22, 44 + 520 - 56
    assert picture.size == (620, 44 + 520 + 30)
    for share in (0, 0.5, 1):
        at = (round(left + share * (right - left)), round(bottom - share * (bottom - top)))
        assert picture.getpixel(at) == RED, at
    assert picture.getpixel((left + 30, top + 30)) != RED


def records() -> list[dict[str, Any]]:
    """Times of a program whose cost is proportional to splats and pixels, with two threads twice as fast."""
    made = []
    for threads in (1, 2):
        for series, count, size in growth.points():
            unit = count * size**2 / 2e9 / threads
            made.append(
                {
                    "series": series,
                    "splats": count,
                    "size_px": size,
                    "threads": threads,
                    "formation": "blender",
                }
                | {"isa": "isa_v4", "forward_ms": unit, "backward_ms": 2.5 * unit, "step_ms": 7 * unit}
            )
    return made


def test_every_series_is_drawn() -> None:
    """Both panels hold each stage's colour, and the legend names them for 1 and 2 threads."""
    picture = growth.chart(records())
    width, height = picture.size
    for half in ((0, 0, width // 2, height - 30), (width // 2, 0, width, height - 30)):
        colors = {color for _, color in picture.crop(half).getcolors(1 << 20)}
        assert set(growth.COLORS.values()) <= colors
    legend = {color for _, color in picture.crop((0, height - 30, width, height)).getcolors(1 << 20)}
    assert set(growth.COLORS.values()) <= legend


def test_the_notes_say_the_exponents() -> None:
    """Splats^1 and side^2 for a cost proportional to both."""
    limits = (0.01, 1e4)
    splats, sizes = (growth.panel_of(axis, records(), limits) for axis in growth.AXES)
    assert splats.notes[0] == "From 30 k to 1 M, 2 threads:"
    assert splats.notes[1:] == [f"{name} ~ N^1.00" for name in growth.STAGES.values()]
    assert sizes.notes[1:] == [f"{name} ~ side^2.00" for name in growth.STAGES.values()]


@pytest.mark.parametrize("axis", growth.AXES, ids=[axis.series for axis in growth.AXES])
def test_the_reference_line_has_its_slope(axis: growth.Axis) -> None:
    """Its exponent is that of its axis; it begins within the panel and lies below everything that was measured."""
    panel = growth.panel_of(axis, records(), (0.01, 1e4))
    *measured, reference = panel.lines
    assert reference.reference and not any(line.reference for line in measured)
    assert growth.exponent(*reference.points) == pytest.approx(axis.slope)
    (first_x, first_y), (last_x, last_y) = reference.points
    assert panel.y_range[0] <= first_y * 1.0001 and panel.x_range[0] < first_x < last_x < panel.x_range[1]
    for line in measured:
        assert all(y > last_y * (x / last_x) ** axis.slope for x, y in line.points), line.label
