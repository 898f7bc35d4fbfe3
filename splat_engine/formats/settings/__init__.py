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
from splat_engine.formats.settings.density import DensifySettings, StrategyName
from splat_engine.formats.settings.fit import FitSettings, LossSpace, OptimizerSettings, Target
from splat_engine.formats.settings.image2d import ImageFitSettings
from splat_engine.formats.settings.run import RunSettings
from splat_engine.formats.settings.tidy import TidySettings

__all__ = [
    "CaptureSettings",
    "Declaration",
    "DensifySettings",
    "FitSettings",
    "ImageFitSettings",
    "LossSpace",
    "OptimizerSettings",
    "Rig",
    "RunSettings",
    "StrategyName",
    "Target",
    "TidySettings",
    "add_arguments",
    "declarations",
    "from_arguments",
    "from_dict",
    "option_name",
    "setting",
    "to_dict",
]
