// Sums over the lanes of many vectors at once, by transposition: log2(lanes) rounds that each halve the number of vectors.
#pragma once

#include <utility>

#include "vec.h"

SPLAT_BEGIN_ISA

// Lane `lane` of a fold comes from vector a or b (their lanes numbered 0 to 2 LANES - 1), from the even or the odd ones
// among the groups of HALF lanes.
constexpr int fold_source(int lane, int half, int lanes, int odd) {
    const int group = lane / half;
    return (group % 2 ? lanes : 0) + group / 2 * 2 * half + odd * half + lane % half;
}

// Adds neighbouring groups of HALF lanes, and puts the sums of a and of b in turns.
template <class M, int HALF, int... Lane>
SPLAT_FN typename M::V fold(typename M::V a, typename M::V b, std::integer_sequence<int, Lane...>) {
    return __builtin_shufflevector(a, b, fold_source(Lane, HALF, M::LANES, 0)...) +
           __builtin_shufflevector(a, b, fold_source(Lane, HALF, M::LANES, 1)...);
}

// COUNT vectors of HALF-lane partial sums, at most 2 HALF of them, to one vector: lane k is the sum of vector k. The first
// round pairs vectors whose numbers differ in the highest bit, and its choice ends up as the highest bit of the lane.
template <class M, int HALF, int COUNT>
SPLAT_FN typename M::V fold_all(const typename M::V* vectors) {
    using V = typename M::V;
    constexpr auto LANE_NUMBERS = std::make_integer_sequence<int, M::LANES>{};
    constexpr int LEFT = COUNT < HALF ? COUNT : HALF;
    V folded[LEFT];
    for (int k = 0; k < LEFT; ++k)
        folded[k] = fold<M, HALF>(vectors[k], k + HALF < COUNT ? vectors[k + HALF] : V{}, LANE_NUMBERS);
    if constexpr (HALF == 1)
        return folded[0];
    else
        return fold_all<M, HALF / 2, LEFT>(folded);
}

// line[k] += sum over the lanes of sums[k], for k < COUNT. The line has room for whole vectors and is aligned to them.
template <class T, int COUNT>
SPLAT_FN void add_lane_sums(const typename Simd<T>::V* sums, T* line) {
    using M = Simd<T>;
    constexpr int PART = COUNT < M::LANES ? COUNT : M::LANES;
    M::store(line, M::load(line) + fold_all<M, M::LANES / 2, PART>(sums));
    if constexpr (COUNT > PART) add_lane_sums<T, COUNT - PART>(sums + PART, line + PART);
}

SPLAT_END_ISA
