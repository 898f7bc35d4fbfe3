"""The tab Splatfit in the 3D viewport's sidebar, a module a panel."""

from . import engine, files, main, preview, settings

CLASSES = (*engine.CLASSES, *main.CLASSES, *preview.CLASSES, *files.CLASSES, *settings.CLASSES)
