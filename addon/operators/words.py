"""What a person is told when an operator cannot go on.

Their mistake is a report and CANCELLED, without a traceback. A failure of ours is a dialog with the details,
ready to be copied into a report: folders are masked, for they name people and projects.

No ``from __future__ import annotations`` here: Blender reads properties from annotations.
"""

import logging
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import bpy

from splat_engine.formats.errors import UserError

from ..display import error_box
from ..reports import error_report, failure_report
from ..runs import running

_logger = logging.getLogger(__name__)
_DIALOG_WIDTH_PX = 640
_DIALOG_LINES = 24

F = TypeVar("F", bound=Callable[..., Any])


def in_words(method: F) -> F:
    """Wraps an operator's method: a UserError becomes a report and CANCELLED, a failure of ours a dialog.

    In background the failure goes on to the caller: there is nobody to show a dialog to.
    """

    def guarded(operator: Any, *arguments: Any) -> Any:
        try:
            return method(operator, *arguments)
        except UserError as error:
            said = error_box.in_panel_words(str(error))
            operator.report({"ERROR"}, said.replace("\n", " \n"))  # the status bar leaves line breaks out
            return {"CANCELLED"}
        except Exception as error:
            if bpy.app.background:
                raise
            _logger.exception("%s failed", operator.bl_idname)
            dialog: Any = bpy.ops
            dialog.splatfit.failure("INVOKE_DEFAULT", details=failure_report(error))
            return {"CANCELLED"}

    # Blender counts a method's arguments: *arguments would not do.
    def with_context(self: Any, context: Any) -> Any:
        return guarded(self, context)

    def with_event(self: Any, context: Any, event: Any) -> Any:
        return guarded(self, context, event)

    has_event = "event" in signature(method).parameters
    return wraps(method)(with_event if has_event else with_context)  # type: ignore[return-value]


class _Details:
    """A dialog with details; OK copies them."""

    bl_options: Any = {"INTERNAL"}
    intro = ""
    icon = "ERROR"
    details: str
    layout: Any

    def invoke(self, context: Any, event: Any) -> Any:
        """Opens the dialog."""
        return context.window_manager.invoke_props_dialog(self, width=_DIALOG_WIDTH_PX)

    def draw(self, context: Any) -> None:
        """Draws the end of the details, where the cause stands."""
        self.layout.label(text=self.intro, icon=self.icon)
        column = self.layout.box().column(align=True)
        for line in self.details.splitlines()[-_DIALOG_LINES:]:
            column.label(text=line)

    def execute(self, context: Any) -> Any:
        """Copies the details."""
        context.window_manager.clipboard = self.details
        return {"FINISHED"}


class SPLATFIT_OT_failure(_Details, bpy.types.Operator):
    """Shows a failure of Splatfit; OK copies the details."""

    bl_idname = "splatfit.failure"
    bl_label = "Splatfit failed"
    intro = "This is a mistake of Splatfit's. OK copies the details for a report."

    details: bpy.props.StringProperty(options={"HIDDEN", "SKIP_SAVE"})  # type: ignore[valid-type]


class SPLATFIT_OT_error_details(_Details, bpy.types.Operator):
    """Show what stands behind the error, to be copied into a report. Folders are masked"""

    bl_idname = "splatfit.error_details"
    bl_label = "Details"
    intro = "OK copies these details. Folders are masked."
    icon = "INFO"

    details: bpy.props.StringProperty(options={"HIDDEN", "SKIP_SAVE"})  # type: ignore[valid-type]

    @classmethod
    def poll(cls, context: Any) -> bool:
        """The last session must have failed."""
        return _last_error() is not None

    def invoke(self, context: Any, event: Any) -> Any:
        """Opens the dialog on the last session's error."""
        self._take()
        return super().invoke(context, event)

    def execute(self, context: Any) -> Any:
        """Copies the details."""
        self._take()
        return super().execute(context)

    def _take(self) -> None:
        error = _last_error()
        if error is not None:
            self.details = error_report(error)


def _last_error() -> UserError | None:
    job = running.current()
    return None if job is None else job.session.error


CLASSES = (SPLATFIT_OT_failure, SPLATFIT_OT_error_details)
