"""The argument structures of the C ABI: the mirror of csrc/cpu/abi.h, field by field, in one place.

Each op is declared once, as a list of (field, kind); the float and the double structure follow from it. Kinds:
``ptr`` an address (an int, 0 or None for null), ``scalar`` a float or double, ``i32``, ``i64``.
"""

from __future__ import annotations

import ctypes

ABI_VERSION = 1
"""Must equal ABI_VERSION in csrc/cpu/abi.h; loading a library with another number is an error."""

SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double}

OPS: dict[str, list[tuple[str, str]]] = {
    "rasterize_fwd": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("channels", "i32"),
        ("reserved", "i32"),
        ("means2d", "ptr"),
        ("conics", "ptr"),
        ("opacities", "ptr"),
        ("features", "ptr"),
        ("depths", "ptr"),
        ("background", "ptr"),
        ("image", "ptr"),
        ("alpha", "ptr"),
        ("context", "ptr"),
    ],
    "rasterize_bwd": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("channels", "i32"),
        ("reserved", "i32"),
        ("means2d", "ptr"),
        ("conics", "ptr"),
        ("opacities", "ptr"),
        ("features", "ptr"),
        ("background", "ptr"),
        ("image", "ptr"),
        ("alpha", "ptr"),
        ("v_image", "ptr"),
        ("v_alpha", "ptr"),
        ("context", "ptr"),
        ("v_means2d", "ptr"),
        ("v_conics", "ptr"),
        ("v_opacities", "ptr"),
        ("v_features", "ptr"),
        ("v_background", "ptr"),
    ],
}


def structure(op: str, scalar: str) -> type[ctypes.Structure]:
    """Make the ctypes structure of one op.

    Args:
        op: a key of OPS.
        scalar: "f32" or "f64".
    """
    kinds = {"ptr": ctypes.c_void_p, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "scalar": SCALARS[scalar]}
    fields = [(name, kinds[kind]) for name, kind in OPS[op]]
    return type(f"{op}_{scalar}", (ctypes.Structure,), {"_fields_": fields})
