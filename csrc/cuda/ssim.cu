// ssim and its backward.
//
// ssim_tiles  grid: one block of 128 threads a tile of 32 x 22 pixels; it goes through the channels. Phases of window.h with
//             two planes and four fields, then SSIM and its three derivatives at each pixel. 16.9 KB of shared memory (f64: 34).
// ssim_mean   one block adds the tiles' sums.
// ssim_bwd    grid as ssim_tiles: the three maps blurred with the same window, which is symmetric.
//
// The maps lie channel by channel, [3, C, H, W], so that a warp reads and writes whole sectors; pictures are [H, W, C].
// A number (one channel of one pixel) costs, in float and without what the caches serve again: 8 bytes in and 12 out in
// ssim_tiles, 20 in and 4 out in ssim_bwd; 270 and 180 flop (a blur of four fields is 88 a number, 1.45 times along rows and
// 1.09 times down columns; of three 66). At 4.8 TB/s and 67 TFLOP/s: 9.2 ps for the bytes, 6.7 ps for the arithmetic.
//
// Sources: window.h; Wang et al. 2004 (SSIM), the gradient in csrc/include/gaussian_window.h.
#include "args.h"
#include "sums.h"
#include "window.h"

SPLAT_BEGIN_ISA

constexpr int MEAN_BLOCK = 256;

// Numbers that the mean runs over, for the arguments of any of the kernels.
template <class Result, class Args>
SPLAT_DEVICE Result counted_numbers(const Args& args) {
    const int32_t border = args.valid ? 2 * WINDOW_RADIUS : 0;
    return Result(args.height - border) * Result(args.width - border) * Result(args.channels);
}

template <class T>
SPLAT_DEVICE void ssim_tiles(const SsimTilesArgs<T>& args) {
    __shared__ T cells[WINDOW_CELLS];
    const Tile tile = Tile::of_block();
    const int32_t border = args.valid ? WINDOW_RADIUS : 0;
    const int64_t plane = int64_t(args.height) * args.width, maps = plane * args.channels;
    const T k1 = T(SSIM_K1) * args.data_range, k2 = T(SSIM_K2) * args.data_range;
    T sum[1] = {};
    for (int32_t channel = 0; channel < args.channels; ++channel) {
        const auto load = [&](int32_t row, int32_t column, T* planes) {
            const int64_t at = (int64_t(row) * args.width + column) * args.channels + channel;
            planes[0] = args.image[at];
            planes[1] = args.target[at];
        };
        const auto use = [&](int32_t row, int32_t column, const T* fields) {
            SsimGradient<T> gradient;
            const T value = ssim_at(SsimMoments<T>{fields[0], fields[1], fields[2], fields[3]}, k1 * k1,
                                    k2 * k2, gradient);
            const bool counts = row >= border && row < args.height - border && column >= border &&
                                column < args.width - border;
            sum[0] += where(counts, value);
            if (args.maps)
                write_maps(counts ? gradient : SsimGradient<T>{T(0), T(0), T(0)}, maps,
                           args.maps + channel * plane + int64_t(row) * args.width + column);
        };
        blur<2, MOST_FIELDS>(tile, args.height, args.width, cells, load, moment_fields<T>, use);
    }
    write_block_sums<WINDOW_BLOCK>(sum, Tile::number(), args.sums);
}

template <class T>
SPLAT_DEVICE void ssim_mean(const SsimMeanArgs<T>& args) {
    double total[1];
    sum_rows<MEAN_BLOCK>(args.sums, args.tiles, total);
    if (threadIdx.x == 0) *args.mean = T(total[0] / counted_numbers<double>(args));
}

template <class T>
SPLAT_DEVICE void ssim_bwd(const SsimBwdArgs<T>& args) {
    __shared__ T cells[WINDOW_CELLS];
    const Tile tile = Tile::of_block();
    const int64_t plane = int64_t(args.height) * args.width, maps = plane * args.channels;
    const T scale = *args.v_mean / counted_numbers<T>(args);
    for (int32_t channel = 0; channel < args.channels; ++channel) {
        const auto use = [&](int32_t row, int32_t column, const T* fields) {
            const int64_t at = (int64_t(row) * args.width + column) * args.channels + channel;
            const SsimGradient<T> blurred = {fields[0], fields[1], fields[2]};
            args.v_image[at] = scale * ssim_image_gradient(args.image[at], args.target[at], blurred);
        };
        blur_maps(tile, args.height, args.width, args.maps + channel * plane, maps, cells, use);
    }
}

SPLAT_END_ISA

SPLAT_KERNEL(ssim_tiles, splat::SPLAT_ISA::ssim_tiles, SsimTilesArgs, splat::SPLAT_ISA::WINDOW_BLOCK)
SPLAT_KERNEL(ssim_mean, splat::SPLAT_ISA::ssim_mean, SsimMeanArgs, splat::SPLAT_ISA::MEAN_BLOCK)
SPLAT_KERNEL(ssim_bwd, splat::SPLAT_ISA::ssim_bwd, SsimBwdArgs, splat::SPLAT_ISA::WINDOW_BLOCK)
