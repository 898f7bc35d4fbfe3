// The Gaussian window of SSIM over one channel of a tile, in two separable passes: what ssim.cu and photometric.cu share.
//
// Block: four warps make TILE_WIDTH x TILE_HEIGHT pixels of the result, from a span that reaches five pixels further on each
// side. The span is 32 rows high, so that in the pass along rows each lane has a row of its own and no lane is idle.
// Shared memory: one array, used twice (16.5 KB in float, 33 KB in double): planes of the span, then what is blurred along.
//   1. stage:       two or three planes of the span, zeros outside of the image
//   2. blur_along:  a thread makes RUN neighbouring numbers of one row from RUN + 10 staged ones, so that each staged number
//                   is read and multiplied out (x^2 + y^2, x y) once a thread and not once a tap. Odd pitches keep the 32
//                   rows of a warp in 32 banks.
//   3. blur_down:   a thread makes DOWN numbers of one column; a warp's lanes are neighbouring pixels, so that what follows
//                   reads and writes global memory together
//
// Sources: Mallick et al. 2024, "Taming 3DGS", section 4.3, and its fused-ssim: both passes in one kernel with the halo in
// shared memory, the gradient as a second convolution over three maps. Runs of outputs in registers: Podlozhnyuk 2007,
// "Image Convolution with CUDA".
#pragma once

#include "../include/gaussian_window.h"
#include "device.h"

SPLAT_BEGIN_ISA

constexpr int WINDOW_WARPS = 4;
constexpr int WINDOW_BLOCK = WINDOW_WARPS * WARP;
constexpr int SPAN_HEIGHT = WARP;
constexpr int TILE_WIDTH = WARP;
constexpr int TILE_HEIGHT = SPAN_HEIGHT - 2 * WINDOW_RADIUS;
constexpr int SPAN_WIDTH = TILE_WIDTH + 2 * WINDOW_RADIUS;
constexpr int SPAN_PITCH = SPAN_WIDTH + 1;
constexpr int TILE_PITCH = TILE_WIDTH + 1;
static_assert(SPAN_PITCH % 2 == 1 && TILE_PITCH % 2 == 1, "rows of a warp lie in different banks");
constexpr int RUN = TILE_WIDTH / WINDOW_WARPS;  // numbers of a row that a thread makes
constexpr int DOWN =
    (TILE_HEIGHT + WINDOW_WARPS - 1) / WINDOW_WARPS;  // numbers of a column that a thread makes
constexpr int MOST_FIELDS = 4;
constexpr int WINDOW_CELLS = MOST_FIELDS * SPAN_HEIGHT * TILE_PITCH;
static_assert(3 * SPAN_HEIGHT * SPAN_PITCH <= WINDOW_CELLS, "three planes of the span fit");

// Where this block's tile lies, for a grid of tiles.
struct Tile {
    int32_t row, column;  // px, of its first pixel

    static SPLAT_DEVICE Tile of_block() {
        return {int32_t(blockIdx.y) * TILE_HEIGHT, int32_t(blockIdx.x) * TILE_WIDTH};
    }
    SPLAT_DEVICE bool holds(int32_t at_row, int32_t at_column) const {
        return at_row >= row && at_row < row + TILE_HEIGHT && at_column >= column &&
               at_column < column + TILE_WIDTH;
    }
    static SPLAT_DEVICE int64_t number() { return int64_t(blockIdx.y) * gridDim.x + blockIdx.x; }
};

// sum += fields x tap, for the outputs that a number reaches: number `from` of a run, outputs 0 to OUTPUTS - 1.
template <int OUTPUTS, int FIELDS, class T>
SPLAT_DEVICE void spread_to_outputs(int from, const T (&fields)[FIELDS], T (&sums)[OUTPUTS][FIELDS]) {
    constexpr T taps[WINDOW_RADIUS + 1] = {T(WINDOW_TAPS[0]), T(WINDOW_TAPS[1]), T(WINDOW_TAPS[2]),
                                           T(WINDOW_TAPS[3]), T(WINDOW_TAPS[4]), T(WINDOW_TAPS[5])};
#pragma unroll
    for (int out = 0; out < OUTPUTS; ++out) {
        const int offset = from - out - WINDOW_RADIUS, distance = offset < 0 ? -offset : offset;
        if (distance > WINDOW_RADIUS) continue;
#pragma unroll
        for (int f = 0; f < FIELDS; ++f) sums[out][f] += fields[f] * taps[distance];
    }
}

// Phase 1: load(row, column, plane values) for each pixel of the span, inside of the image.
template <int PLANES, class T, class Load>
SPLAT_DEVICE void stage(const Tile& tile, int32_t height, int32_t width, T* cells, Load load) {
    for (int i = threadIdx.x; i < SPAN_HEIGHT * SPAN_WIDTH; i += WINDOW_BLOCK) {
        const int span_row = i / SPAN_WIDTH, span_column = i % SPAN_WIDTH;
        const int32_t row = tile.row + span_row - WINDOW_RADIUS,
                      column = tile.column + span_column - WINDOW_RADIUS;
        T values[PLANES] = {};
        if (row >= 0 && row < height && column >= 0 && column < width) load(row, column, values);
#pragma unroll
        for (int p = 0; p < PLANES; ++p)
            cells[(p * SPAN_HEIGHT + span_row) * SPAN_PITCH + span_column] = values[p];
    }
}

// Phase 2: fields made of staged planes, blurred along rows, over the staged planes.
template <int PLANES, int FIELDS, class T, class Make>
SPLAT_DEVICE void blur_along(T* cells, Make make) {
    const int row = threadIdx.x % WARP, first = threadIdx.x / WARP * RUN;
    T sums[RUN][FIELDS] = {};
#pragma unroll
    for (int k = 0; k < RUN + 2 * WINDOW_RADIUS; ++k) {
        T planes[PLANES], fields[FIELDS];
#pragma unroll
        for (int p = 0; p < PLANES; ++p) planes[p] = cells[(p * SPAN_HEIGHT + row) * SPAN_PITCH + first + k];
        make(planes, fields);
        spread_to_outputs(k, fields, sums);
    }
    __syncthreads();  // the whole span has been read
#pragma unroll
    for (int out = 0; out < RUN; ++out)
#pragma unroll
        for (int f = 0; f < FIELDS; ++f)
            cells[(f * SPAN_HEIGHT + row) * TILE_PITCH + first + out] = sums[out][f];
}

// Phase 3: use(row, column, fields) for each pixel of the tile inside of the image, blurred both ways.
template <int FIELDS, class T, class Use>
SPLAT_DEVICE void blur_down(const Tile& tile, int32_t height, int32_t width, const T* cells, Use use) {
    const int column = threadIdx.x % WARP, wanted = threadIdx.x / WARP * DOWN;
    // The last warp begins early, so that it does not read beyond the span, and leaves out what others make.
    const int first = wanted < TILE_HEIGHT - DOWN ? wanted : TILE_HEIGHT - DOWN;
    T sums[DOWN][FIELDS] = {};
#pragma unroll
    for (int k = 0; k < DOWN + 2 * WINDOW_RADIUS; ++k) {
        T fields[FIELDS];
#pragma unroll
        for (int f = 0; f < FIELDS; ++f)
            fields[f] = cells[(f * SPAN_HEIGHT + first + k) * TILE_PITCH + column];
        spread_to_outputs(k, fields, sums);
    }
#pragma unroll
    for (int out = 0; out < DOWN; ++out) {
        const int32_t row = tile.row + first + out;
        if (first + out >= wanted && row < height && tile.column + column < width)
            use(row, tile.column + column, sums[out]);
    }
}

// All phases for one channel; see them for load, make and use. Called again for the next channel.
template <int PLANES, int FIELDS, class T, class Load, class Make, class Use>
SPLAT_DEVICE void blur(const Tile& tile, int32_t height, int32_t width, T* cells, Load load, Make make,
                       Use use) {
    __syncthreads();  // the last channel has been used
    stage<PLANES>(tile, height, width, cells, load);
    __syncthreads();
    blur_along<PLANES, FIELDS>(cells, make);
    __syncthreads();
    blur_down<FIELDS>(tile, height, width, cells, use);
}

// What SSIM blurs of two pictures (SsimMoments).
template <class T>
SPLAT_DEVICE void moment_fields(const T (&planes)[2], T (&fields)[4]) {
    const T x = planes[0], y = planes[1];
    fields[0] = x;
    fields[1] = y;
    fields[2] = x * x + y * y;
    fields[3] = x * y;
}

// Three maps as they are.
template <class T>
SPLAT_DEVICE void same_fields(const T (&planes)[3], T (&fields)[3]) {
#pragma unroll
    for (int f = 0; f < 3; ++f) fields[f] = planes[f];
}

// Blurs one channel of the three maps, which lie `distance` numbers apart; see blur for use.
template <class T, class Use>
SPLAT_DEVICE void blur_maps(const Tile& tile, int32_t height, int32_t width, const T* maps, int64_t distance,
                            T* cells, Use use) {
    const auto load = [&](int32_t row, int32_t column, T* planes) {
        const T* const map = maps + int64_t(row) * width + column;
#pragma unroll
        for (int f = 0; f < 3; ++f) planes[f] = map[f * distance];
    };
    blur<3, 3>(tile, height, width, cells, load, same_fields<T>, use);
}

// The three derivatives at one pixel, to maps that lie `distance` numbers apart.
template <class T>
SPLAT_DEVICE void write_maps(const SsimGradient<T>& gradient, int64_t distance, T* map) {
    map[0] = gradient.mean;
    map[distance] = gradient.squares;
    map[2 * distance] = gradient.product;
}

SPLAT_END_ISA
