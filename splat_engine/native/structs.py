"""The argument structures of the C ABI: the mirror of csrc/cpu/abi.h and csrc/include/op_args.h, field by field.

Each op is declared once, as a list of (field, kind); the float and the double structure follow from it. Kinds:
``ptr`` an address (an int, 0 or None for null), ``scalar`` a float or double, ``i32``, ``i64``.
"""

from __future__ import annotations

import ctypes

ABI_VERSION = 3
"""Must equal ABI_VERSION in csrc/cpu/abi.h; loading a library with another number is an error."""

STATUS_OUT_OF_MEMORY = 2
"""What an op returns then (csrc/cpu/abi.h)."""

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
        ("v_abs_means2d", "ptr"),
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
        ("partial", "ptr"),
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
        ("partial", "ptr"),
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
    "photometric_loss": [
        ("height", "i32"),
        ("width", "i32"),
        ("encode", "i32"),
        ("linear", "i32"),
        ("l1_weight", "scalar"),
        ("ssim_weight", "scalar"),
        ("mse_weight", "scalar"),
        ("alpha_weight", "scalar"),
        ("image", "ptr"),
        ("alpha", "ptr"),
        ("target", "ptr"),
        ("target_alpha", "ptr"),
        ("background", "ptr"),
        ("valid", "ptr"),
        ("figures", "ptr"),
        ("v_image", "ptr"),
        ("v_alpha", "ptr"),
    ],
    "update_splats": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("orthographic", "i32"),
        ("antialiased", "i32"),
        ("coefficients", "i32"),
        ("degree", "i32"),
        ("decode", "i32"),
        ("sparse", "i32"),
        ("dilation_px2", "scalar"),
        ("near_depth", "scalar"),
        ("rate1", "scalar"),
        ("beta2", "scalar"),
        ("rate2", "scalar"),
        ("eps", "scalar"),
        ("inverse_root", "scalar"),
        ("step_means", "scalar"),
        ("step_log_scales", "scalar"),
        ("step_quats_wxyz", "scalar"),
        ("step_opacity_logits", "scalar"),
        ("step_sh_constant", "scalar"),
        ("step_sh", "scalar"),
        ("viewmat", "ptr"),
        ("intrinsics", "ptr"),
        ("radii", "ptr"),
        ("v_means2d", "ptr"),
        ("v_depths", "ptr"),
        ("v_conics", "ptr"),
        ("v_opacities", "ptr"),
        ("v_normals", "ptr"),
        ("v_colors", "ptr"),
        ("log_scale_floors", "ptr"),
        ("means", "ptr"),
        ("log_scales", "ptr"),
        ("quats_wxyz", "ptr"),
        ("opacity_logits", "ptr"),
        ("sh", "ptr"),
        ("first_means", "ptr"),
        ("first_log_scales", "ptr"),
        ("first_quats_wxyz", "ptr"),
        ("first_opacity_logits", "ptr"),
        ("first_sh", "ptr"),
        ("second_means", "ptr"),
        ("second_log_scales", "ptr"),
        ("second_quats_wxyz", "ptr"),
        ("second_opacity_logits", "ptr"),
        ("second_sh", "ptr"),
    ],
    "train_step": [
        ("update", "ptr"),
        ("loss", "ptr"),
        ("radii", "ptr"),
        ("v_means2d", "ptr"),
        ("v_abs_means2d", "ptr"),
    ],
    "relocate": [
        ("count", "i64"),
        ("opacities", "ptr"),
        ("scales", "ptr"),
        ("counts", "ptr"),
        ("new_opacities", "ptr"),
        ("new_scales", "ptr"),
    ],
    "raster_counts": [
        ("context", "ptr"),
        ("replay", "i32"),
        ("reserved", "i32"),
        ("counts", "ptr"),
    ],
    "peak_fma": [
        ("rounds", "i64"),
        ("factor", "scalar"),
        ("addend", "scalar"),
        ("operations", "ptr"),
        ("sum", "ptr"),
    ],
}


def structure(op: str, scalar: str) -> type[ctypes.Structure]:
    """Make the ctypes structure of one op.

    Args:
        op: a key of OPS.
        scalar: "f32" or "f64".
    """
    return structure_of(f"{op}_{scalar}", OPS[op], scalar)


def structure_of(name: str, fields: list[tuple[str, str]], scalar: str) -> type[ctypes.Structure]:
    """Make a ctypes structure of (field, kind) pairs.

    Args:
        name: of the class.
        fields: name and kind of each field.
        scalar: "f32" or "f64".
    """
    kinds = {"ptr": ctypes.c_void_p, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "scalar": SCALARS[scalar]}
    return type(name, (ctypes.Structure,), {"_fields_": [(field, kinds[kind]) for field, kind in fields]})
