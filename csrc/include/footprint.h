// Where a splat can be seen: the ellipse alpha >= ALPHA_MIN, the cells of a grid that it touches, and from the sums of a
// backward pass the gradients of the splat. `M` is as in blend.h, and u, v, u_x, u_y, v_y are those of its head.
//
// The ellipse is u^2 + v^2 <= log2 opacity + LOG2_255. All tests err on the side of touching, by more than what rounding can
// do to the exponent of a pixel, so culling never changes an image.
//
// Sources: the extent by opacity is 3DGS' with the true threshold; exact tests of an ellipse against tiles are in Radl et al.
// 2024, "StopThePop", Feng et al. 2024, "FlashGS" and Hanson et al. 2025, "Speedy-Splat"; the closed form here is our own.
#pragma once

#include "blend.h"

SPLAT_BEGIN_ISA

template <class M>
struct Extent {
    using V = typename M::V;
    V reach_squared;     // u^2 + v^2 at alpha = ALPHA_MIN, a little more
    V reach_x, reach_y;  // px from the mean to where the ellipse ends
    V extreme_y;         // dy where the right border is farthest out; the left one's is -extreme_y
    V pad_x, pad_y;      // px that rounding can shift
};

// u^2 + v^2 on the border, enlarged by more than the rounding of the loops over pixels.
template <class M>
SPLAT_FN typename M::V reach_squared(typename M::V log2_opacity) {
    using T = typename M::Scalar;
    return M::max(log2_opacity + T(LOG2_255), typename M::V{}) * T(1 + 1e-5) + T(1e-4);
}

// Not finite for a splat too large for T: the tests below then take it as touching everything.
template <class M>
SPLAT_FN Extent<M> splat_extent(typename M::V mean_x, typename M::V mean_y,
                                const ConicFactor<typename M::V>& factor, typename M::V log2_opacity) {
    using T = typename M::Scalar;
    using V = typename M::V;
    Extent<M> extent;
    extent.reach_squared = reach_squared<M>(log2_opacity);
    const V reach = M::sqrt(extent.reach_squared);
    const V slope = M::sqrt(factor.u_y * factor.u_y + factor.v_y * factor.v_y);
    extent.reach_y = reach / factor.v_y;
    extent.reach_x = extent.reach_y * slope / factor.u_x;
    // What rounding can shift in px: coordinates in the image, and u where u_x dx and u_y dy cancel.
    constexpr T ROUNDING = T(8) * (sizeof(T) == 4 ? T(1.2e-7) : T(2.3e-16));
    extent.pad_y = (M::max(mean_y, -mean_y) + extent.reach_y) * ROUNDING;
    const V shear = factor.u_y * extent.reach_y / factor.u_x;
    extent.pad_x = (M::max(mean_x, -mean_x) + extent.reach_x + M::max(shear, -shear)) * ROUNDING;
    extent.extreme_y = -factor.u_y * extent.reach_y / slope;
    return extent;
}

// Index of the cell of `size` px that holds a coordinate in px, as a number in [0, cells), not yet rounded down.
template <class M>
SPLAT_FN typename M::V cell_of(typename M::V pixel, int size, int cells) {
    using T = typename M::Scalar;
    return M::min(M::max(pixel * (T(1) / T(size)), typename M::V{}), M::broadcast(T(cells - 1)));
}

// Of one splat what a row of cells asks for: numbers, where M may be wide (a row a lane).
template <class T>
struct RowCover {
    T mean_x, u_y, v_y, inverse_u_x;
    T reach_squared;
    T reach_y;  // px, padded
    T extreme_y, pad_x;
};

// Farthest x of one side (1 right, -1 left) of the ellipse, relative to the mean, over dy in [low, high].
template <class M>
SPLAT_FN typename M::V ellipse_border(const RowCover<typename M::Scalar>& splat, typename M::V low,
                                      typename M::V high, typename M::Scalar side) {
    using V = typename M::V;
    const V dy = M::min(M::max(M::broadcast(side * splat.extreme_y), low), high);
    const V v = dy * splat.v_y;
    const V u = M::sqrt(M::max(splat.reach_squared - v * v, V{})) * side;
    return (u - splat.u_y * dy) * splat.inverse_u_x;
}

template <class M>
struct TouchedCells {
    typename M::V first, end;  // half open, in [0, cells]; not yet rounded down
    typename M::Mask inside;   // false: none, whatever first and end say
};

// The cells of a row that an ellipse touches. top and bottom: the row's first and last pixel centres, relative to the mean.
template <class M>
SPLAT_FN TouchedCells<M> touched_cells(const RowCover<typename M::Scalar>& splat, typename M::V top,
                                       typename M::V bottom, typename M::Scalar cell_width, int cells) {
    using T = typename M::Scalar;
    using V = typename M::V;
    const V low = M::max(top, M::broadcast(-splat.reach_y)),
            high = M::min(bottom, M::broadcast(splat.reach_y));
    const V right = ellipse_border<M>(splat, low, high, T(1)) + splat.pad_x;
    const V left = ellipse_border<M>(splat, low, high, T(-1)) - splat.pad_x;
    // Cell b holds pixel centres from width b + 0.5 to width (b + 1) - 0.5; the number of cells that begin at or before x is
    // floor((x - 0.5) / width + 1). Clamped so that NaN means all cells.
    const V columns = M::broadcast(T(cells));
    const V before = (splat.mean_x + left - (cell_width - T(0.5))) * (T(1) / cell_width) + T(1);
    const V upto = (splat.mean_x + right - T(0.5)) * (T(1) / cell_width) + T(1);
    return {M::min(M::max(before, V{}), columns), M::max(M::min(upto, columns), V{}), low <= high};
}

// What the test of an ellipse against rectangles asks for.
template <class M>
struct RectangleTest {
    typename M::V pad;       // px that rounding can shift
    typename M::V dx_by_dy;  // slope of the line where u^2 + v^2 is least for a given dy
    typename M::V dy_by_dx;  // and for a given dx
};

template <class M>
SPLAT_FN RectangleTest<M> rectangle_test(typename M::V mean_x, typename M::V mean_y,
                                         const ConicFactor<typename M::V>& factor,
                                         typename M::V log2_opacity) {
    using V = typename M::V;
    const Extent<M> extent = splat_extent<M>(mean_x, mean_y, factor, log2_opacity);
    const V slope_squared = factor.u_y * factor.u_y + factor.v_y * factor.v_y;
    return {M::max(extent.pad_x, extent.pad_y), -factor.u_y / factor.u_x,
            -factor.u_x * factor.u_y / slope_squared};
}

// Whether an ellipse touches the rectangle [left, right] x [top, bottom], relative to its mean. u^2 + v^2 is convex, so on the
// way from its least point in the rectangle to the mean it falls: that point lies on a side that faces the mean, and it is
// the least one of that side. Two sides at most face the mean; where none does, both candidates are the mean itself.
template <class M>
SPLAT_FN typename M::Mask touches_rectangle(const RectangleTest<M>& test,
                                            const ConicFactor<typename M::V>& factor,
                                            typename M::V reach_squared, typename M::V left,
                                            typename M::V right, typename M::V top, typename M::V bottom) {
    using V = typename M::V;
    left = left - test.pad;
    right = right + test.pad;
    top = top - test.pad;
    bottom = bottom + test.pad;
    const V near_x = M::min(M::max(V{}, left), right), near_y = M::min(M::max(V{}, top), bottom);
    const V beside_y = M::min(M::max(test.dy_by_dx * near_x, top), bottom);
    const V beside_x = M::min(M::max(test.dx_by_dy * near_y, left), right);
    const V u0 = factor.u_x * near_x + factor.u_y * beside_y, v0 = factor.v_y * beside_y;
    const V u1 = factor.u_x * beside_x + factor.u_y * near_y, v1 = factor.v_y * near_y;
    return M::min(u0 * u0 + v0 * v0, u1 * u1 + v1 * v1) <= reach_squared;
}

// Derivative sums of one splat over pixels, one line of a gradient buffer. With q = ln alpha and g = dL/dq of a pixel,
// dL/du = -2 ln2 g u and dL/dv = -2 ln2 g v: hence these sums. The last two are of absolute values: g u, and u_y g u + v_y g v.
enum RasterSum {
    SUM_G,
    SUM_GU,
    SUM_GV,
    SUM_GUU,
    SUM_GUV,
    SUM_GVV,
    SUM_FEATURES,
    SUM_ABSOLUTE_X = SUM_FEATURES + 8,
    SUM_ABSOLUTE_Y,
    SUM_LINE
};

template <class T>
struct SplatGradient {
    T mean[2], conic[3], opacity;
};

// Gradients of a splat's mean, conic and opacity from its line of sums. Zero sums give zeros, so that nothing is asked of a
// splat that was dropped (its factor is undefined).
template <class T>
SPLAT_FN SplatGradient<T> splat_gradient(const ConicFactor<T>& factor, T opacity, const T* sum) {
    if (sum[SUM_G] == 0 && sum[SUM_GUU] == 0 && sum[SUM_GVV] == 0)
        return {{T(0), T(0)}, {T(0), T(0), T(0)}, T(0)};
    SplatGradient<T> v;
    v.opacity = sum[SUM_G] / opacity;
    v.mean[0] = T(2 * LN_2) * factor.u_x * sum[SUM_GU];
    v.mean[1] = T(2 * LN_2) * (factor.u_y * sum[SUM_GU] + factor.v_y * sum[SUM_GV]);
    // dx = (u - shear v) / u_x, dy = v / v_y; in double, since the terms cancel for needles
    const double u_x = factor.u_x, v_y = factor.v_y, shear = double(factor.u_y) / v_y;
    const double guu = sum[SUM_GUU], guv = sum[SUM_GUV], gvv = sum[SUM_GVV];
    v.conic[0] = T(-0.5 * (guu - 2 * shear * guv + shear * shear * gvv) / (u_x * u_x));
    v.conic[1] = T(-(guv - shear * gvv) / (u_x * v_y));
    v.conic[2] = T(-0.5 * gvv / (v_y * v_y));
    return v;
}

// Sums over pixels of |dL/dmean|, each component by itself: what AbsGS (Ye et al. 2024) decides by. Zero sums give zeros.
template <class T>
SPLAT_FN void absolute_mean_gradient(const ConicFactor<T>& factor, const T* sum, T* v_absolute) {
    const bool any = sum[SUM_ABSOLUTE_X] != 0 || sum[SUM_ABSOLUTE_Y] != 0;
    v_absolute[0] = any ? T(2 * LN_2) * factor.u_x * sum[SUM_ABSOLUTE_X] : T(0);
    v_absolute[1] = any ? T(2 * LN_2) * sum[SUM_ABSOLUTE_Y] : T(0);
}

SPLAT_END_ISA
