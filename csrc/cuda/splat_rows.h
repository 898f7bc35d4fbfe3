// Splats between memory and the formulas of csrc/include: what project.cu, sh.cu and update.cu share.
//
// A splat's few numbers are read by its own thread: a warp's reads of rows of three or four lie in the same lines of memory,
// which the first-level cache holds meanwhile. Rows of spherical harmonics are too long for that (192 bytes a splat, 6 KB a
// warp). A warp goes through them as what they are, one run of memory, 128 bytes a request, and turns them in shared memory:
// element by element outside, a row a lane inside. Rows there begin an odd number of numbers apart, so neither way do two
// lanes meet in a bank. (Requests of four numbers a lane would move the same lines and meet four-fold on the inner side.)
#pragma once

#include "../include/camera.h"
#include "../include/sh_color.h"
#include "device.h"

SPLAT_BEGIN_ISA

SPLAT_DEVICE int lane_of_warp() { return int(threadIdx.x) % WARP; }
SPLAT_DEVICE int warp_of_block() { return int(threadIdx.x) / WARP; }

template <class T>
SPLAT_DEVICE Vector3<T> load_vector(const T* rows, int64_t i) {
    return {rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]};
}
template <class T>
SPLAT_DEVICE void store_vector(const Vector3<T>& v, T* rows, int64_t i) {
    rows[3 * i] = v.x;
    rows[3 * i + 1] = v.y;
    rows[3 * i + 2] = v.z;
}

// Of any argument structure with the fields of project.
template <class T, class Args>
SPLAT_DEVICE Splat<T> load_splat(const Args& args, int64_t i) {
    const T* q = args.quats_wxyz + 4 * i;
    return {load_vector(args.means, i),
            load_vector(args.log_scales, i),
            {q[0], q[1], q[2], q[3]},
            args.opacity_logits[i]};
}

template <class T, class Args>
SPLAT_DEVICE void store_screen(const Args& args, int64_t i, const ScreenSplat<T>& screen) {
    args.means2d[2 * i] = screen.mean_x;
    args.means2d[2 * i + 1] = screen.mean_y;
    args.depths[i] = screen.depth;
    store_vector({screen.conic_xx, screen.conic_xy, screen.conic_yy}, args.conics, i);
    args.opacities[i] = screen.opacity;
    if (args.normals) store_vector(screen.normal, args.normals, i);
    if (args.depth_slopes) {
        args.depth_slopes[2 * i] = screen.slope_x;
        args.depth_slopes[2 * i + 1] = screen.slope_y;
    }
    args.radii[2 * i] = screen.radius_x;
    args.radii[2 * i + 1] = screen.radius_y;
}

// Gradients that arrive from the screen; those that are null count as zero.
template <class T, class Args>
SPLAT_DEVICE ScreenSplat<T> load_screen_gradient(const Args& args, int64_t i) {
    const T zero = T(0);
    ScreenSplat<T> v = {zero, zero, zero, zero, zero, zero, zero, {zero, zero, zero}, zero, zero, zero, zero};
    if (args.v_means2d) {
        v.mean_x = args.v_means2d[2 * i];
        v.mean_y = args.v_means2d[2 * i + 1];
    }
    if (args.v_depths) v.depth = args.v_depths[i];
    if (args.v_conics) {
        v.conic_xx = args.v_conics[3 * i];
        v.conic_xy = args.v_conics[3 * i + 1];
        v.conic_yy = args.v_conics[3 * i + 2];
    }
    if (args.v_opacities) v.opacity = args.v_opacities[i];
    if (args.v_normals) v.normal = load_vector(args.v_normals, i);
    return v;
}

// -----------------------------------------------------------------------------------------------------------
// Rows in shared memory

constexpr int ROW_MAX = 3 * SH_COUNT_MAX;        // numbers of the longest row
constexpr int TILE_SIZE = WARP * (ROW_MAX | 1);  // numbers of shared memory that a warp needs for its rows

// Rows of `size` numbers that lie `pitch` apart in shared memory. Numbers are counted row by row, without what is between.
struct RowShape {
    int size, pitch;
    unsigned
        reciprocal;  // 2^20 / size, rounded up: exact for the numbers of a warp, which are fewer than 2^20 / size

    SPLAT_DEVICE int row(int number) const { return int((unsigned(number) * reciprocal) >> 20); }
    SPLAT_DEVICE int place(int number, int row) const { return number + row * (pitch - size); }
};

SPLAT_DEVICE RowShape row_shape(int size, int pitch) {
    return {size, pitch, ((1u << 20) + unsigned(size) - 1) / unsigned(size)};
}

// The coefficients that a degree uses: 3, 12, 27 or 48 numbers.
SPLAT_DEVICE RowShape coefficient_rows(int degree) {
    const int size = 3 * (degree + 1) * (degree + 1);
    return row_shape(size, size | 1);
}

// Brings the rows of the lanes in `wanted` into shared memory. The warp's first row begins at `run`; rows are `stride`
// apart there. All lanes take part.
template <class T>
SPLAT_DEVICE void stage_rows(const T* run, int stride, const RowShape& shape, unsigned wanted, T* tile) {
#pragma unroll 8
    for (int i = lane_of_warp(); i < WARP * shape.size; i += WARP) {
        const int row = shape.row(i);
        if (wanted >> row & 1) tile[shape.place(i, row)] = run[i + row * (stride - shape.size)];
    }
    __syncwarp();
}

// A splat's colour from its row of coefficients.
template <int DEGREE, class T>
SPLAT_DEVICE Vector3<T> color_of(const ViewPoint<T>& view, const Vector3<T>& mean, bool decode,
                                 const T* row) {
    constexpr int COUNT = (DEGREE + 1) * (DEGREE + 1);
    T basis[COUNT], inverse_length;
    sh_basis<DEGREE>(view_direction(view, mean, inverse_length), basis);
    return {shown_color(decode, encoded_color<COUNT>(basis, row, 0)),
            shown_color(decode, encoded_color<COUNT>(basis, row, 1)),
            shown_color(decode, encoded_color<COUNT>(basis, row, 2))};
}

template <class T>
SPLAT_DEVICE Vector3<T> color_of(const ViewPoint<T>& view, const Vector3<T>& mean, int degree, bool decode,
                                 const T* row) {
    switch (degree) {
        case 0: return color_of<0>(view, mean, decode, row);
        case 1: return color_of<1>(view, mean, decode, row);
        case 2: return color_of<2>(view, mean, decode, row);
        default: return color_of<3>(view, mean, decode, row);
    }
}

// Turns a splat's row of coefficients into the row of their gradient, and v_color into v_encoded; returns the gradient to
// the splat's offset from the camera, or to the direction (offset_gradient of sh_color.h).
template <int DEGREE, class T>
SPLAT_DEVICE Vector3<T> color_gradient(const ViewPoint<T>& view, const Vector3<T>& mean, bool decode,
                                       T (&v_color)[3], T* row) {
    constexpr int COUNT = (DEGREE + 1) * (DEGREE + 1);
    T basis[COUNT], inverse_length;
    const Vector3<T> direction = view_direction(view, mean, inverse_length);
    sh_basis<DEGREE>(direction, basis);
    for (int channel = 0; channel < 3; ++channel)
        encoded_gradient(decode, encoded_color<COUNT>(basis, row, channel), v_color[channel]);
    T weights[COUNT];
    for (int k = 0; k < COUNT; ++k)
        weights[k] = coefficient_gradient(basis[k], row + 3 * k, v_color, row + 3 * k);
    return offset_gradient<DEGREE>(view, direction, inverse_length, weights);
}

template <class T>
SPLAT_DEVICE Vector3<T> color_gradient(const ViewPoint<T>& view, const Vector3<T>& mean, int degree,
                                       bool decode, T (&v_color)[3], T* row) {
    switch (degree) {
        case 0: return color_gradient<0>(view, mean, decode, v_color, row);
        case 1: return color_gradient<1>(view, mean, decode, v_color, row);
        case 2: return color_gradient<2>(view, mean, decode, v_color, row);
        default: return color_gradient<3>(view, mean, decode, v_color, row);
    }
}

// -----------------------------------------------------------------------------------------------------------
// Sums over all splats

// partial[k, warp] = sum of terms[k] over the warp's lanes, all of which take part.
template <int SIZE, class T>
SPLAT_DEVICE void write_warp_sums(const T (&terms)[SIZE], double* partial) {
    const int64_t warps = int64_t(gridDim.x) * (blockDim.x / WARP), warp = global_thread() / WARP;
    for (int k = 0; k < SIZE; ++k) {
        const T sum = warp_sum(terms[k]);
        if (lane_of_warp() == 0) partial[k * warps + warp] = double(sum);
    }
}

// totals[k] = sum of partial[k, :], by warp k of a block of SIZE warps. Valid in all threads. Always in the same order.
template <int SIZE>
SPLAT_DEVICE void add_warp_sums(const double* partial, int64_t warps, double (&totals)[SIZE]) {
    double sum = 0;
    for (int64_t i = lane_of_warp(); i < warps; i += WARP) sum += partial[warp_of_block() * warps + i];
    sum = warp_sum(sum);
    if (lane_of_warp() == 0) totals[warp_of_block()] = sum;
    __syncthreads();
}

SPLAT_END_ISA
