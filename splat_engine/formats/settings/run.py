"""All settings of a fit, in groups."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, fields
from typing import get_type_hints

from splat_engine.formats.settings.declare import add_arguments
from splat_engine.formats.settings.density import DensifySettings
from splat_engine.formats.settings.fit import FitSettings, OptimizerSettings
from splat_engine.formats.settings.loss import LossSettings
from splat_engine.formats.settings.schedule import ScheduleSettings
from splat_engine.formats.settings.start import StartSettings
from splat_engine.formats.settings.tidy import TidySettings


@dataclass(frozen=True)
class RunSettings:
    """All settings of a fit."""

    fit: FitSettings = field(default_factory=FitSettings)
    start: StartSettings = field(default_factory=StartSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    densify: DensifySettings = field(default_factory=DensifySettings)
    tidy: TidySettings = field(default_factory=TidySettings)


RUN_PREFIXES = {
    "fit": "",
    "start": "",
    "loss": "",
    "schedule": "",
    "optimizer": "lr",
    "densify": "densify",
    "tidy": "tidy",
}
"""Group of ``RunSettings`` to what its options' names begin with; names without a prefix are unlike each other."""


def run_groups() -> dict[str, type]:
    """Returns the groups of ``RunSettings``, in their order: name to class."""
    hints = get_type_hints(RunSettings)
    return {item.name: hints[item.name] for item in fields(RunSettings)}


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each setting of a fit; ``run_with_arguments`` reads them."""
    for name, group in run_groups().items():
        add_arguments(parser, group, prefix=RUN_PREFIXES[name])
