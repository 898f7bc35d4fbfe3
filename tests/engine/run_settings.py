"""Settings of a fit for tests, by their names alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from splat_engine.formats.settings import RUN_PREFIXES, RunSettings, declarations

BARE_GROUPS = [name for name, prefix in RUN_PREFIXES.items() if not prefix]
"""Groups whose options have no prefix: their names differ."""


def run_settings(values: dict[str, Any], **groups: Any) -> RunSettings:
    """Returns the defaults with ``values`` put where they are declared, and with whole ``groups`` replaced."""
    settings, rest = RunSettings(**groups), dict(values)
    for name in BARE_GROUPS:
        group = getattr(settings, name)
        own = {key: rest.pop(key) for key in declarations(type(group)) if key in rest}
        settings = replace(settings, **{name: replace(group, **own)})
    assert not rest, f"no such settings: {sorted(rest)}"
    return settings
