"""Where the commands compute: torch is imported, the native library loaded, threads and allocator are set."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from splat_engine.formats.errors import UserError

if TYPE_CHECKING:
    from splat_engine.fit.place import Place

logger = logging.getLogger(__name__)


def start_device(name: str = "cpu", threads: int = 0, warn: Callable[[str], None] = logger.warning) -> Place:
    """Imports torch, loads the native library, sets threads and allocator; returns the place that a setting names.

    Args:
        name: The setting ``device``.
        threads: The setting ``threads``.
        warn: Told why a card is left alone.

    Raises:
        UserError: torch or another package is not installed, the library is missing, or the card cannot be used.
    """
    try:
        with first_import("torch"):
            import OpenEXR  # noqa: F401
            import PIL  # noqa: F401
            import scipy  # noqa: F401
            import torch
            import tqdm  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"The Python at {sys.executable} has no {error.name}: the engine cannot fit.",
            "Install it there: pip install 'splat-engine[fit]'; or choose another Python for the engine.",
            error,
        ) from error
    from splat_engine import native
    from splat_engine.fit.place import choose_place
    from splat_engine.native.memory import keep_freed_memory

    keep_freed_memory()
    count = threads or cores()
    torch.set_num_threads(count)
    native.set_num_threads(count)
    return choose_place(name, warn)


@contextmanager
def first_import(name: str) -> Iterator[None]:
    """Keeps the garbage collector from looking, again and again, through what a large import makes: all of it stays.

    It was a ninth of the time that torch and scipy need. Where the module is there already, nothing is done.
    """
    if name in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # not looked at later on either
        gc.enable()


def cores() -> int:
    """Returns the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
