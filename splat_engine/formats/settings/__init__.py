"""Every setting, declared once: default, limits, unit, label, help.

The command line, the panel and settings.json are derived from these declarations.
"""

from splat_engine.formats.settings.capture import (
    AROUND_RIGS,
    PLACED_RIGS,
    CaptureSettings,
    FacesLook,
    Rig,
)
from splat_engine.formats.settings.declare import (
    Declaration,
    add_arguments,
    declarations,
    from_arguments,
    from_dict,
    option_name,
    setting,
    to_dict,
)
from splat_engine.formats.settings.density import DensifySettings, StrategyName
from splat_engine.formats.settings.fit import FitSettings, OptimizerSettings, Preset, Target
from splat_engine.formats.settings.image2d import ImageFitSettings
from splat_engine.formats.settings.loss import LossSettings, LossSpace
from splat_engine.formats.settings.presets import (
    PRESETS,
    capture_with_preset,
    preset_values,
    run_from_dict,
    run_with_arguments,
    run_with_preset,
)
from splat_engine.formats.settings.run import RUN_PREFIXES, RunSettings, add_run_arguments, run_groups
from splat_engine.formats.settings.schedule import ScheduleSettings
from splat_engine.formats.settings.start import RANDOM_START, StartSettings
from splat_engine.formats.settings.tidy import TidySettings

__all__ = [
    "AROUND_RIGS",
    "CaptureSettings",
    "Declaration",
    "DensifySettings",
    "FacesLook",
    "FitSettings",
    "ImageFitSettings",
    "LossSettings",
    "LossSpace",
    "OptimizerSettings",
    "PLACED_RIGS",
    "PRESETS",
    "Preset",
    "RANDOM_START",
    "RUN_PREFIXES",
    "Rig",
    "RunSettings",
    "ScheduleSettings",
    "StartSettings",
    "StrategyName",
    "Target",
    "TidySettings",
    "add_arguments",
    "add_run_arguments",
    "capture_with_preset",
    "declarations",
    "from_arguments",
    "from_dict",
    "option_name",
    "preset_values",
    "run_from_dict",
    "run_groups",
    "run_with_arguments",
    "run_with_preset",
    "setting",
    "to_dict",
]
