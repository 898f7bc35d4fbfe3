"""The tab Splatfit in the 3D viewport's sidebar."""

from __future__ import annotations

from typing import Any

import bpy

from splat_engine.formats.settings import RUN_PREFIXES, declarations

from . import engine_box, engine_jobs, properties, running, scene
from .layouts import draw_text, line_characters
from .session import State

_MAIN_SETTINGS = (("capture", ("rig", "views", "resolution", "samples")), ("fit", ("steps", "max_splats")))


class _Sidebar:
    bl_space_type: Any = "VIEW_3D"
    bl_region_type: Any = "UI"
    bl_category = "Splatfit"
    layout: Any


class SPLATFIT_PT_main(_Sidebar, bpy.types.Panel):
    """What is asked for most, and what is going on."""

    bl_label = "Splatfit"
    bl_idname = "SPLATFIT_PT_main"

    def draw(self, context: Any) -> None:
        """Draws settings and buttons, or the progress of what runs."""
        job = running.current()
        if running.is_busy() and job is not None:
            _draw_progress(self.layout, job)
            return
        chosen = context.scene.splatfit
        column = self.layout.column()
        column.use_property_split = True
        for group, names in _MAIN_SETTINGS:
            for name in names:
                column.prop(getattr(chosen, group), name)
        buttons = self.layout.column(align=True)
        buttons.operator("splatfit.fit", icon="PLAY")
        buttons.operator("splatfit.capture", icon="RENDER_STILL")
        if job is not None:
            _draw_ending(self.layout, job, line_characters(context))


class SPLATFIT_PT_engine(_Sidebar, bpy.types.Panel):
    """What the engine lacks and how to get it; out of the way when it lacks nothing."""

    bl_label = "Splat Engine"
    bl_idname = "SPLATFIT_PT_engine"
    bl_order = -1

    @classmethod
    def poll(cls, context: Any) -> bool:
        """Only where there is something to do, to see or to have seen."""
        return engine_jobs.current() is not None or bool(engine_jobs.missing())

    def draw(self, context: Any) -> None:
        """Draws it."""
        engine_box.draw(self.layout, line_characters(context))
        engine_box.draw_choice(self.layout)


class SPLATFIT_PT_files(_Sidebar, bpy.types.Panel):
    """Splats in and out, and where the active object's are from."""

    bl_label = "Splat Files"
    bl_idname = "SPLATFIT_PT_files"
    bl_parent_id = "SPLATFIT_PT_main"

    def draw(self, context: Any) -> None:
        """Draws the buttons and the active object's origin."""
        buttons = self.layout.column(align=True)
        buttons.operator("splatfit.import_ply", icon="IMPORT")
        buttons.operator("splatfit.export_ply", icon="EXPORT")
        if scene.is_splat_object(context.object):
            _draw_origin(self.layout, context.object, line_characters(context))


class _SettingsPanel(_Sidebar):
    """Every setting of some groups, as they are declared."""

    bl_parent_id = "SPLATFIT_PT_main"
    bl_options: Any = {"DEFAULT_CLOSED"}
    groups: tuple[str, ...] = ()
    directory = ""

    def draw(self, context: Any) -> None:
        """Draws the settings in the order of their declaration."""
        chosen = context.scene.splatfit
        column = self.layout.column()
        column.use_property_split = True
        column.enabled = not running.is_busy()
        column.prop(chosen, self.directory)
        for group in self.groups:
            for name in declarations(properties.GROUPS[group]):
                column.prop(getattr(chosen, group), name)
            column.separator()


class SPLATFIT_PT_capture(_SettingsPanel, bpy.types.Panel):
    """All of the capture's settings."""

    bl_label = "Capture Settings"
    bl_idname = "SPLATFIT_PT_capture"
    groups = ("capture",)
    directory = "capture_directory"


class SPLATFIT_PT_fit(_SettingsPanel, bpy.types.Panel):
    """All of the fit's settings."""

    bl_label = "Fit Settings"
    bl_idname = "SPLATFIT_PT_fit"
    groups = tuple(RUN_PREFIXES)
    directory = "run_directory"


def _draw_progress(layout: Any, job: running.Running) -> None:
    report, state = job.session.report, job.session.state
    column = layout.column()
    word = {State.CAPTURING: "Capturing", State.PAUSED: "Paused"}.get(state, "Fitting")
    text = f"{word} {report.step}/{report.steps}" if report.steps else f"{word} ..."
    column.progress(factor=report.share, type="BAR", text=text)
    if state is not State.CAPTURING and report.steps:
        column.label(text=f"{report.psnr_db:.1f} dB on training views", icon="IMAGE_DATA")
        column.label(text=f"{report.splats:,} splats", icon="POINTCLOUD_DATA")
        column.label(text=f"About {_duration(report.seconds_left)} left", icon="TIME")
    if state is not State.CAPTURING:  # while views are rendered, no click arrives
        row = layout.row(align=True)
        paused = state is State.PAUSED
        row.operator(
            "splatfit.pause", text="Go On" if paused else "Pause", icon="PLAY" if paused else "PAUSE"
        )
        row.operator("splatfit.stop", icon="SNAP_FACE")
    layout.label(text="Esc cancels", icon="INFO")


def _draw_ending(layout: Any, job: running.Running, width: int) -> None:
    session, report = job.session, job.session.report
    box = layout.box()
    if session.error is not None:
        box.alert = True
        draw_text(box, session.error.headline, width, "ERROR")
        draw_text(box, session.error.hint, width)
        return
    if session.state is State.CANCELLED:
        box.label(text="Cancelled", icon="CANCEL")
        return
    box.label(text="Finished", icon="CHECKMARK")
    if report.test_psnr_db is not None:
        box.label(text=f"{report.test_psnr_db:.1f} dB on held-out views")
    for name, seconds in report.seconds.items():
        box.label(text=f"{name.title()}: {_duration(seconds)}")
    for note in (*report.warnings, *job.notes):
        draw_text(box, note, width, "ERROR")


def _draw_origin(layout: Any, object: Any, width: int) -> None:
    made = scene.get_provenance(object)
    box = layout.box()
    box.label(text=object.name, icon="POINTCLOUD_DATA")
    if made.run:
        draw_text(box, f"From {made.run}", width)
    if made.psnr_db is not None:
        box.label(text=f"{made.psnr_db:.1f} dB on held-out views")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


CLASSES = (SPLATFIT_PT_engine, SPLATFIT_PT_main, SPLATFIT_PT_files, SPLATFIT_PT_capture, SPLATFIT_PT_fit)
