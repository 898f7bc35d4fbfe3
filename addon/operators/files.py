"""PLY in and out.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

from pathlib import Path
from typing import Any

import bpy
from bpy_extras.io_utils import ExportHelper, ImportHelper

from splat_engine.formats.splat_ply import write_splat_ply

from ..runs import workflow
from ..scene import splat_object
from .words import in_words


class SPLATFIT_OT_import_ply(bpy.types.Operator, ImportHelper):  # type: ignore[misc]  # stubs differ on invoke
    """Put the splats of a 3D Gaussian splatting PLY into the scene."""

    bl_idname = "splatfit.import_ply"
    bl_label = "Import Splats (.ply)"
    bl_options = {"REGISTER", "UNDO"}

    filename_ext = ".ply"
    filter_glob: bpy.props.StringProperty(default="*.ply", options={"HIDDEN"})  # type: ignore[valid-type]

    @in_words
    def execute(self, context: Any) -> Any:
        """Reads the file and adds the object; selection and active object stay."""
        added = workflow.import_ply(context.scene, Path(bpy.path.abspath(self.properties.filepath)))
        for note in added.notes:
            self.report({"WARNING"}, note)
        self.report({"INFO"}, f"{added.count} splats")
        return {"FINISHED"}


class SPLATFIT_OT_export_ply(bpy.types.Operator, ExportHelper):  # type: ignore[misc]  # stubs differ on invoke
    """Write the active splat object as a 3D Gaussian splatting PLY."""

    bl_idname = "splatfit.export_ply"
    bl_label = "Export Splats (.ply)"
    bl_options = {"REGISTER"}

    filename_ext = ".ply"
    filter_glob: bpy.props.StringProperty(default="*.ply", options={"HIDDEN"})  # type: ignore[valid-type]
    apply_transform: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Apply Transform",
        description="Write the splats where the object stands, colours turned with it",
        default=True,
    )
    apply_modifiers: bpy.props.BoolProperty(  # type: ignore[valid-type]
        name="Apply Modifiers", description="Write the splats as modifiers leave them", default=True
    )

    @classmethod
    def poll(cls, context: Any) -> bool:
        """A splat object must be active."""
        if not splat_object.is_splat_object(context.object):
            cls.poll_message_set("Select a splat object")
            return False
        return True

    @in_words
    def execute(self, context: Any) -> Any:
        """Reads the object and writes the file, whole or not at all."""
        depsgraph = context.evaluated_depsgraph_get() if self.apply_modifiers else None
        splats = splat_object.read_splats(context.object, depsgraph=depsgraph, world=self.apply_transform)
        write_splat_ply(Path(bpy.path.abspath(self.properties.filepath)), splats)
        self.report({"INFO"}, f"{len(splats)} splats written to {self.properties.filepath}")
        return {"FINISHED"}


class SPLATFIT_FH_ply(bpy.types.FileHandler):
    """A PLY that is dropped into the 3D viewport."""

    bl_idname = "SPLATFIT_FH_ply"
    bl_label = "Splats (.ply)"
    bl_import_operator = "splatfit.import_ply"
    bl_export_operator = "splatfit.export_ply"
    bl_file_extensions = ".ply"

    @classmethod
    def poll_drop(cls, context: Any) -> bool:
        """Takes drops onto the 3D viewport."""
        return context.area is not None and context.area.type == "VIEW_3D"


CLASSES = (SPLATFIT_OT_import_ply, SPLATFIT_OT_export_ply, SPLATFIT_FH_ply)
