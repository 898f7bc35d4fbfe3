"""All that a fit needs to go on, in one file.

The file is torch's zip archive of tensors and plain values, read with ``weights_only``: loading it runs no code.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import write_bytes

CHECKPOINT_VERSION = 4


def save_checkpoint(path: Path, values: Mapping[str, Any]) -> None:
    """Writes a checkpoint, whole or not at all.

    Args:
        path: The file.
        values: Tensors, numbers, text, and lists, tuples and tables of them.

    Raises:
        UserError: The file cannot be written, for want of space for example.
    """
    stream = io.BytesIO()
    torch.save({"version": CHECKPOINT_VERSION, **values}, stream)
    write_bytes(path, stream.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads what ``save_checkpoint`` wrote, without its version.

    Raises:
        UserError: There is no checkpoint, it is damaged, or another version of the program wrote it.
    """
    if not path.is_file():
        raise UserError(
            f"There is no checkpoint at {path}.", "Start the fit anew, without --resume; or check the path."
        )
    try:
        values = torch.load(path, weights_only=True, map_location="cpu")
        version = values.pop("version")
    except (
        OSError,
        RuntimeError,
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
    ) as error:
        raise FormatError(
            f"{path} is not a readable checkpoint.", "Start the fit anew, without --resume.", error
        ) from error
    if version != CHECKPOINT_VERSION:
        raise FormatError(
            f"{path} is a checkpoint of version {version}; this engine reads version {CHECKPOINT_VERSION}.",
            "Start the fit anew, or use the engine that wrote it.",
        )
    return dict(values)
