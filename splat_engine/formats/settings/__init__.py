"""Every setting, declared once: default, limits, unit, label, help.

The command line, the panel and settings.json are derived from these declarations.
"""

from splat_engine.formats.settings.capture import CaptureSettings, Rig
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
from splat_engine.formats.settings.density import DensifySettings
from splat_engine.formats.settings.fit import (
    RANDOM_START,
    FitSettings,
    OptimizerSettings,
    StrategyName,
    Target,
)
from splat_engine.formats.settings.image2d import ImageFitSettings
from splat_engine.formats.settings.loss import LossSettings, LossSpace
from splat_engine.formats.settings.run import RunSettings

__all__ = [
    "RANDOM_START",
    "CaptureSettings",
    "Declaration",
    "DensifySettings",
    "FitSettings",
    "ImageFitSettings",
    "LossSettings",
    "LossSpace",
    "OptimizerSettings",
    "Rig",
    "RunSettings",
    "StrategyName",
    "Target",
    "add_arguments",
    "declarations",
    "from_arguments",
    "from_dict",
    "option_name",
    "setting",
    "to_dict",
]
