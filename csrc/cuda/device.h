// What every kernel starts from: thread indices, the arithmetic of one pixel for blend.h, sums over a warp, and the macro
// that names a kernel.
//
// A kernel is a template over the scalar type that takes one structure of arguments. SPLAT_KERNEL makes its two entry
// points, NAME_f32 and NAME_f64, which is what the Python side launches (splat_engine/ops/_cuda). There is no other way in,
// so the same two names serve a card and the emulation on the CPU (tests/cuda/emulation).
#pragma once

#include "../include/blend.h"
#include "../include/integers.h"
#include "../include/scalar.h"

#define SPLAT_DEVICE __device__ __forceinline__
// Compiled once: whoever calls it with the same numbers gets the same bits, however the compiler contracts sums elsewhere.
#define SPLAT_DEVICE_CALL __device__ __noinline__

// The emulation registers each entry point with this hook; a card's compiler needs nothing.
#ifndef SPLAT_REGISTER_KERNEL
#define SPLAT_REGISTER_KERNEL(entry, Args, threads)
#endif

// A block's dynamic shared memory: `unsigned char name[]`, aligned for every number type.
#ifndef SPLAT_DYNAMIC_SHARED
#define SPLAT_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

// SPLAT_KERNEL(name, body<...>, Args, threads): entry points name_f32 and name_f64 that call body<float> and body<double>
// with blocks of `threads`. In float 512 threads are to find room on a multiprocessor, which leaves 128 registers to each:
// by itself a compiler takes some more here and there, and a quarter fewer threads then hide the waiting for memory. In
// double, which is for checking gradients, it may use as many as such a block may have.
#define SPLAT_KERNEL(name, body, Args, threads)                                                  \
    extern "C" __global__ void __launch_bounds__(threads, (threads) < 512 ? 512 / (threads) : 1) \
        name##_f32(const __grid_constant__ splat::Args<float> args) {                            \
        body<float>(args);                                                                       \
    }                                                                                            \
    SPLAT_REGISTER_KERNEL(name##_f32, splat::Args<float>, threads)                               \
    extern "C" __global__ void __launch_bounds__(threads)                                        \
        name##_f64(const __grid_constant__ splat::Args<double> args) {                           \
        body<double>(args);                                                                      \
    }                                                                                            \
    SPLAT_REGISTER_KERNEL(name##_f64, splat::Args<double>, threads)

SPLAT_BEGIN_ISA

constexpr int WARP = 32;
constexpr unsigned FULL_WARP = 0xffffffffu;

// Index of this thread in a one-dimensional grid.
SPLAT_DEVICE int64_t global_thread() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

// The arithmetic of one pixel, as blend.h wants it.
template <class T>
struct Lane {
    using V = T;
    using Scalar = T;
    using Mask = bool;
    static SPLAT_DEVICE T broadcast(T x) { return x; }
    // The other operand where one is NaN: one instruction on a card.
    static SPLAT_DEVICE float min(float a, float b) { return ::fminf(a, b); }
    static SPLAT_DEVICE double min(double a, double b) { return ::fmin(a, b); }
    static SPLAT_DEVICE float max(float a, float b) { return ::fmaxf(a, b); }
    static SPLAT_DEVICE double max(double a, double b) { return ::fmax(a, b); }
    static SPLAT_DEVICE T select(bool condition, T yes, T no) { return condition ? yes : no; }
    static SPLAT_DEVICE T zero_unless(bool condition, T value) { return condition ? value : T(0); }
    static SPLAT_DEVICE T negative_magnitude(T x) { return x < T(0) ? x : -x; }
    static SPLAT_DEVICE float sqrt(float x) { return ::sqrtf(x); }
    static SPLAT_DEVICE double sqrt(double x) { return ::sqrt(x); }
    static SPLAT_DEVICE float exp2(float x) { return ::exp2f(x); }
    static SPLAT_DEVICE double exp2(double x) { return ::exp2(x); }
    static SPLAT_DEVICE float log2(float x) { return ::log2f(x); }
    static SPLAT_DEVICE double log2(double x) { return ::log2(x); }
    // x y + z, rounded once: the same bits wherever it is compiled.
    static SPLAT_DEVICE float fused(float x, float y, float z) { return ::fmaf(x, y, z); }
    static SPLAT_DEVICE double fused(double x, double y, double z) { return ::fma(x, y, z); }
    // Within 2 units in the last place for 1e-30 < |x| < 1e30, without the branch of an exact division.
    static SPLAT_DEVICE float reciprocal(float x) { return __fdividef(1.0f, x); }
    static SPLAT_DEVICE double reciprocal(double x) { return 1.0 / x; }
};

// Sum over the warp, valid in lane 0. All lanes take part.
template <class T>
SPLAT_DEVICE T warp_sum(T value) {
    for (int offset = WARP / 2; offset > 0; offset /= 2) value += __shfl_down_sync(FULL_WARP, value, offset);
    return value;
}

SPLAT_END_ISA
