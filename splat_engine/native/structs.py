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
    "project_fwd": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("orthographic", "i32"),
        ("antialiased", "i32"),
        ("dilation_px2", "scalar"),
        ("near_depth", "scalar"),
        ("means", "ptr"),
        ("log_scales", "ptr"),
        ("quats_wxyz", "ptr"),
        ("opacity_logits", "ptr"),
        ("viewmat", "ptr"),
        ("intrinsics", "ptr"),
        ("means2d", "ptr"),
        ("depths", "ptr"),
        ("conics", "ptr"),
        ("opacities", "ptr"),
        ("normals", "ptr"),
        ("radii", "ptr"),
    ],
    "project_bwd": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("orthographic", "i32"),
        ("antialiased", "i32"),
        ("dilation_px2", "scalar"),
        ("near_depth", "scalar"),
        ("means", "ptr"),
        ("log_scales", "ptr"),
        ("quats_wxyz", "ptr"),
        ("opacity_logits", "ptr"),
        ("viewmat", "ptr"),
        ("intrinsics", "ptr"),
        ("radii", "ptr"),
        ("v_means2d", "ptr"),
        ("v_depths", "ptr"),
        ("v_conics", "ptr"),
        ("v_opacities", "ptr"),
        ("v_normals", "ptr"),
        ("v_means", "ptr"),
        ("v_log_scales", "ptr"),
        ("v_quats_wxyz", "ptr"),
        ("v_opacity_logits", "ptr"),
        ("v_viewmat", "ptr"),
        ("v_intrinsics", "ptr"),
    ],
    "sh_colors_fwd": [
        ("count", "i64"),
        ("coefficients", "i32"),
        ("degree", "i32"),
        ("orthographic", "i32"),
        ("decode", "i32"),
        ("means", "ptr"),
        ("sh", "ptr"),
        ("viewmat", "ptr"),
        ("colors", "ptr"),
    ],
    "sh_colors_bwd": [
        ("count", "i64"),
        ("coefficients", "i32"),
        ("degree", "i32"),
        ("orthographic", "i32"),
        ("decode", "i32"),
        ("means", "ptr"),
        ("sh", "ptr"),
        ("viewmat", "ptr"),
        ("v_colors", "ptr"),
        ("v_sh", "ptr"),
        ("v_means", "ptr"),
        ("v_viewmat", "ptr"),
    ],
    "ssim_fwd": [
        ("height", "i32"),
        ("width", "i32"),
        ("channels", "i32"),
        ("valid", "i32"),
        ("data_range", "scalar"),
        ("image", "ptr"),
        ("target", "ptr"),
        ("mean", "ptr"),
        ("maps", "ptr"),
    ],
    "ssim_bwd": [
        ("height", "i32"),
        ("width", "i32"),
        ("channels", "i32"),
        ("valid", "i32"),
        ("image", "ptr"),
        ("target", "ptr"),
        ("maps", "ptr"),
        ("v_mean", "ptr"),
        ("v_image", "ptr"),
    ],
    "adam_step": [
        ("rows", "i64"),
        ("row_size", "i64"),
        ("rate1", "scalar"),
        ("beta2", "scalar"),
        ("rate2", "scalar"),
        ("eps", "scalar"),
        ("step_size", "scalar"),
        ("inverse_root", "scalar"),
        ("gradient", "ptr"),
        ("visible", "ptr"),
        ("parameter", "ptr"),
        ("exp_avg", "ptr"),
        ("exp_avg_sq", "ptr"),
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
