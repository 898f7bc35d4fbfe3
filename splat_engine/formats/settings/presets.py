"""Qualities by name: which settings each of them stands for."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any, TypeVar

from splat_engine.formats.settings.capture import CaptureSettings
from splat_engine.formats.settings.declare import from_arguments, from_dict, to_dict
from splat_engine.formats.settings.fit import FitSettings, Preset
from splat_engine.formats.settings.run import RUN_PREFIXES, RunSettings, run_groups

PRESETS: dict[Preset, dict[str, dict[str, Any]]] = {
    "draft": {"capture": {"views": 40, "samples": 16}, "fit": {"steps": 500, "max_splats": 20000}},
    "standard": {},
    "high": {"capture": {"views": 200, "samples": 32}, "fit": {"steps": 8000, "max_splats": 500000}},
}
"""Group to name to value, where it is not the default. docs/schedules.md has what they take and bring."""

S = TypeVar("S")


def run_with_preset(settings: RunSettings, preset: Preset) -> RunSettings:
    """Returns the settings with what presets are about as a preset has it, and the preset's name."""
    fit = replace(_with_preset(settings.fit, "fit", preset), preset=preset)
    return replace(settings, fit=fit)


def capture_with_preset(settings: CaptureSettings, preset: Preset) -> CaptureSettings:
    """Returns the capture's settings with what presets are about as a preset has it."""
    return _with_preset(settings, "capture", preset)


def run_from_dict(values: Any, *, where: str) -> RunSettings:
    """Builds settings from plain values; what is absent is as the preset that they name has it.

    Args:
        values: Groups of names and values.
        where: The file or source, for messages.

    Raises:
        UserError: See ``from_dict``.
    """
    named = from_dict(RunSettings, values, where=where)
    base = to_dict(run_with_preset(RunSettings(), named.fit.preset))
    merged = {group: {**names, **values.get(group, {})} for group, names in base.items()}
    return from_dict(RunSettings, merged, where=where)


def run_with_arguments(settings: RunSettings, namespace: argparse.Namespace) -> RunSettings:
    """Returns the settings as a command line changes them: first the preset that it names, if any, then all that it says.

    Args:
        settings: What the command line does not say.
        namespace: Parsed, with the options of ``add_run_arguments``.

    Raises:
        UserError: A value is outside its limits.
    """
    if f"{RUN_PREFIXES['fit']}.preset" in vars(namespace):
        named = from_arguments(FitSettings, namespace, prefix=RUN_PREFIXES["fit"])
        settings = run_with_preset(settings, named.preset)
    groups = {
        name: from_arguments(group, namespace, prefix=RUN_PREFIXES[name], base=getattr(settings, name))
        for name, group in run_groups().items()
    }
    return RunSettings(**groups)


def preset_values(preset: Preset) -> dict[str, dict[str, Any]]:
    """Returns group to name to value of all that presets are about, defaults filled in."""
    defaults: dict[str, Any] = {"capture": CaptureSettings(), "fit": RunSettings().fit}
    governed = {
        (group, name) for table in PRESETS.values() for group, names in table.items() for name in names
    }
    values: dict[str, dict[str, Any]] = {group: {} for group in defaults}
    for group, name in sorted(governed):
        values[group][name] = PRESETS[preset].get(group, {}).get(name, getattr(defaults[group], name))
    return values


def _with_preset(settings: S, group: str, preset: Preset) -> S:
    changed: S = replace(settings, **preset_values(preset)[group])  # type: ignore[type-var]
    return changed
