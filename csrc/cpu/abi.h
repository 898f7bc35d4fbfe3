// The C ABI: the argument structures of every entry point, and the version that the Python side must agree with.
// Each op has one structure template over the scalar type (float, double); splat_engine/native/structs.py mirrors it
// field by field. All arrays are contiguous, row-major, on the host; pointers may be null only where it says so. The ops
// that CUDA has with the same arguments are in csrc/include/op_args.h.
#pragma once

#include <cstdint>

#include "../include/op_args.h"

namespace splat {

// Raise this number whenever a structure below or the meaning of a field changes; structs.py has the same number.
constexpr int32_t ABI_VERSION = 4;

// What an entry point returns. splat_last_error() has the text for the calling thread.
enum Status : int32_t {
    STATUS_OK = 0,
    STATUS_BAD_ARGUMENT = 1,
    STATUS_OUT_OF_MEMORY = 2,
    STATUS_UNSUPPORTED = 3
};

template <class T>
struct RasterizeFwdArgs {
    int64_t count;       // N splats
    int32_t width;       // px
    int32_t height;      // px
    int32_t channels;    // C, 1 or more
    int32_t reserved;    // 0
    const T* means2d;    // [N,2] px
    const T* conics;     // [N,3] a, b, c of the inverse 2D covariance, px^-2
    const T* opacities;  // [N]
    const T* features;   // [N,C]
    const T* depths;     // [N]
    const T*
        depth_slopes;  // [N,2] per px: each pixel in its own order; or null: all in the order of the depths
    const T* background;  // [C] or null (zero)
    T* image;             // out [H,W,C]
    T* alpha;             // out [H,W]
    void** context;       // out, or null: what the backward needs; give it back with splat_context_free
};

template <class T>
struct RasterizeBwdArgs {
    int64_t count;
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t reserved;
    const T* means2d;
    const T* conics;
    const T* opacities;
    const T* features;
    const T* background;  // [C] or null
    const T* image;       // [H,W,C] as the forward wrote it
    const T* alpha;       // [H,W] as the forward wrote it
    const T* v_image;     // [H,W,C] dL/dimage
    const T* v_alpha;     // [H,W] dL/dalpha or null (zero)
    const void* context;  // of the forward with the same inputs; only read
    T* v_means2d;         // out [N,2], overwritten
    T* v_conics;          // out [N,3], overwritten
    T* v_opacities;       // out [N], overwritten
    T* v_features;        // out [N,C], overwritten
    T* v_background;      // out [C] or null, overwritten
    T* v_abs_means2d;     // out [N,2] or null: sums over pixels of |dL/dmeans2d|, overwritten
};

// A whole training step against one picture: project_fwd, sh_colors_fwd, rasterize_fwd, photometric_loss, rasterize_bwd and
// update_splats, one after the other, with memory that the next step reuses. The bits are those of the six calls. Where the
// loss is not finite, nothing is updated. What the six make for each other is not read from `update` and `loss`: radii and
// gradients of the screen, the drawn picture and its gradient.
template <class T>
struct TrainStepArgs {
    const UpdateSplatsArgs<T>* update;
    const PhotometricLossArgs<T>* loss;
    T* radii;          // out [N,2] px, 0 where culled
    T* v_means2d;      // out [N,2]
    T* v_abs_means2d;  // out [N,2], as in RasterizeBwdArgs, or null
    int32_t by_ray;    // 1: each pixel in its own order
    int32_t reserved;  // 0
};

// For measuring: what a forward did. The index of each count in RasterCountsArgs::counts.
enum RasterCount : int32_t {
    COUNT_PAIRS,          // (splat, tile) pairs that binning made
    COUNT_WORK,           // blocks evaluated + pairs visited, as the forward counted them
    COUNT_LANES,          // pixels of a block
    COUNT_BIN_NS,         // time of sorting and binning
    COUNT_BLEND_NS,       // time of blending
    COUNT_VISITED_PAIRS,  // pairs up to where all rays of their tile have ended; from a replay, as the next two
    COUNT_BLOCKS,         // blocks evaluated
    COUNT_BLENDED,        // (pixel, splat) pairs that were blended
    RASTER_COUNTS
};

template <class T>
struct RasterCountsArgs {
    const void* context;  // of a forward with this scalar type; only read
    int32_t replay;       // 0: the last three counts are 0; 1: they are made, at the cost of a forward
    int32_t reserved;     // 0
    int64_t* counts;      // out [RASTER_COUNTS]
};

// For measuring: multiply-adds at the rate of the arithmetic units, in registers, on all threads.
template <class T>
struct PeakFmaArgs {
    int64_t rounds;  // of a thread: one multiply-add of each of its registers
    T factor;        // of the multiply-adds; below 1 in magnitude, so that all numbers stay finite
    T addend;
    int64_t* operations;  // out [1] additions and multiplications of all threads
    T* sum;               // out [1] of the registers of the first thread
};

}  // namespace splat
