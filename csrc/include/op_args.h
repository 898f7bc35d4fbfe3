// The argument structures of the ops whose CPU and CUDA implementations take the same: one template a structure over the
// scalar type (float, double). splat_engine/native/structs.py mirrors it field by field. All arrays are contiguous and
// row-major, in the memory of the device that computes; pointers may be null only where it says so.
#pragma once

#include "integers.h"

namespace splat {

// Splats to the screen; the meaning of the fields is that of splat_engine.ops.project.
template <class T>
struct ProjectFwdArgs {
    int64_t count;         // N splats
    int32_t width;         // px
    int32_t height;        // px
    int32_t orthographic;  // 0 or 1
    int32_t antialiased;   // 0 or 1
    T dilation_px2;
    T near_depth;             // scene units
    const T* means;           // [N,3] world
    const T* log_scales;      // [N,3]
    const T* quats_wxyz;      // [N,4] any norm
    const T* opacity_logits;  // [N]
    const T* viewmat;         // [4,4] camera_from_world, OpenCV axes
    const T* intrinsics;      // [4] fx, fy, cx, cy
    T* means2d;               // out [N,2] px
    T* depths;                // out [N]
    T* conics;                // out [N,3] px^-2
    T* opacities;             // out [N]
    T* normals;               // out [N,3] world, or null
    T* depth_slopes;          // out [N,2] scene units per px, or null
    T* radii;                 // out [N,2] px, 0 where culled
};

template <class T>
struct ProjectBwdArgs {
    int64_t count;
    int32_t width;
    int32_t height;
    int32_t orthographic;
    int32_t antialiased;
    T dilation_px2;
    T near_depth;
    const T* means;
    const T* log_scales;
    const T* quats_wxyz;
    const T* opacity_logits;
    const T* viewmat;
    const T* intrinsics;
    const T* radii;        // as the forward wrote them: 0 marks culled splats
    const T* v_means2d;    // [N,2] or null (zero), and so the next four
    const T* v_depths;     // [N]
    const T* v_conics;     // [N,3]; the second counts both off-diagonal entries
    const T* v_opacities;  // [N]
    const T* v_normals;    // [N,3]
    T* v_means;            // out [N,3]
    T* v_log_scales;       // out [N,3]
    T* v_quats_wxyz;       // out [N,4]
    T* v_opacity_logits;   // out [N]
    T* v_viewmat;          // out [4,4] (last row 0), or null
    T* v_intrinsics;       // out [4], or null
    double* partial;       // CUDA: [16, warps] sums of the camera's gradient, where that is wanted, else null
};

// Spherical harmonics to colours.
template <class T>
struct ShColorsFwdArgs {
    int64_t count;         // N splats
    int32_t coefficients;  // K, at least (degree + 1)^2
    int32_t degree;        // 0 to 3
    int32_t orthographic;
    int32_t decode;    // 1: sRGB values to linear light
    const T* means;    // [N,3]
    const T* sh;       // [N,K,3]
    const T* viewmat;  // [4,4]
    T* colors;         // out [N,3]
};

template <class T>
struct ShColorsBwdArgs {
    int64_t count;
    int32_t coefficients;
    int32_t degree;
    int32_t orthographic;
    int32_t decode;
    const T* means;
    const T* sh;
    const T* viewmat;
    const T* v_colors;  // [N,3]
    T* v_sh;            // out [N,K,3], or null; zero above the degree
    T* v_means;         // out [N,3], or null
    T* v_viewmat;       // out [4,4] (last row 0), or null
    double* partial;    // CUDA: [3, warps] sums of the camera's gradient, where that is wanted, else null
};

// Mean structural similarity of two images.
template <class T>
struct SsimFwdArgs {
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t valid;  // 1: only pixels whose window lies in the image; 0: zeros around the image
    T data_range;
    const T* image;   // [H,W,C]
    const T* target;  // [H,W,C]
    T* mean;          // out [1]
    T* maps;          // out [3,H,W,C], or null: what the backward needs
};

template <class T>
struct SsimBwdArgs {
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t valid;
    const T* image;
    const T* target;
    const T* maps;    // [3,H,W,C] of the forward
    const T* v_mean;  // [1]
    T* v_image;       // out [H,W,C]
};

// One step of the Adam optimiser, in place.
template <class T>
struct AdamStepArgs {
    int64_t rows;      // N
    int64_t row_size;  // numbers in a row
    T rate1;           // 1 - beta1
    T beta2;
    T rate2;  // 1 - beta2
    T eps;
    T step_size;             // learning rate / (1 - beta1^t)
    T inverse_root;          // 1 / sqrt(1 - beta2^t)
    const T* gradient;       // [N, row_size]
    const uint8_t* visible;  // [N], rows with 0 are left alone; or null: all rows
    T* parameter;            // in and out [N, row_size]
    T* exp_avg;              // in and out
    T* exp_avg_sq;           // in and out
};

// The comparison of a drawn picture with its target, and the gradient, in one call; the meaning of the fields is that of
// splat_engine.ops.photometric_loss.
template <class T>
struct PhotometricLossArgs {
    int32_t height;
    int32_t width;
    int32_t encode;  // 1: both pictures are linear light, and compared as sRGB values
    int32_t
        linear;  // 1: compared in linear light after all, as csrc/include/color.h weighs it; needs ssim_weight 0
    T l1_weight;
    T ssim_weight;  // 0: SSIM is not computed, and told as 0
    T mse_weight;
    T alpha_weight;
    const T* image;         // [H,W,3] drawn over the background
    const T* alpha;         // [H,W] drawn
    const T* target;        // [H,W,3] premultiplied
    const T* target_alpha;  // [H,W]
    const T* background;    // [3]
    const uint8_t* valid;   // [H,W], pixels with 0 count as equal; or null: all count
    T* figures;  // out [5]: loss, mean |difference|, mean SSIM, mean squared difference, mean |alpha's|
    T* v_image;  // out [H,W,3], or null together with v_alpha: no gradient
    T* v_alpha;  // out [H,W]
};

// The backward of project and of sh_colors, and Adam's update of all parameters of a splat, in one pass: the gradient of
// the parameters is never written. The meaning of the fields is that of splat_engine.ops.update_splats.
template <class T>
struct UpdateSplatsArgs {
    int64_t count;
    int32_t width;
    int32_t height;
    int32_t orthographic;
    int32_t antialiased;
    int32_t coefficients;
    int32_t degree;
    int32_t decode;
    int32_t sparse;  // 1: splats whose gradients from the screen are all 0 are left alone, moments included
    T dilation_px2;
    T near_depth;
    T rate1;  // as in AdamStepArgs, and so the next four
    T beta2;
    T rate2;
    T eps;
    T inverse_root;
    T step_means;  // learning rate / (1 - beta1^t), and so the next five
    T step_log_scales;
    T step_quats_wxyz;
    T step_opacity_logits;
    T step_sh_constant;  // of coefficient 0
    T step_sh;           // of the others
    const T* viewmat;
    const T* intrinsics;
    const T* radii;
    const T* v_means2d;         // [N,2] or null (zero), and so the next five
    const T* v_depths;          // [N]
    const T* v_conics;          // [N,3]
    const T* v_opacities;       // [N]
    const T* v_normals;         // [N,3]
    const T* v_colors;          // [N,3]
    const T* log_scale_floors;  // [N], below which no log-scale of an updated splat may end, or null
    T* means;                   // in and out [N,3], and so all that follow
    T* log_scales;              // [N,3]
    T* quats_wxyz;              // [N,4]
    T* opacity_logits;          // [N]
    T* sh;                      // [N,K,3]
    T* first_means;             // Adam's first moments, of the same shapes
    T* first_log_scales;
    T* first_quats_wxyz;
    T* first_opacity_logits;
    T* first_sh;
    T* second_means;  // and the second ones
    T* second_log_scales;
    T* second_quats_wxyz;
    T* second_opacity_logits;
    T* second_sh;
};

// Copies of splats that together draw what they drew; the meaning of the fields is that of splat_engine.ops.relocate.
template <class T>
struct RelocateArgs {
    int64_t count;          // N splats
    const T* opacities;     // [N]
    const T* scales;        // [N,3]
    const int32_t* counts;  // [N]
    T* new_opacities;       // out [N]
    T* new_scales;          // out [N,3]
};

}  // namespace splat
