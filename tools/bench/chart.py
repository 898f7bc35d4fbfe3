"""Log-log line charts, drawn with Pillow: what the benchmark shows of growth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from PIL import Image, ImageDraw, ImageFont

Color = tuple[int, int, int]

SCALE = 3
"""Drawn this many times larger and reduced: Pillow's lines have no smooth edges of their own."""
INK: Color = (38, 42, 48)
FAINT: Color = (108, 114, 122)
GRID_MAJOR: Color = (214, 218, 223)
GRID_MINOR: Color = (238, 240, 243)
PAPER: Color = (255, 255, 255)
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 70, 22, 44, 56
"""Px around a panel's axes: tick labels and the names of the axes."""
FONT_PX, TITLE_PX = 14, 16
HEADER_PX, LEGEND_PX, LEGEND_GAP = 44, 30, 26
DASH_PX = (8, 5)


@dataclass(frozen=True)
class Line:
    """One series of a panel.

    Attributes:
        label: Its words in the legend; lines of one label share an entry. "" for none.
        points: (x, y), all above 0, in order of x.
        color: Its colour.
        dashed: Dashed, with hollow markers.
        reference: A thin grey line without markers, with its label below it: a slope to compare with.
    """

    label: str
    points: list[tuple[float, float]]
    color: Color = INK
    dashed: bool = False
    reference: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: Above it.
        x_label, y_label: With units.
        x_range, y_range: First and last value, above 0.
        lines: What is drawn.
        x_ticks, y_ticks: Values with a label; the powers of ten when empty.
        notes: Lines of text in the upper left corner.
    """

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    lines: list[Line]
    x_ticks: list[float] = field(default_factory=list)
    y_ticks: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def tick_text(value: float) -> str:
    """Returns a number as a label: 0.1, 10, 1600, 10 k, 1 M."""
    for unit, name in ((1e6, " M"), (1e3, " k")):
        if value >= 10 * unit or (value >= unit and value % unit == 0):
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def position(value: float, ends: tuple[float, float]) -> float:
    """Returns where a value lies between the ends of a logarithmic axis: 0 to 1."""
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def decades(ends: tuple[float, float]) -> list[float]:
    """Returns the powers of ten within a range."""
    first, last = math.ceil(math.log10(ends[0]) - 1e-9), math.floor(math.log10(ends[1]) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


def subdivisions(ends: tuple[float, float]) -> list[float]:
    """Returns 2, 3 ... 9 times the powers of ten within a range."""
    first, last = math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1]))
    values = [digit * 10.0**power for power in range(first, last + 1) for digit in range(2, 10)]
    return [value for value in values if ends[0] < value < ends[1]]


class _Pen:
    """Draws in px of the finished picture."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width * SCALE, height * SCALE), PAPER)
        self._draw = ImageDraw.Draw(self.image)
        self._fonts = {size: ImageFont.load_default(size * SCALE) for size in (FONT_PX, TITLE_PX)}

    def line(self, start: tuple[float, float], end: tuple[float, float], color: Color, width: float) -> None:
        self._draw.line([_scaled(start), _scaled(end)], fill=color, width=max(1, round(width * SCALE)))

    def path(self, points: list[tuple[float, float]], color: Color, width: float, dashed: bool) -> None:
        """Lines through points; the dashes run on over the corners."""
        on, off = DASH_PX
        travelled = 0.0
        for start, end in zip(points, points[1:], strict=False):
            if not dashed:
                self.line(start, end, color, width)
                continue
            length = math.dist(start, end)
            done = 0.0
            while done < length:
                phase = travelled % (on + off)
                drawn = phase < on
                piece = min((on if drawn else on + off) - phase + 1e-6, length - done)
                if drawn:
                    self.line(
                        _between(start, end, done / length),
                        _between(start, end, (done + piece) / length),
                        color,
                        width,
                    )
                done, travelled = done + piece, travelled + piece

    def marker(self, center: tuple[float, float], color: Color, hollow: bool) -> None:
        radius = 4.0
        x, y = center
        box = [*_scaled((x - radius, y - radius)), *_scaled((x + radius, y + radius))]
        self._draw.ellipse(box, fill=PAPER if hollow else color, outline=color, width=round(1.8 * SCALE))

    def text(
        self,
        at: tuple[float, float],
        words: str,
        anchor: str,
        color: Color = INK,
        size: int = FONT_PX,
        paper: bool = False,
    ) -> None:
        """Text by Pillow's two-letter anchor; ``paper`` clears the ground behind it."""
        if paper:
            left, top, right, bottom = self._draw.textbbox(
                _scaled(at), words, font=self._fonts[size], anchor=anchor
            )
            pad = 2 * SCALE
            self._draw.rectangle([left - pad, top - pad, right + pad, bottom + pad], fill=PAPER)
        self._draw.text(_scaled(at), words, fill=color, font=self._fonts[size], anchor=anchor)

    def width_of(self, words: str) -> float:
        return self._draw.textlength(words, font=self._fonts[FONT_PX]) / SCALE

    def upright_text(self, at: tuple[float, float], words: str) -> None:
        """Text that runs upwards, centred."""
        left, top, right, bottom = self._draw.textbbox((0, 0), words, font=self._fonts[FONT_PX])
        pad = 2 * SCALE
        strip = Image.new("RGB", (round(right - left) + 2 * pad, round(bottom - top) + 2 * pad), PAPER)
        ImageDraw.Draw(strip).text((pad - left, pad - top), words, fill=INK, font=self._fonts[FONT_PX])
        turned = strip.rotate(90, expand=True)
        x, y = _scaled(at)
        self.image.paste(turned, (round(x - turned.width / 2), round(y - turned.height / 2)))

    def finished(self) -> Image.Image:
        size = (self.image.width // SCALE, self.image.height // SCALE)
        return self.image.resize(size, Image.Resampling.LANCZOS)


def _scaled(point: tuple[float, float]) -> tuple[float, float]:
    return point[0] * SCALE, point[1] * SCALE


def _between(start: tuple[float, float], end: tuple[float, float], share: float) -> tuple[float, float]:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


class _Axes:
    """A panel at its place in the picture."""

    def __init__(self, pen: _Pen, panel: Panel, left: float, top: float, width: float, height: float) -> None:
        self.pen, self.panel = pen, panel
        self.left, self.top = left + MARGIN_LEFT, top + MARGIN_TOP
        self.right, self.bottom = left + width - MARGIN_RIGHT, top + height - MARGIN_BOTTOM

    def place(self, x: float, y: float) -> tuple[float, float]:
        across, up = position(x, self.panel.x_range), position(y, self.panel.y_range)
        return self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)

    def draw(self) -> None:
        self._grid()
        self._frame()
        for line in sorted(self.panel.lines, key=lambda line: not line.reference):
            self._series(line)
        for row, note in enumerate(self.panel.notes):
            at = (self.left + 12, self.top + 12 + row * (FONT_PX + 5))
            self.pen.text(at, note, "lt", INK if row == 0 else FAINT, paper=True)

    def _grid(self) -> None:
        panel = self.panel
        ticks = panel.x_ticks or decades(panel.x_range)
        minor = [] if panel.x_ticks else subdivisions(panel.x_range)
        for values, color in ((minor, GRID_MINOR), (ticks, GRID_MAJOR)):
            for x in values:
                across = self.place(x, panel.y_range[0])[0]
                self.pen.line((across, self.top), (across, self.bottom), color, 1)
        rungs = panel.y_ticks or decades(panel.y_range)
        between = [] if panel.y_ticks else subdivisions(panel.y_range)
        for values, color in ((between, GRID_MINOR), (rungs, GRID_MAJOR)):
            for y in values:
                up = self.place(panel.x_range[0], y)[1]
                self.pen.line((self.left, up), (self.right, up), color, 1)
        for x in ticks:
            self.pen.text((self.place(x, panel.y_range[0])[0], self.bottom + 8), tick_text(x), "mt")
        for y in rungs:
            self.pen.text((self.left - 8, self.place(panel.x_range[0], y)[1]), tick_text(y), "rm")

    def _series(self, line: Line) -> None:
        places = [self.place(x, y) for x, y in line.points]
        self.pen.path(
            places,
            FAINT if line.reference else line.color,
            1.2 if line.reference else 2.2,
            line.dashed,
        )
        if line.reference:
            x, y = _between(places[0], places[-1], 0.35)
            fits = self.right - 4 - self.pen.width_of(line.label)
            self.pen.text((min(x + 10, fits), y + 6), line.label, "lt", FAINT, paper=True)
            return
        for place in places:
            self.pen.marker(place, line.color, line.dashed)

    def _frame(self) -> None:
        panel = self.panel
        self.pen.line((self.left, self.top), (self.left, self.bottom), INK, 1.3)
        self.pen.line((self.left, self.bottom), (self.right, self.bottom), INK, 1.3)
        middle = (self.left + self.right) / 2
        self.pen.text((middle, self.top - 14), panel.title, "mb", size=TITLE_PX)
        self.pen.text((middle, self.bottom + 44), panel.x_label, "mb")
        self.pen.upright_text((self.left - 54, (self.top + self.bottom) / 2), panel.y_label)


def draw_chart(title: str, panels: list[Panel], *, panel_px: tuple[int, int] = (620, 520)) -> Image.Image:
    """Draws panels side by side under one title, and the legend of their lines below.

    Args:
        title: Above all.
        panels: One or more.
        panel_px: Width and height of each.
    """
    width, height = panel_px
    whole = (width * len(panels), HEADER_PX + height + LEGEND_PX)
    pen = _Pen(*whole)
    pen.text((whole[0] / 2, HEADER_PX / 2 + 4), title, "mm", size=TITLE_PX)
    for column, panel in enumerate(panels):
        _Axes(pen, panel, column * width, HEADER_PX, width, height).draw()
    lines = {
        line.label: line for panel in panels for line in panel.lines if line.label and not line.reference
    }
    sample = 40
    total = sum(sample + 8 + pen.width_of(label) for label in lines) + LEGEND_GAP * (len(lines) - 1)
    x, y = (whole[0] - total) / 2, whole[1] - LEGEND_PX / 2 - 4
    for label, line in lines.items():
        pen.path([(x, y), (x + sample, y)], line.color, 2.2, line.dashed)
        pen.marker((x + sample / 2, y), line.color, line.dashed)
        pen.text((x + sample + 8, y), label, "lm")
        x += sample + 8 + pen.width_of(label) + LEGEND_GAP
    return pen.finished()
