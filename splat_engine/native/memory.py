"""How this process's allocator treats freed memory: for programs that make the same large tensors at every step."""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3), glibc's <malloc.h>."""
KEPT_BYTES = (1 << 31) - 1
"""The largest number that mallopt's int takes: blocks and free memory up to it stay with the process."""


def keep_freed_memory() -> bool:
    """Tells glibc to keep freed memory for the next allocation in place of giving it back to the system.

    By default glibc maps each block above 32 MB anew and unmaps it when it is freed. A training step of 200 k splats
    makes several such tensors; the system then clears each of their pages again at each step. The price is that the process does not shrink, so this is for the engine's own process, which ends with
    its work: never at import, never in a process of somebody else.

    Returns:
        Whether it was done: only on Linux with glibc.
    """
    if sys.platform != "linux" or not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except ValueError:  # another C library does not know the name
        return False
