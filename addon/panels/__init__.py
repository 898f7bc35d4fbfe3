"""The tab Splatfit in the 3D viewport's sidebar, a module a panel."""

from . import editing, engine, files, main, presets, preview, result, runs, settings

CLASSES = (
    *engine.CLASSES,
    *presets.CLASSES,
    *main.CLASSES,
    *preview.CLASSES,
    *result.CLASSES,
    *runs.CLASSES,
    *editing.CLASSES,
    *files.CLASSES,
    *settings.CLASSES,
)
"""In the order of the tab; a panel stands after the one that it lies in."""
