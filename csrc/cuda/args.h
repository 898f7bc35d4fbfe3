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

// ------------------------------------------------------------------------------------------ ssim.cu

// SsimFwdArgs, but for the mean.
template <class T>
struct SsimTilesArgs {
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t valid;
    T data_range;
    const T* image;
    const T* target;
    T* maps;  // out [3,C,H,W], or null
    T* sums;  // out [tiles]
};

template <class T>
struct SsimMeanArgs {
    int64_t tiles;
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t valid;
    const T* sums;  // [tiles]
    T* mean;        // out [1]
};

// ------------------------------------------------------------------------------------------ photometric.cu

// What the kernels of photometric.cu know of the op's arguments; each leaves some of it alone.
template <class T>
struct PhotometricArgs {
    int32_t height;
    int32_t width;
    int32_t encode;
    int32_t linear;
    T by_sign;        // weight of L1 / numbers: the gradient of |difference|, but for its sign
    T by_difference;  // 2 weight of the squared error / numbers
    T by_ssim;        // -weight of SSIM / numbers
    T by_alpha;       // weight of the alphas / pixels
    const T* image;   // as in PhotometricLossArgs, and so the next five
    const T* alpha;
    const T* target;
    const T* target_alpha;
    const T* background;
    const uint8_t* valid;
    T* maps;     // [3,3,H,W], or null: no gradient
    T* sums;     // out [blocks,4]
    T* v_image;  // out [H,W,3], or null together with v_alpha
    T* v_alpha;  // out [H,W]
};

template <class T>
struct PhotometricFiguresArgs {
    int64_t blocks;
    int32_t height;
    int32_t width;
    T l1_weight;
    T ssim_weight;
    T mse_weight;
    T alpha_weight;
    const T* sums;  // [blocks,4]
    T* figures;     // out [5]
};

}  // namespace splat
