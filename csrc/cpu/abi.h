// The C ABI: the argument structures of every entry point, and the version that the Python side must agree with.
// Each op has one structure template over the scalar type (float, double); splat_engine/native/structs.py mirrors it
// field by field. All arrays are contiguous, row-major, on the host; pointers may be null only where it says so.
#pragma once

#include <cstdint>

namespace splat {

// Raise this number whenever a structure below or the meaning of a field changes; structs.py has the same number.
constexpr int32_t ABI_VERSION = 1;

// What an entry point returns. splat_last_error() has the text for the calling thread.
enum Status : int32_t { STATUS_OK = 0, STATUS_BAD_ARGUMENT = 1, STATUS_OUT_OF_MEMORY = 2, STATUS_UNSUPPORTED = 3 };

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
    const T* background; // [C] or null (zero)
    T* image;            // out [H,W,C]
    T* alpha;            // out [H,W]
    void** context;      // out, or null: what the backward needs; give it back with splat_context_free
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
};

}  // namespace splat
