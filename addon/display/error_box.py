"""An error in a panel: what is wrong, what to do about it, and the buttons that do it."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.formats.settings import RUN_PREFIXES, declarations, option_name, run_groups

from .layouts import draw_text

_OPTION = re.compile(r"--[a-z]+(?:-[a-z]+)*")
_COMMANDS = {"--resume": "Resume", "--force": "Overwrite"}
"""Options that are no settings, and the buttons or switches that stand for them."""


def draw(layout: Any, error: UserError, width: int) -> None:
    """Draws an error with a button for its details, and one for fewer splats where memory ran out.

    Args:
        layout: Where.
        error: What is told.
        width: Characters of a line.
    """
    box = layout.box()
    text = box.column()
    text.alert = True
    draw_text(text, in_panel_words(error.headline), width, "ERROR")
    draw_text(box, in_panel_words(error.hint.partition("\n")[0]), width)  # what a log says is in the details
    if isinstance(error, OutOfMemory) and error.fewer_splats:
        label = f"Lower to {error.fewer_splats:,} Splats"
        box.operator("splatfit.lower_budget", icon="TRIA_DOWN", text=label).most = error.fewer_splats
    box.operator("splatfit.error_details", icon="TEXT")


def in_panel_words(text: str) -> str:
    """Returns a text of the engine's, which speaks of command-line options, with the names that the panel has."""
    return _OPTION.sub(lambda found: _labels().get(found[0], found[0]), text)


@cache
def _labels() -> dict[str, str]:
    """Returns the panel's name of each option of a fit."""
    labels = dict(_COMMANDS)
    for group, settings in run_groups().items():
        for name, (_, _, declared) in declarations(settings).items():
            labels[option_name(name, RUN_PREFIXES[group])] = declared.label
    return labels
