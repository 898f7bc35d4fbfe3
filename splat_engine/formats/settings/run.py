"""All settings of a fit, in groups."""

from __future__ import annotations

from dataclasses import dataclass, field

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
