"""What stands in a report of a failure: versions, causes and the traceback, folders masked."""

from __future__ import annotations

import re
import traceback

import bpy

from splat_engine.formats.errors import UserError

from .package import version

_FOLDERS = re.compile(r"(?<![\w.])(?:[A-Za-z]:[\\/]|[\\/])(?:[^\\/\"'\n<>|:]+[\\/])+")


def failure_report(error: BaseException) -> str:
    """Returns what a bug report needs: versions and the traceback, folders masked."""
    lines = "".join(traceback.format_exception(error))
    return f"Splatfit {version()}, Blender {bpy.app.version_string}\n{mask_folders(lines)}"


def error_report(error: UserError) -> str:
    """Returns what stands behind an error in words, for a report: versions, cause and where it was raised, folders masked."""
    parts = [f"Splatfit {version()}, Blender {bpy.app.version_string}", error.headline, error.hint]
    if error.cause is not None:
        parts += ["Cause:", error.as_dict()["cause"]]
    if error.__traceback__ is not None:
        parts.append("".join(traceback.format_exception(error)))
    return mask_folders("\n".join(part for part in parts if part))


def mask_folders(text: str) -> str:
    """Returns a text with the folders of absolute paths replaced by three dots; file names stay."""
    return _FOLDERS.sub(".../", text)
