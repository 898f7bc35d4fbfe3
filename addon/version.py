"""Splatfit's version, from the manifest: the one place where it stands."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tomllib

from splat_engine.formats.errors import UserError

_MANIFEST = "blender_manifest.toml"


@cache
def version() -> str:
    """Returns the version: of the manifest beside the add-on (installed) or above it (checkout).

    Raises:
        UserError: There is none: the add-on is not whole.
    """
    package = Path(__file__).resolve().parent
    for folder in (package, package.parent):
        if (folder / _MANIFEST).is_file():
            return str(tomllib.loads((folder / _MANIFEST).read_text("utf-8"))["version"])
    raise UserError(f"Splatfit is not whole: {package} has no {_MANIFEST}.", "Install the extension again.")
