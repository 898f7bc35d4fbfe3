// CUDA's built-ins for g++: with `-x c++ -include cuda_on_cpu.h` it compiles the unchanged sources of csrc/cuda.
//
// What has no meaning here is refused by the compiler (it is not defined) and not imitated: __activemask, whose answer no
// correct kernel may rest on, is left out on purpose. Names that begin with two underscores are CUDA's.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "scheduler.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __constant__ static const
// The shared variables of a library are its thread-local ones, one block of memory that the scheduler spoils before each
// block of threads. (g++ ignores a section for variables of templates.)
#define __shared__ thread_local
#define SPLAT_DYNAMIC_SHARED(name) unsigned char* const name = emulation::dynamic_shared_memory()

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define blockDim emulation::block_size
#define gridDim emulation::grid_size
constexpr int warpSize = 32;

// Per entry point: what the launcher calls, the size of its argument and the most threads of a block.
#define EMULATION_EXPORT extern "C" __attribute__((visibility("default")))
#define SPLAT_REGISTER_KERNEL(entry, Args, threads)                                                      \
    EMULATION_EXPORT void emulated_##entry(const void* args) { entry(*static_cast<const Args*>(args)); } \
    EMULATION_EXPORT int bytes_of_##entry() { return int(sizeof(Args)); }                                \
    EMULATION_EXPORT int threads_of_##entry() { return threads; }

namespace emulation {
static thread_local unsigned char shared_anchor;
}
EMULATION_EXPORT const unsigned char* emulation_anchor() {
    emulation::shared_anchor = 0;
    return &emulation::shared_anchor;
}

#define EMULATION_FN inline __attribute__((always_inline))
// Where the built-in stands in the kernel: default arguments are evaluated at the call.
#define EMULATION_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// ---- barriers ----

EMULATION_FN void __syncthreads(EMULATION_SITE) {
    emulation::block_barrier({"__syncthreads", file, line}, emulation::Vote::NONE, false);
}
EMULATION_FN int __syncthreads_count(int predicate, EMULATION_SITE) {
    return emulation::block_barrier({"__syncthreads_count", file, line}, emulation::Vote::COUNT,
                                    predicate != 0);
}
EMULATION_FN int __syncthreads_or(int predicate, EMULATION_SITE) {
    return emulation::block_barrier({"__syncthreads_or", file, line}, emulation::Vote::ANY, predicate != 0);
}
EMULATION_FN int __syncthreads_and(int predicate, EMULATION_SITE) {
    return emulation::block_barrier({"__syncthreads_and", file, line}, emulation::Vote::ALL, predicate != 0);
}
EMULATION_FN void __threadfence() { emulation::fence(); }
EMULATION_FN void __threadfence_block() { emulation::fence(); }

// ---- operations of a warp ----

namespace emulation {

template <class T>
EMULATION_FN uint64_t bits_of(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T>
EMULATION_FN T of_bits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

// A shuffle from `lane` (of the whole warp) where it is in this lane's part of `width` lanes, else of the own value.
template <class T>
EMULATION_FN T shuffle(Site site, unsigned mask, T value, int lane, int width) {
    if (width < 1 || width > 32 || (width & (width - 1)))
        fail("the width of a shuffle is a power of 2 up to 32");
    const int own = lane_index();
    const bool inside = lane >= own / width * width && lane < own / width * width + width;
    return of_bits<T>(
        warp_exchange(site, mask, bits_of(value), rule_lane, uint64_t(inside ? lane : own), false));
}

}  // namespace emulation

EMULATION_FN void __syncwarp(unsigned mask = 0xffffffffu, EMULATION_SITE) {
    emulation::warp_exchange({"__syncwarp", file, line}, mask, 0, emulation::rule_nothing, 0, true);
}
template <class T>
EMULATION_FN T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMULATION_SITE) {
    const int base = emulation::lane_index() / width * width;
    return emulation::shuffle({"__shfl_sync", file, line}, mask, value, base + (lane & (width - 1)), width);
}
template <class T>
EMULATION_FN T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATION_SITE) {
    const int lane = emulation::lane_index() - int(delta);
    return emulation::shuffle({"__shfl_up_sync", file, line}, mask, value, lane, width);
}
template <class T>
EMULATION_FN T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATION_SITE) {
    const int lane = emulation::lane_index() + int(delta);
    return emulation::shuffle({"__shfl_down_sync", file, line}, mask, value, lane, width);
}
template <class T>
EMULATION_FN T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMULATION_SITE) {
    const int lane = emulation::lane_index() ^ lanes;
    return emulation::shuffle({"__shfl_xor_sync", file, line}, mask, value, lane, width);
}
EMULATION_FN unsigned __ballot_sync(unsigned mask, int predicate, EMULATION_SITE) {
    return unsigned(emulation::warp_exchange({"__ballot_sync", file, line}, mask, predicate != 0,
                                             emulation::rule_ballot, 0, false));
}
EMULATION_FN int __any_sync(unsigned mask, int predicate, EMULATION_SITE) {
    return emulation::warp_exchange({"__any_sync", file, line}, mask, predicate != 0, emulation::rule_ballot,
                                    0, false) != 0;
}
EMULATION_FN int __all_sync(unsigned mask, int predicate, EMULATION_SITE) {
    return emulation::warp_exchange({"__all_sync", file, line}, mask, predicate != 0, emulation::rule_ballot,
                                    0, false) == mask;
}
template <class T>
EMULATION_FN unsigned __match_any_sync(unsigned mask, T value, EMULATION_SITE) {
    return unsigned(emulation::warp_exchange({"__match_any_sync", file, line}, mask,
                                             emulation::bits_of(value), emulation::rule_match, 0, false));
}

#define EMULATION_REDUCTION(name, T, rule)                                                     \
    EMULATION_FN T name(unsigned mask, T value, EMULATION_SITE) {                              \
        return T(emulation::warp_exchange({#name, file, line}, mask, uint64_t(int64_t(value)), \
                                          emulation::rule, 0, false));                         \
    }
EMULATION_REDUCTION(__reduce_add_sync, int, rule_add)
EMULATION_REDUCTION(__reduce_add_sync, unsigned, rule_add)
EMULATION_REDUCTION(__reduce_min_sync, int, rule_min_signed)
EMULATION_REDUCTION(__reduce_min_sync, unsigned, rule_min_unsigned)
EMULATION_REDUCTION(__reduce_max_sync, int, rule_max_signed)
EMULATION_REDUCTION(__reduce_max_sync, unsigned, rule_max_unsigned)
EMULATION_REDUCTION(__reduce_and_sync, unsigned, rule_and)
EMULATION_REDUCTION(__reduce_or_sync, unsigned, rule_or)
EMULATION_REDUCTION(__reduce_xor_sync, unsigned, rule_xor)
#undef EMULATION_REDUCTION

// ---- atomics; relaxed, as on a card: they order nothing but themselves ----

namespace emulation {

template <class T, class Update>
EMULATION_FN T atomically(T* address, Update update) {
    using Bits = typename std::conditional<sizeof(T) == 8, unsigned long long, unsigned>::type;
    auto* place = reinterpret_cast<Bits*>(address);
    Bits before = __atomic_load_n(place, __ATOMIC_RELAXED), after;
    do {
        after = Bits(bits_of(T(update(of_bits<T>(before)))));
    } while (!__atomic_compare_exchange_n(place, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return of_bits<T>(before);
}

}  // namespace emulation

#define EMULATION_ATOMIC(name, T, result)                                                                 \
    EMULATION_FN T name(T* address, T value) {                                                            \
        return emulation::atomically(address,                                                             \
                                     [value]([[maybe_unused]] T old) { return static_cast<T>(result); }); \
    }
#define EMULATION_ATOMIC_INTEGERS(name, result) \
    EMULATION_ATOMIC(name, int, result)         \
    EMULATION_ATOMIC(name, unsigned, result)    \
    EMULATION_ATOMIC(name, unsigned long long, result)
EMULATION_ATOMIC_INTEGERS(atomicAdd, old + value)
EMULATION_ATOMIC(atomicAdd, float, old + value)
EMULATION_ATOMIC(atomicAdd, double, old + value)
EMULATION_ATOMIC(atomicSub, int, old - value)
EMULATION_ATOMIC(atomicSub, unsigned, old - value)
EMULATION_ATOMIC_INTEGERS(atomicMax, old < value ? value : old)
EMULATION_ATOMIC(atomicMax, long long, old < value ? value : old)
EMULATION_ATOMIC_INTEGERS(atomicMin, value < old ? value : old)
EMULATION_ATOMIC(atomicMin, long long, value < old ? value : old)
EMULATION_ATOMIC_INTEGERS(atomicAnd, old& value)
EMULATION_ATOMIC_INTEGERS(atomicOr, old | value)
EMULATION_ATOMIC_INTEGERS(atomicXor, old ^ value)
EMULATION_ATOMIC_INTEGERS(atomicExch, value)
EMULATION_ATOMIC(atomicExch, float, value)
#undef EMULATION_ATOMIC_INTEGERS
#undef EMULATION_ATOMIC
#define EMULATION_SWAP(T)                                                                            \
    EMULATION_FN T atomicCAS(T* address, T expected, T value) {                                      \
        return emulation::atomically(address, [=](T old) { return old == expected ? value : old; }); \
    }
EMULATION_SWAP(int)
EMULATION_SWAP(unsigned)
EMULATION_SWAP(unsigned long long)
#undef EMULATION_SWAP

// ---- bits ----

EMULATION_FN int __popc(unsigned x) { return __builtin_popcount(x); }
EMULATION_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EMULATION_FN int __ffs(int x) { return __builtin_ffs(x); }
EMULATION_FN int __ffsll(long long x) { return __builtin_ffsll(x); }
EMULATION_FN int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
EMULATION_FN int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EMULATION_FN unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (x >> i & 1u) << (31 - i);
    return reversed;
}
EMULATION_FN unsigned __float_as_uint(float x) { return emulation::of_bits<unsigned>(emulation::bits_of(x)); }
EMULATION_FN int __float_as_int(float x) { return emulation::of_bits<int>(emulation::bits_of(x)); }
EMULATION_FN float __uint_as_float(unsigned x) { return emulation::of_bits<float>(emulation::bits_of(x)); }
EMULATION_FN float __int_as_float(int x) { return emulation::of_bits<float>(emulation::bits_of(x)); }
EMULATION_FN long long __double_as_longlong(double x) {
    return emulation::of_bits<long long>(emulation::bits_of(x));
}
EMULATION_FN double __longlong_as_double(long long x) {
    return emulation::of_bits<double>(emulation::bits_of(x));
}
template <class T>
EMULATION_FN T __ldg(const T* address) {
    return *address;
}

// ---- arithmetic; what <cmath> lacks ----

EMULATION_FN float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
EMULATION_FN double rsqrt(double x) { return 1.0 / std::sqrt(x); }
EMULATION_FN float __expf(float x) { return std::exp(x); }
EMULATION_FN float __logf(float x) { return std::log(x); }
EMULATION_FN float __log2f(float x) { return std::log2(x); }
EMULATION_FN float __powf(float x, float y) { return std::pow(x, y); }
EMULATION_FN float __fdividef(float x, float y) { return x / y; }
EMULATION_FN float __frcp_rn(float x) { return 1.0f / x; }
EMULATION_FN float __saturatef(float x) {
    return x < 1.0f ? (x > 0.0f ? x : 0.0f) : (x >= 1.0f ? 1.0f : 0.0f);
}
EMULATION_FN int __float2int_rd(float x) { return int(std::floor(x)); }
EMULATION_FN int __float2int_ru(float x) { return int(std::ceil(x)); }
EMULATION_FN int __float2int_rn(float x) { return int(std::nearbyint(x)); }
EMULATION_FN int __float2int_rz(float x) { return int(x); }

#define EMULATION_MIN_MAX(T)                               \
    EMULATION_FN T min(T a, T b) { return b < a ? b : a; } \
    EMULATION_FN T max(T a, T b) { return a < b ? b : a; }
EMULATION_MIN_MAX(int)
EMULATION_MIN_MAX(unsigned)
EMULATION_MIN_MAX(long)
EMULATION_MIN_MAX(unsigned long)
EMULATION_MIN_MAX(long long)
EMULATION_MIN_MAX(unsigned long long)
EMULATION_FN float min(float a, float b) { return std::fmin(a, b); }
EMULATION_FN float max(float a, float b) { return std::fmax(a, b); }
EMULATION_FN double min(double a, double b) { return std::fmin(a, b); }
EMULATION_FN double max(double a, double b) { return std::fmax(a, b); }
#undef EMULATION_MIN_MAX

// ---- vectors ----

#define EMULATION_VECTORS(T, name, bytes2, bytes4)                           \
    struct alignas(bytes2) name##2 { T x, y; };                              \
    struct name##3 { T x, y, z; };                                           \
    struct alignas(bytes4) name##4 { T x, y, z, w; };                        \
    EMULATION_FN name##2 make_##name##2(T x, T y) { return {x, y}; }         \
    EMULATION_FN name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    EMULATION_FN name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATION_VECTORS(float, float, 8, 16)
EMULATION_VECTORS(double, double, 16, 16)
EMULATION_VECTORS(int, int, 8, 16)
EMULATION_VECTORS(unsigned, uint, 8, 16)
EMULATION_VECTORS(long long, longlong, 16, 16)
#undef EMULATION_VECTORS

#undef EMULATION_SITE
#undef EMULATION_FN
