"""Texts in Blender's layouts, which know single lines alone."""

from __future__ import annotations

import textwrap
from typing import Any

_LINE_CHARACTERS = 30
"""Where there is no region to measure."""
_CHARACTER_PX, _BORDER_PX = 7.0, 70
"""Of the interface's font and of panel, box and icon, at a scale of 1."""


def line_characters(context: Any) -> int:
    """Returns how many characters a line of the sidebar holds."""
    if context.region is None:
        return _LINE_CHARACTERS
    width = context.region.width / context.preferences.system.ui_scale
    return max(12, int((width - _BORDER_PX) / _CHARACTER_PX))


def draw_text(layout: Any, text: str, width: int, icon: str = "NONE") -> None:
    """Draws a text over as many lines as it needs; a label is one line."""
    column = layout.column(align=True)
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part, width)]
    for number, line in enumerate(lines):
        column.label(text=line, icon=icon if number == 0 else "BLANK1" if icon != "NONE" else "NONE")


def duration(seconds: float) -> str:
    """Returns a span of time as a person says it: seconds, minutes and seconds, or hours and minutes."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes_left} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
