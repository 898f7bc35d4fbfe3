"""The tab Splatfit in the 3D viewport's sidebar, a module a panel."""

from . import engine, files, main, presets, result, settings

CLASSES = (
    *engine.CLASSES,
    *presets.CLASSES,
    *main.CLASSES,
    *result.CLASSES,
    *files.CLASSES,
    *settings.CLASSES,
)
"""In the order of the tab; a panel stands after the one that it lies in."""
