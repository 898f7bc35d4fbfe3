"""The argument structures of kernels: those of csrc/include/op_args.h, which the CPU's ops have too, and csrc/cuda/args.h.

tests/cuda/test_structs.py holds both headers and this module together.
"""

from __future__ import annotations

import ctypes
from functools import cache

from splat_engine.native import structs as native_structs

Fields = list[tuple[str, str]]

OWN: dict[str, Fields] = {}
"""Kernel to its fields, in the mini-language of ``native.structs``, for structures of csrc/cuda/args.h."""


def fields_of(kernel: str) -> Fields:
    """Returns the fields of a kernel's structure, by the kernel's name without its scalar type."""
    return OWN[kernel] if kernel in OWN else native_structs.OPS[kernel]


@cache
def structure(kernel: str, scalar: str) -> type[ctypes.Structure]:
    """Makes the ctypes structure of one kernel.

    Args:
        kernel: its name without the scalar type.
        scalar: "f32" or "f64".
    """
    return native_structs.structure_of(f"{kernel}_{scalar}", fields_of(kernel), scalar)
