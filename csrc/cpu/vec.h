// Vectors of one register in GCC/clang vector extensions, and the few functions that the extensions lack.
//
// Simd<T> is the widest vector of T that the instruction set has; Simd<T, N> has N lanes. V and its comparison result
// Mask support + - * / < > & | ~ and `mask ? a : b` as the compilers define them, lane by lane.
#pragma once

#include <cstdint>
#include <cstring>

#include "../include/macros.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

SPLAT_BEGIN_ISA

#if defined(__AVX512F__)
constexpr int REGISTER_BYTES = 64;
#elif defined(__AVX2__)
constexpr int REGISTER_BYTES = 32;
#else
constexpr int REGISTER_BYTES = 16;
#endif

template <class T>
struct IntegerOf;
template <>
struct IntegerOf<float> {
    using type = int32_t;
    using bits = uint32_t;
};
template <>
struct IntegerOf<double> {
    using type = int64_t;
    using bits = uint64_t;
};

// N lanes of any number type. (A struct of its own: g++ takes a vector typedef inside a template for its scalar.)
template <class T, int N>
struct VectorOf {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};

template <class T, int N = REGISTER_BYTES / int(sizeof(T))>
struct Simd {
    using Scalar = T;
    using Int = typename IntegerOf<T>::type;
    static constexpr int LANES = N;
    using V = typename VectorOf<T, N>::type;
    using I = typename VectorOf<Int, N>::type;
    using Bits = typename VectorOf<typename IntegerOf<T>::bits, N>::type;
    // What a comparison of V gives: -1 or 0 in each lane.
    using Mask = I;

    static SPLAT_FN V broadcast(T x) { return x - V{}; }  // x - 0, which every compiler folds to a broadcast
    static SPLAT_FN V load(const T* from) {
        V v;
        std::memcpy(&v, from, sizeof v);
        return v;
    }
    static SPLAT_FN void store(T* to, V v) { std::memcpy(to, &v, sizeof v); }
    static SPLAT_FN V min(V a, V b) { return a < b ? a : b; }  // b where a is NaN
    static SPLAT_FN V max(V a, V b) { return a > b ? a : b; }  // b where a is NaN
    static SPLAT_FN V select(Mask mask, V a, V b) { return mask ? a : b; }
    static SPLAT_FN V zero_unless(Mask mask, V a) { return mask ? a : V{}; }
    // -|v|: the sign bit set
    static SPLAT_FN V negative_magnitude(V v) { return V(I(v) | (Int(1) << (8 * sizeof(T) - 1))); }

    static SPLAT_FN V sqrt(V v) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_sqrt)
        return __builtin_elementwise_sqrt(v);
#else
        return sqrt_by_lane(v);
#endif
#else
        return sqrt_by_lane(v);
#endif
    }
    static SPLAT_FN V sqrt_by_lane(V v) {
        for (int lane = 0; lane < N; ++lane) {
            if constexpr (sizeof(T) == 4)
                v[lane] = __builtin_sqrtf(v[lane]);
            else
                v[lane] = __builtin_sqrt(v[lane]);
        }
        return v;
    }

    // 1 / v to 2e-7 (float) or exactly rounded (double), for |v| in [1e-30, 1e30]: the CPU's estimate and one Newton
    // step, several times the rate of a division.
    static SPLAT_FN V reciprocal(V v) {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4 && sizeof(v) == 64)
            return refine_reciprocal(v, V(_mm512_rcp14_ps(__m512(v))));
#endif
#if defined(__AVX2__)
        if constexpr (sizeof(T) == 4 && sizeof(v) == 32)
            return refine_reciprocal(v, V(_mm256_rcp_ps(__m256(v))));
#endif
#if defined(__SSE2__)
        if constexpr (sizeof(T) == 4 && sizeof(v) == 16)
            return refine_reciprocal(v, V(_mm_rcp_ps(__m128(v))));
#endif
        return T(1) / v;
    }
    static SPLAT_FN V refine_reciprocal(V v, V estimate) {
        return estimate + estimate * (T(1) - v * estimate);
    }

    static SPLAT_FN bool any(Mask mask) {
#if defined(__AVX512F__)
        if constexpr (sizeof(mask) == 64) {
            if constexpr (sizeof(T) == 4) return _mm512_movepi32_mask(__m512i(mask)) != 0;
            return _mm512_movepi64_mask(__m512i(mask)) != 0;
        }
#endif
#if defined(__AVX2__)
        if constexpr (sizeof(mask) == 32) return !_mm256_testz_si256(__m256i(mask), __m256i(mask));
#endif
#if defined(__SSE2__)
        if constexpr (sizeof(mask) == 16) return _mm_movemask_epi8(__m128i(mask)) != 0;
#endif
        Int bits = 0;
        for (int lane = 0; lane < N; ++lane) bits |= mask[lane];
        return bits != 0;
    }

    // Lane by lane, the number at an index.
    static SPLAT_FN V gather(const T* from, I index) {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4 && N == 16) return V(_mm512_i32gather_ps(__m512i(index), from, 4));
#endif
        V v;
        for (int lane = 0; lane < N; ++lane) v[lane] = from[index[lane]];
        return v;
    }
    // The counterpart; no two lanes have the same index.
    static SPLAT_FN void scatter(T* to, I index, V v) {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4 && N == 16)
            return _mm512_i32scatter_ps(to, __m512i(index), __m512(v), 4);
#endif
        for (int lane = 0; lane < N; ++lane) to[index[lane]] = v[lane];
    }

    // 2^x for x in [-100, 100], relative error 2.2e-7 (float) or 3e-16 (double). x + MAGIC rounds x to an integer n,
    // which then stands in the low bits; 2^(x-n) is a polynomial, and n is added to its exponent. Any other x gives some
    // number: the addition of unsigned bits wraps.
    static SPLAT_FN V exp2(V x) {
        if constexpr (sizeof(T) == 4) {
            const V shifted = x + T(12582912.0);  // 1.5 * 2^23
            const V f = x - (shifted - T(12582912.0));
            // Minimax in relative error on [-1/2, 1/2], degree 5, 7.5e-8: Lawson's algorithm, 20001 Chebyshev nodes.
            V p = f * T(0.0013276471903734713) + T(0.009675541363620772);
            p = p * f + T(0.05550713274031736);
            p = p * f + T(0.2402211972330855);
            p = p * f + T(0.6931469670642707);
            p = p * f + T(1.0000000716547885);
            return V(Bits(p) + (Bits(shifted) << 23));
        } else {
            const V shifted = x + T(6755399441055744.0);  // 1.5 * 2^52
            const V f = x - (shifted - T(6755399441055744.0));
            // Taylor: the next term is (ln 2 / 2)^14 / 14! = 4e-18.
            constexpr double LN2 = 0.693147180559945309417;
            V p = broadcast(LN2 / 13);
            for (int k = 12; k >= 1; --k) p = (p * f + 1) * (LN2 / k);
            return V(Bits(p * f + 1) + (Bits(shifted) << 52));
        }
    }

    // log2 of a positive normal number, absolute error 2e-7 (float) or 1e-15 (double). x = m 2^e with m in
    // [1/sqrt 2, sqrt 2); log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.172.
    static SPLAT_FN V log2(V x) {
        constexpr int MANTISSA_BITS = sizeof(T) == 4 ? 23 : 52;
        constexpr Int SQRT_HALF = sizeof(T) == 4 ? Int(0x3f3504f3) : Int(0x3fe6a09e667f3bcdLL);
        const I e = (I(x) - SQRT_HALF) >> MANTISSA_BITS;
        const V m = V(I(x) - (e << MANTISSA_BITS));
        const V s = (m - 1) / (m + 1);
        const V square = s * s;
        constexpr int TERMS = sizeof(T) == 4 ? 5 : 11;  // 0.172^(2 TERMS + 1) / (2 TERMS + 1): 3e-10, 1e-19
        V series = broadcast(T(1) / (2 * TERMS - 1));
        for (int k = TERMS - 2; k >= 0; --k) series = series * square + T(1) / (2 * k + 1);
        return __builtin_convertvector(e, V) + s * series * T(2.885390081777926815);  // 2 / ln 2
    }
};

SPLAT_END_ISA
