"""The add-on itself: the name Blender knows it by, its folder, and its version."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tomllib

from splat_engine.formats.errors import UserError

NAME = __package__ or ""
"""The add-on's module name: ``addon`` in a checkout, ``bl_ext.REPOSITORY.splatfit`` where it is installed."""
FOLDER = Path(__file__).resolve().parent
"""Where its files are; of an extension, its wheels too."""
_MANIFEST = "blender_manifest.toml"


@cache
def version() -> str:
    """Returns the version, from the one place where it stands: of the manifest beside the add-on (installed) or above it (checkout).

    Raises:
        UserError: There is none: the add-on is not whole.
    """
    for folder in (FOLDER, FOLDER.parent):
        if (folder / _MANIFEST).is_file():
            return str(tomllib.loads((folder / _MANIFEST).read_text("utf-8"))["version"])
    raise UserError(f"Splatfit is not whole: {FOLDER} has no {_MANIFEST}.", "Install the extension again.")
