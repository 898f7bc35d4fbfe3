"""Everything that Blender is told of, in order, and taken away again in reverse."""

from __future__ import annotations

import atexit
from typing import Any

import bpy

from . import panels
from .commands import headless
from .display import curve_picture, engine_box, preview, rig_overlay, test_view
from .engine import engine_jobs
from .operators import (
    editing,
    engine,
    files,
    fitting,
    presets,
    recovering,
    results,
    rigs,
    runs,
    viewing,
    words,
)
from .runs import following
from .settings import preferences, properties, target_size

_registered: list[Any] = []
_cli_handle: Any = None
_LISTENERS: tuple[Any, ...] = (target_size, rig_overlay, test_view, presets)
"""What Blender is told of beside classes, each by a ``register`` and an ``unregister`` of its own."""
_PREFERENCES_CHARACTERS = 90
"""Of a line in the preferences' window."""


def register() -> None:
    """Registers everything; what fails half-way leaves nothing behind."""
    global _cli_handle
    groups = properties.make_classes()
    operators: tuple[Any, ...] = (*fitting.CLASSES, *runs.CLASSES, *files.CLASSES, *editing.CLASSES)
    operators += (*rigs.CLASSES, *results.CLASSES, *presets.CLASSES, *viewing.CLASSES)
    operators += (*engine.CLASSES, *recovering.CLASSES, *words.CLASSES)
    try:
        for item in (*groups, preferences.make_class(_draw_engine), *operators, *panels.CLASSES):
            bpy.utils.register_class(item)
            _registered.append(item)
        bpy.types.Scene.splatfit = bpy.props.PointerProperty(type=groups[-1])  # type: ignore[attr-defined]
        for menu, draw in _menus():
            menu.append(draw)
        for part in _LISTENERS:
            part.register()
        _cli_handle = headless.register()
        following.register()
        following.listeners.append(preview.tick)
        atexit.register(unregister)  # Blender 4.5 may hang or crash at its end if anything is left
    except BaseException:
        unregister()
        raise


def unregister() -> None:
    """Ends what is running and takes away what was registered."""
    global _cli_handle
    atexit.unregister(unregister)
    following.unregister()
    following.listeners.clear()
    preview.forget()
    engine_jobs.forget()
    curve_picture.icon.free()
    for part in _LISTENERS:
        part.unregister()
    if _cli_handle is not None:
        headless.unregister(_cli_handle)
        _cli_handle = None
    for menu, draw in _menus():
        menu.remove(draw)
    if hasattr(bpy.types.Scene, "splatfit"):
        del bpy.types.Scene.splatfit
    while _registered:
        bpy.utils.unregister_class(_registered.pop())


def _draw_engine(layout: Any) -> None:
    engine_box.draw(layout, _PREFERENCES_CHARACTERS)


def _menus() -> tuple[tuple[Any, Any], ...]:
    return (
        (bpy.types.TOPBAR_MT_file_import, _draw_import),
        (bpy.types.TOPBAR_MT_file_export, _draw_export),
    )


def _draw_import(self: Any, context: Any) -> None:
    self.layout.operator("splatfit.import_ply", text="Gaussian Splats by Splatfit (.ply)")


def _draw_export(self: Any, context: Any) -> None:
    self.layout.operator("splatfit.export_ply", text="Gaussian Splats by Splatfit (.ply)")
