"""The argument structures of kernels: those of csrc/include/op_args.h, which the CPU's ops have too, and csrc/cuda/args.h.

tests/cuda/test_structs.py holds both headers and this module together.
"""

from __future__ import annotations

import ctypes
from functools import cache

from splat_engine.native import structs as native_structs

Fields = list[tuple[str, str]]

CHANNELS = (1, 3, 4, 7, 8)
"""Numbers of features that the raster kernels are compiled for; what has fewer runs in the next larger one."""

_RASTERIZE_TILES: Fields = [
    ("width", "i32"),
    ("height", "i32"),
    ("channels", "i32"),
    ("first_tile", "i32"),
    ("records", "ptr"),
    ("features", "ptr"),
    ("background", "ptr"),
    ("tile_starts", "ptr"),
    ("pairs", "ptr"),
    ("image", "ptr"),
    ("alpha", "ptr"),
    ("checkpoints", "ptr"),
    ("patch_buckets", "ptr"),
    ("bucket_tiles", "ptr"),
]
_RASTERIZE_BUCKETS: Fields = [
    ("buckets", "i64"),
    ("width", "i32"),
    ("height", "i32"),
    ("channels", "i32"),
    ("first_tile", "i32"),
    ("records", "ptr"),
    ("features", "ptr"),
    ("tile_starts", "ptr"),
    ("pairs", "ptr"),
    ("checkpoints", "ptr"),
    ("patch_buckets", "ptr"),
    ("bucket_tiles", "ptr"),
    ("image", "ptr"),
    ("alpha", "ptr"),
    ("v_image", "ptr"),
    ("v_alpha", "ptr"),
    ("sums", "ptr"),
]
_SIZE: Fields = [("width", "i32"), ("height", "i32"), ("channels", "i32")]
_RAY_LISTS: Fields = [
    ("records", "ptr"),
    ("features", "ptr"),
    ("depths", "ptr"),
    ("floors", "ptr"),
]
_RASTERIZE_BY_RAY: Fields = [
    *_SIZE,
    ("reserved", "i32"),
    *_RAY_LISTS,
    ("background", "ptr"),
    ("tile_starts", "ptr"),
    ("pairs", "ptr"),
    ("image", "ptr"),
    ("alpha", "ptr"),
    ("patches", "ptr"),
    ("counts", "ptr"),
    ("scans", "ptr"),
]
_RAY_SHARES: Fields = [
    *_SIZE,
    ("first_tile", "i32"),
    *_RAY_LISTS,
    ("tile_starts", "ptr"),
    ("pairs", "ptr"),
    ("patches", "ptr"),
    ("slots", "ptr"),
    ("image", "ptr"),
    ("alpha", "ptr"),
    ("v_image", "ptr"),
    ("v_alpha", "ptr"),
    ("shares", "ptr"),
]
_RASTERIZE_BY_RAY_BWD: Fields = [
    *_SIZE,
    ("first_tile", "i32"),
    ("records", "ptr"),
    ("tile_starts", "ptr"),
    ("pairs", "ptr"),
    ("patches", "ptr"),
    ("slots", "ptr"),
    ("shares", "ptr"),
    ("v_image", "ptr"),
    ("sums", "ptr"),
]
_BY_RAY: dict[str, Fields] = {
    "touched_patches": [
        ("width", "i32"),
        ("reserved", "i32"),
        ("records", "ptr"),
        ("tile_starts", "ptr"),
        ("pairs", "ptr"),
        ("patches", "ptr"),
    ],
    **{f"rasterize_by_ray_fwd_c{channels}": _RASTERIZE_BY_RAY for channels in CHANNELS},
    **{f"ray_shares_c{channels}": _RAY_SHARES for channels in CHANNELS},
    **{f"rasterize_by_ray_bwd_c{channels}": _RASTERIZE_BY_RAY_BWD for channels in CHANNELS},
    **{f"rasterize_by_ray_bwd_absolute_c{channels}": _RASTERIZE_BY_RAY_BWD for channels in CHANNELS},
}
_RASTER: dict[str, Fields] = {
    "prepare_splats": [
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
        ("depth_slopes", "ptr"),
        ("records", "ptr"),
        ("bounds", "ptr"),
        ("floors", "ptr"),
        ("tile_counts", "ptr"),
    ],
    "emit_pairs": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("key_bytes", "i32"),
        ("reserved", "i32"),
        ("records", "ptr"),
        ("bounds", "ptr"),
        ("order", "ptr"),
        ("pair_ends", "ptr"),
        ("keys", "ptr"),
        ("splats", "ptr"),
    ],
    "tile_ranges": [
        ("pairs", "i64"),
        ("tiles", "i32"),
        ("key_bytes", "i32"),
        ("keys", "ptr"),
        ("tile_starts", "ptr"),
    ],
    **{f"rasterize_fwd_c{channels}": _RASTERIZE_TILES for channels in CHANNELS},
    **{f"rasterize_bwd_c{channels}": _RASTERIZE_BUCKETS for channels in CHANNELS},
    **{f"rasterize_bwd_absolute_c{channels}": _RASTERIZE_BUCKETS for channels in CHANNELS},
    "finish_splats": [
        ("count", "i64"),
        ("channels", "i32"),
        ("reserved", "i32"),
        ("records", "ptr"),
        ("opacities", "ptr"),
        ("sums", "ptr"),
        ("v_means2d", "ptr"),
        ("v_conics", "ptr"),
        ("v_opacities", "ptr"),
        ("v_features", "ptr"),
        ("v_abs_means2d", "ptr"),
    ],
}

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
    **_RASTER,
    **_BY_RAY,
    "project_camera_bwd": [
        ("warps", "i64"),
        ("partial", "ptr"),
        ("v_viewmat", "ptr"),
        ("v_intrinsics", "ptr"),
    ],
    "sh_camera_bwd": [
        ("warps", "i64"),
        ("orthographic", "i32"),
        ("reserved", "i32"),
        ("partial", "ptr"),
        ("viewmat", "ptr"),
        ("v_viewmat", "ptr"),
    ],
    "project_colors_fwd": [
        ("count", "i64"),
        ("width", "i32"),
        ("height", "i32"),
        ("orthographic", "i32"),
        ("antialiased", "i32"),
        ("coefficients", "i32"),
        ("degree", "i32"),
        ("decode", "i32"),
        ("reserved", "i32"),
        ("dilation_px2", "scalar"),
        ("near_depth", "scalar"),
        ("means", "ptr"),
        ("log_scales", "ptr"),
        ("quats_wxyz", "ptr"),
        ("opacity_logits", "ptr"),
        ("sh", "ptr"),
        ("viewmat", "ptr"),
        ("intrinsics", "ptr"),
        ("means2d", "ptr"),
        ("depths", "ptr"),
        ("conics", "ptr"),
        ("opacities", "ptr"),
        ("normals", "ptr"),
        ("depth_slopes", "ptr"),
        ("radii", "ptr"),
        ("colors", "ptr"),
    ],
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
