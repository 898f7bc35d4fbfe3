// The table of kernels, one for each instruction set, and the services that kernels may use.
//
// TO ADD AN OP (say "foo_fwd"):
//   1. csrc/cpu/abi.h: `template <class T> struct FooFwdArgs { ... };`
//   2. here: one line `X(foo_fwd, FooFwdArgs)` in SPLAT_KERNELS. Table, dispatch and the exported entry points
//      splat_foo_fwd_f32 / splat_foo_fwd_f64 follow from it.
//   3. csrc/cpu/foo_kernel.cpp (any file named *_kernel.cpp is compiled once for each instruction set):
//          #include "kernels.h"
//          SPLAT_BEGIN_ISA
//          namespace { template <class T> int run_foo_fwd(const FooFwdArgs<T>& args) { ...; return STATUS_OK; } }
//          int foo_fwd(const FooFwdArgs<float>& args) { return run_foo_fwd(args); }
//          int foo_fwd(const FooFwdArgs<double>& args) { return run_foo_fwd(args); }
//          SPLAT_END_ISA
//   4. splat_engine/native/structs.py: the same fields, in the same order, in OPS.
//   5. splat_engine/native/foo.py: numpy in, numpy out; ops/foo.py: torch. Both go through native.library.call().
//
// Rules for *_kernel.cpp and csrc/include: everything between SPLAT_BEGIN_ISA and SPLAT_END_ISA; no exceptions (they are
// switched off); no std:: templates or inline functions that the linker could share between instruction sets
// (use __builtin_sqrt, __builtin_exp, ...); memory through Buffer; at most ~200 KB of stack in a worker thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../include/macros.h"
#include "abi.h"

#define SPLAT_KERNELS(X)                     \
    X(rasterize_fwd, RasterizeFwdArgs)       \
    X(rasterize_bwd, RasterizeBwdArgs)       \
    X(project_fwd, ProjectFwdArgs)           \
    X(project_bwd, ProjectBwdArgs)           \
    X(sh_colors_fwd, ShColorsFwdArgs)        \
    X(sh_colors_bwd, ShColorsBwdArgs)        \
    X(ssim_fwd, SsimFwdArgs)                 \
    X(ssim_bwd, SsimBwdArgs)                 \
    X(adam_step, AdamStepArgs)               \
    X(photometric_loss, PhotometricLossArgs) \
    X(update_splats, UpdateSplatsArgs)       \
    X(train_step, TrainStepArgs)             \
    X(relocate, RelocateArgs)                \
    X(raster_counts, RasterCountsArgs)       \
    X(peak_fma, PeakFmaArgs)

namespace splat {

struct KernelTable {
    const char* name;
#define X(op, Args)                      \
    int (*op##_f32)(const Args<float>&); \
    int (*op##_f64)(const Args<double>&);
    SPLAT_KERNELS(X)
#undef X
};

// Sets the calling thread's error text (printf format) and returns `status`, so: `return fail(STATUS_..., "...")`.
int fail(Status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Number of threads that parallel work uses, as set by splat_set_num_threads. It does not change during a call.
int thread_count();

// Calls task(user, thread, threads) once for each thread in [0, threads), on as many threads, and waits for all.
// One job at a time: callers on other threads wait. Inside a worker it runs the parts one after the other.
void run_on_threads(int threads, void (*task)(void* user, int thread, int threads), void* user);

// A clock that only goes forward, ns; a call costs some 50 ns.
int64_t now_ns();

// 64-byte aligned memory; null when there is none.
void* allocate(size_t bytes);
void deallocate(void* memory);

}  // namespace splat

SPLAT_BEGIN_ISA

// The kernels of this instruction set.
#define X(op, Args)             \
    int op(const Args<float>&); \
    int op(const Args<double>&);
SPLAT_KERNELS(X)
#undef X

// Runs body(thread, threads) on `threads` threads. body is a lambda that must not return early on errors of others.
template <class Body>
inline void on_threads(int threads, Body&& body) {
    run_on_threads(threads, [](void* user, int thread, int count) {
        (*static_cast<Body*>(user))(thread, count);
    }, const_cast<void*>(static_cast<const void*>(&body)));
}

// Static split of [0, count): part `thread` of `threads` gets [begin, end), the same for the same numbers, always.
struct Range {
    int64_t begin, end;
};
inline Range split(int64_t count, int thread, int threads, int64_t granule = 1) {
    const int64_t units = (count + granule - 1) / granule;
    const int64_t first = units * thread / threads * granule, last = units * (thread + 1) / threads * granule;
    return {first < count ? first : count, last < count ? last : count};
}

// body(begin, end, thread) over [0, count), split statically over all threads. Small counts run on the caller.
template <class Body>
inline void parallel_for(int64_t count, int64_t least_per_thread, Body&& body) {
    const int64_t useful = count / (least_per_thread > 0 ? least_per_thread : 1);
    const int threads = useful < 1 ? 1 : useful < thread_count() ? int(useful) : thread_count();
    on_threads(threads, [&](int thread, int parts) {
        const Range range = split(count, thread, parts);
        body(range.begin, range.end, thread);
    });
}

// Aligned memory for one call: freed when it goes out of scope. Contents are not initialised.
template <class T>
struct Buffer {
    T* data = nullptr;
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { deallocate(data); }
    // False when memory has run out.
    bool resize(int64_t count) {
        deallocate(data);
        data = static_cast<T*>(allocate(size_t(count > 0 ? count : 1) * sizeof(T)));
        return data != nullptr;
    }
    T& operator[](int64_t index) { return data[index]; }
};

SPLAT_END_ISA
