"""The tab Splatfit in the 3D viewport's sidebar, a module a panel."""

from . import engine, files, main, settings

CLASSES = (*engine.CLASSES, *main.CLASSES, *files.CLASSES, *settings.CLASSES)
