"""The argument structures of kernels: those of csrc/include/op_args.h, which the CPU's ops have too, and csrc/cuda/args.h.

tests/cuda/test_structs.py holds both headers and this module together.
"""

from __future__ import annotations

import ctypes
from functools import cache

from splat_engine.native import structs as native_structs

Fields = list[tuple[str, str]]

_PHOTOMETRIC: Fields = [
    ("height", "i32"),
    ("width", "i32"),
    ("encode", "i32"),
    ("linear", "i32"),
    ("by_sign", "scalar"),
    ("by_difference", "scalar"),
    ("by_ssim", "scalar"),
    ("by_alpha", "scalar"),
    ("image", "ptr"),
    ("alpha", "ptr"),
    ("target", "ptr"),
    ("target_alpha", "ptr"),
    ("background", "ptr"),
    ("valid", "ptr"),
    ("maps", "ptr"),
    ("sums", "ptr"),
    ("v_image", "ptr"),
    ("v_alpha", "ptr"),
]

OWN: dict[str, Fields] = {
    "ssim_tiles": [
        ("height", "i32"),
        ("width", "i32"),
        ("channels", "i32"),
        ("valid", "i32"),
        ("data_range", "scalar"),
        ("image", "ptr"),
        ("target", "ptr"),
        ("maps", "ptr"),
        ("sums", "ptr"),
    ],
    "ssim_mean": [
        ("tiles", "i64"),
        ("height", "i32"),
        ("width", "i32"),
        ("channels", "i32"),
        ("valid", "i32"),
        ("sums", "ptr"),
        ("mean", "ptr"),
    ],
    "photometric_tiles": _PHOTOMETRIC,
    "photometric_gradient": _PHOTOMETRIC,
    "photometric_pixels": _PHOTOMETRIC,
    "photometric_figures": [
        ("blocks", "i64"),
        ("height", "i32"),
        ("width", "i32"),
        ("l1_weight", "scalar"),
        ("ssim_weight", "scalar"),
        ("mse_weight", "scalar"),
        ("alpha_weight", "scalar"),
        ("sums", "ptr"),
        ("figures", "ptr"),
    ],
}
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
