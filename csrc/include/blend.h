// Per-pixel mathematics of the rasterizer: the footprint of a splat, front-to-back blending, and its adjoint.
//
// `M` is the arithmetic to use: M::V the number type (a scalar under CUDA, a vector of pixels on the CPU), M::Mask what a
// comparison gives, and the functions min, max, select, zero_unless, negative_magnitude, sqrt, exp2, reciprocal.
//
// Footprint. With d = pixel centre - mean, and the conic's Cholesky factor scaled to base-2 logarithms,
//     u = u_x dx + u_y dy,   v = v_y dy,   u^2 + v^2 = (log2 e / 2) d^T conic d,
// the unclamped alpha of a splat is 2^(log2 opacity - u^2 - v^2).
//
// Transmittance T carries the ray's state in its sign: positive while the ray goes on, negative (with the final
// magnitude) once it has ended.
#pragma once

#include "constants.h"
#include "macros.h"

SPLAT_BEGIN_ISA

constexpr double HALF_LOG2_E = 0.7213475204444817037;  // log2(e) / 2
constexpr double LN_2 = 0.693147180559945309417;
constexpr double LOG2_255 = 7.994353436858857937;  // -log2(ALPHA_MIN)

template <class V>
struct ConicFactor {
    V u_x, u_y, v_y;
};

// Cholesky factor of HALF_LOG2_E * [[a, b], [b, c]]; schur = c - b^2 / a, which callers compute in double because it
// cancels for needles. Undefined unless a > 0 and schur > 0.
template <class M>
SPLAT_FN ConicFactor<typename M::V> conic_factor(typename M::V a, typename M::V b, typename M::V schur) {
    using T = typename M::Scalar;
    const typename M::V u_x = M::sqrt(a * T(HALF_LOG2_E));
    const typename M::V v_y = M::sqrt(schur * T(HALF_LOG2_E));
    return {u_x, b * T(HALF_LOG2_E) / u_x, v_y};
}

// Alpha before the clamp, and 0 where the splat is skipped. The exponent decides, so that the test does not wait for the
// power; what exp2 makes of exponents beyond its range is never used.
template <class M>
SPLAT_FN typename M::V drawn_alpha(typename M::V log2_opacity, typename M::V u, typename M::V v) {
    using T = typename M::Scalar;
    const typename M::V exponent = log2_opacity - u * u - v * v;
    return M::zero_unless(exponent >= T(-LOG2_255), M::exp2(exponent));
}

template <class M>
struct Blend {
    typename M::V weight;         // alpha T where the splat is blended, else 0
    typename M::V next;           // T (1 - alpha); only of use where blended
    typename M::V transmittance;  // the new T, with the ray's state in its sign
};

// One splat in front of what follows: the decisions of DESIGN.md (clamp, skip, stop). `drawn` is its drawn_alpha.
template <class M>
SPLAT_FN Blend<M> blend(typename M::V drawn, typename M::V transmittance) {
    using T = typename M::Scalar;
    using V = typename M::V;
    const V alpha = M::min(drawn, M::broadcast(T(ALPHA_MAX)));
    const V weight = alpha * transmittance;
    const V next = transmittance - weight;
    // A skipped splat leaves T, which is above the limit, so it passes; an ended ray has T < 0 and never passes.
    const auto passes = next > T(TRANSMITTANCE_STOP);
    return {M::zero_unless(passes, weight), next,
            M::select(passes, next, M::negative_magnitude(transmittance))};
}

// dL/d(ln alpha) of a blended splat, 0 where it is not blended or alpha is clamped. `own` = features . dL/dimage;
// `behind` = what the splats behind it and the background add to the loss: total - prefix, this splat included.
template <class M>
SPLAT_FN typename M::V log_alpha_gradient(const Blend<M>& step, typename M::V drawn, typename M::V own,
                                          typename M::V behind) {
    using T = typename M::Scalar;
    // alpha / (1 - alpha) = weight / next; next is never 0: it stays above TRANSMITTANCE_STOP, or has an ended ray's T.
    const typename M::V gradient = step.weight * (own - behind * M::reciprocal(step.next));
    return M::zero_unless(drawn <= T(ALPHA_MAX), gradient);
}

SPLAT_END_ISA
