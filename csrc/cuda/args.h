// The argument structures of kernels whose fields no CPU op has: one template a structure, as in csrc/include/op_args.h.
// splat_engine/ops/_cuda/structs.py mirrors it field by field.
#pragma once

#include "../include/op_args.h"

namespace splat {

// ------------------------------------------------------------------------------------------ project.cu, sh.cu

// The sums of project_bwd's warps to the camera's gradient.
template <class T>
struct ProjectCameraBwdArgs {
    int64_t warps;
    const double* partial;  // [16, warps]
    T* v_viewmat;           // out [4,4], or null
    T* v_intrinsics;        // out [4], or null
};

// The sums of sh_colors_bwd's warps to the camera's gradient.
template <class T>
struct ShCameraBwdArgs {
    int64_t warps;
    int32_t orthographic;
    int32_t reserved;       // 0
    const double* partial;  // [3, warps]
    const T* viewmat;       // [4,4]
    T* v_viewmat;           // out [4,4]
};

// ProjectFwdArgs and ShColorsFwdArgs in one.
template <class T>
struct ProjectColorsFwdArgs {
    int64_t count;
    int32_t width;
    int32_t height;
    int32_t orthographic;
    int32_t antialiased;
    int32_t coefficients;
    int32_t degree;
    int32_t decode;
    int32_t reserved;  // 0
    T dilation_px2;
    T near_depth;
    const T* means;
    const T* log_scales;
    const T* quats_wxyz;
    const T* opacity_logits;
    const T* sh;
    const T* viewmat;
    const T* intrinsics;
    T* means2d;
    T* depths;
    T* conics;
    T* opacities;
    T* normals;  // or null
    T* radii;
    T* colors;  // 0 where culled
};

}  // namespace splat
