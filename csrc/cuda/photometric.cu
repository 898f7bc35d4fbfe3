// photometric_loss: encoding, L1, D-SSIM, squared error and alpha of a drawn view against its target, with all gradients.
//
// With SSIM:
//   photometric_tiles     grid: one block of 128 threads a tile of 32 x 22 pixels; it goes through the channels. The alphas of
//                         the tile; then, for each channel, the phases of window.h: both pictures are composed and encoded
//                         while they are staged, where L1 and the squared error are summed too; SSIM's three derivatives go
//                         to `maps`. 17 KB of shared memory (f64: 34).
//   photometric_gradient  the same grid: the maps blurred with the same window, and the gradient of everything.
// Without SSIM no pixel needs another one, and linear light may be compared (csrc/include/color.h):
//   photometric_pixels    one thread a pixel, blocks of 256: losses and gradients.
// Last, photometric_figures: one block adds the sums of the blocks and weighs them.
//
// The maps lie channel by channel, [3, 3, H, W], so that a warp reads and writes whole sectors.
// A pixel costs, in float and without what the caches serve again: 33 bytes in and 40 out (36 of them maps) in
// photometric_tiles, 65 in and 12 out in photometric_gradient, so 150 bytes in all; 33 in and 16 out in photometric_pixels.
// The blurs take 3 x 270 and 3 x 180 flop (ssim.cu), encoding 11.5 powers (the span is 1.9 times the tile) and 6, some 12
// instructions each: 1600 flop in all. At 4.8 TB/s and 67 TFLOP/s: 31 ps for the bytes, 24 ps for the arithmetic.
//
// Sources: window.h; Kerbl et al. 2023, 3D Gaussian Splatting, eq. 7; Mallick et al. 2024, "Taming 3DGS".
#include "../include/color.h"
#include "args.h"
#include "sums.h"
#include "window.h"

SPLAT_BEGIN_ISA

constexpr int CHANNELS = 3;
constexpr int PIXELS_BLOCK = 256;

enum Figure { FIGURE_L1, FIGURE_SSIM, FIGURE_SQUARED, FIGURE_ALPHA, FIGURES };

// One channel of one pixel of both pictures, as they are compared.
template <class T>
struct Compared {
    T drawn, wanted, slope;

    // `linear` is false where SSIM is computed: the kernels that do so are not made for linear light.
    static SPLAT_DEVICE Compared at(const PhotometricArgs<T>& args, int64_t pixel, int channel, bool linear) {
        const bool encode = args.encode != 0;
        const int64_t i = pixel * CHANNELS + channel;
        const T background = args.background[channel];
        const T wanted =
            compared_value(args.target[i] + (T(1) - args.target_alpha[pixel]) * background, encode, linear);
        const T drawn = counts(args, pixel) ? compared_value(args.image[i], encode, linear) : wanted;
        return {drawn, wanted, comparison_slope(drawn, linear)};
    }
    static SPLAT_DEVICE bool counts(const PhotometricArgs<T>& args, int64_t pixel) {
        return !args.valid || args.valid[pixel];
    }
    SPLAT_DEVICE T difference() const { return (drawn - wanted) * slope; }
    SPLAT_DEVICE void add_to(T (&figures)[FIGURES]) const {
        const T difference = this->difference();
        figures[FIGURE_L1] += larger(difference, -difference);
        figures[FIGURE_SQUARED] += difference * difference;
    }
};

// weight where a difference is positive, -weight where it is negative, else 0.
template <class T>
SPLAT_DEVICE T signed_weight(T difference, T weight) {
    return select(difference > T(0), weight, where(difference < T(0), -weight));
}

// dL/dimage of one channel of one pixel; `similarity` is the gradient of the sum of SSIM.
template <class T>
SPLAT_DEVICE T image_gradient(const PhotometricArgs<T>& args, const Compared<T>& compared, int64_t pixel,
                              int channel, bool linear, T similarity) {
    const T difference = compared.difference();
    T v_drawn = signed_weight(difference, args.by_sign) + difference * args.by_difference;
    v_drawn += similarity * args.by_ssim;
    if (args.encode) {
        const T given = args.image[pixel * CHANNELS + channel];
        v_drawn *= linear ? compared.slope : srgb_from_linear_gradient(given, compared.drawn);
    }
    return where(Compared<T>::counts(args, pixel), v_drawn);
}

// The alphas of one pixel: their difference and its gradient.
template <class T>
SPLAT_DEVICE void compare_alpha(const PhotometricArgs<T>& args, int64_t pixel, T (&figures)[FIGURES]) {
    const T difference =
        where(Compared<T>::counts(args, pixel), args.alpha[pixel] - args.target_alpha[pixel]);
    figures[FIGURE_ALPHA] += larger(difference, -difference);
    if (args.v_alpha) args.v_alpha[pixel] = signed_weight(difference, args.by_alpha);
}

template <class T>
SPLAT_DEVICE void compare_alphas(const PhotometricArgs<T>& args, const Tile& tile, T (&figures)[FIGURES]) {
    for (int i = threadIdx.x; i < TILE_HEIGHT * TILE_WIDTH; i += WINDOW_BLOCK) {
        const int32_t row = tile.row + i / TILE_WIDTH, column = tile.column + i % TILE_WIDTH;
        if (row < args.height && column < args.width)
            compare_alpha(args, int64_t(row) * args.width + column, figures);
    }
}

template <class T>
SPLAT_DEVICE void photometric_tiles(const PhotometricArgs<T>& args) {
    __shared__ T cells[WINDOW_CELLS];
    const Tile tile = Tile::of_block();
    const int64_t plane = int64_t(args.height) * args.width;
    T figures[FIGURES] = {};
    compare_alphas(args, tile, figures);
    for (int channel = 0; channel < CHANNELS; ++channel) {
        const auto load = [&](int32_t row, int32_t column, T* planes) {
            const auto compared = Compared<T>::at(args, int64_t(row) * args.width + column, channel, false);
            planes[0] = compared.drawn;
            planes[1] = compared.wanted;
            if (tile.holds(row, column)) compared.add_to(figures);
        };
        const auto use = [&](int32_t row, int32_t column, const T* fields) {
            SsimGradient<T> gradient;
            figures[FIGURE_SSIM] += ssim_at(SsimMoments<T>{fields[0], fields[1], fields[2], fields[3]},
                                            T(SSIM_K1 * SSIM_K1), T(SSIM_K2 * SSIM_K2), gradient);
            if (args.maps)
                write_maps(gradient, CHANNELS * plane,
                           args.maps + channel * plane + int64_t(row) * args.width + column);
        };
        blur<2, MOST_FIELDS>(tile, args.height, args.width, cells, load, moment_fields<T>, use);
    }
    write_block_sums<WINDOW_BLOCK>(figures, Tile::number(), args.sums);
}

template <class T>
SPLAT_DEVICE void photometric_gradient(const PhotometricArgs<T>& args) {
    __shared__ T cells[WINDOW_CELLS];
    const Tile tile = Tile::of_block();
    const int64_t plane = int64_t(args.height) * args.width;
    for (int channel = 0; channel < CHANNELS; ++channel) {
        const auto use = [&](int32_t row, int32_t column, const T* fields) {
            const int64_t pixel = int64_t(row) * args.width + column;
            const auto compared = Compared<T>::at(args, pixel, channel, false);
            const T similarity = ssim_image_gradient(compared.drawn, compared.wanted,
                                                     SsimGradient<T>{fields[0], fields[1], fields[2]});
            args.v_image[pixel * CHANNELS + channel] =
                image_gradient(args, compared, pixel, channel, false, similarity);
        };
        blur_maps(tile, args.height, args.width, args.maps + channel * plane, CHANNELS * plane, cells, use);
    }
}

template <class T>
SPLAT_DEVICE void photometric_pixels(const PhotometricArgs<T>& args) {
    const int64_t pixel = global_thread();
    const bool linear = args.linear != 0;
    T figures[FIGURES] = {};
    if (pixel < int64_t(args.height) * args.width) {
        compare_alpha(args, pixel, figures);
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            const auto compared = Compared<T>::at(args, pixel, channel, linear);
            compared.add_to(figures);
            if (args.v_image)
                args.v_image[pixel * CHANNELS + channel] =
                    image_gradient(args, compared, pixel, channel, linear, T(0));
        }
    }
    write_block_sums<PIXELS_BLOCK>(figures, blockIdx.x, args.sums);
}

template <class T>
SPLAT_DEVICE void photometric_figures(const PhotometricFiguresArgs<T>& args) {
    double totals[FIGURES];
    sum_rows<PIXELS_BLOCK>(args.sums, args.blocks, totals);
    if (threadIdx.x > 0) return;
    const double pixels = double(args.height) * double(args.width), numbers = pixels * CHANNELS;
    const double l1 = totals[FIGURE_L1] / numbers, ssim = totals[FIGURE_SSIM] / numbers,
                 squared = totals[FIGURE_SQUARED] / numbers, alpha = totals[FIGURE_ALPHA] / pixels;
    const double dissimilarity = args.ssim_weight > T(0) ? 1 - ssim : 0;
    args.figures[0] = T(double(args.l1_weight) * l1 + double(args.ssim_weight) * dissimilarity +
                        double(args.mse_weight) * squared + double(args.alpha_weight) * alpha);
    args.figures[1] = T(l1);
    args.figures[2] = T(ssim);
    args.figures[3] = T(squared);
    args.figures[4] = T(alpha);
}

SPLAT_END_ISA

SPLAT_KERNEL(photometric_tiles, splat::SPLAT_ISA::photometric_tiles, PhotometricArgs,
             splat::SPLAT_ISA::WINDOW_BLOCK)
SPLAT_KERNEL(photometric_gradient, splat::SPLAT_ISA::photometric_gradient, PhotometricArgs,
             splat::SPLAT_ISA::WINDOW_BLOCK)
SPLAT_KERNEL(photometric_pixels, splat::SPLAT_ISA::photometric_pixels, PhotometricArgs,
             splat::SPLAT_ISA::PIXELS_BLOCK)
SPLAT_KERNEL(photometric_figures, splat::SPLAT_ISA::photometric_figures, PhotometricFiguresArgs,
             splat::SPLAT_ISA::PIXELS_BLOCK)
