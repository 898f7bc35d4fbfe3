"""The tab Splatfit in the 3D viewport's sidebar, a module a panel."""

from . import editing, engine, files, main, preview, runs, settings

CLASSES = (
    *engine.CLASSES,
    *main.CLASSES,
    *preview.CLASSES,
    *runs.CLASSES,
    *editing.CLASSES,
    *files.CLASSES,
    *settings.CLASSES,
)
