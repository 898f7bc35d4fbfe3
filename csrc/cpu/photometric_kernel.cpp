// photometric_loss: encoding, L1, D-SSIM, squared error and alpha of a drawn view against its target, with all gradients,
// in one pass over the pictures.
//
// The window of SSIM is separable, so the kernel runs down the picture and keeps the last rows of what it has made in
// rings that stay in the second-level cache. The picture is cut into strips of columns and bands of rows; a thread takes
// some of them. One turn of the loop over a band, for GROUP rows at once (each loaded vector then serves GROUP sums):
//   1. encode   rows r:       both pictures, interleaved as they are           -> ring `pictures`
//   2. moments  rows r - 5:   blur x, y, x^2 + y^2, x y down, then along;
//                             SSIM and its three derivatives                    -> ring `maps`
//   3. compare  rows r - 10:  blur the derivatives down and along; all losses and gradients
// Sums are kept for each row of each strip and added in their order: the figures do not depend on the threads.
#include "../include/color.h"
#include "../include/gaussian_window.h"
#include "kernels.h"
#include "vec.h"
#include "wide.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int CHANNELS = 3;
constexpr int REACH = WINDOW_RADIUS * CHANNELS;  // numbers on either side that a blur along a row reads
// Numbers beyond a strip on either side that are made as well: whole vectors, and whole groups of pixels.
constexpr int MAP_MARGIN = 16, BLUR_MARGIN = 32, PICTURE_MARGIN = 48;
static_assert(MAP_MARGIN >= REACH && BLUR_MARGIN >= MAP_MARGIN + REACH && PICTURE_MARGIN >= BLUR_MARGIN, "");
constexpr int STRIP_PIXELS = 256;  // about; a multiple of 16, so that strips begin with a whole vector
constexpr int GROUP = VECTOR_BYTES == 64 ? 4 : 2;  // sums of GROUP rows x 4 fields stay in registers
constexpr int ROWS = 2 * WINDOW_RADIUS + GROUP;    // that GROUP blurred rows are made of
constexpr int RING = 16;                           // rows, at least ROWS, a power of two
static_assert(ROWS <= RING, "");
constexpr int LEAST_BAND = 32;  // rows; each band makes 20 rows that its neighbours make as well

enum Figure { FIGURE_L1, FIGURE_SSIM, FIGURE_SQUARED, FIGURE_ALPHA, FIGURES };

// Memory of one thread: two rings and the rows that are blurred down but not yet along.
template <class S>
struct Workspace {
    int64_t width;   // numbers in the strip, whole vectors
    S* pictures[2];  // [RING][width + 2 PICTURE_MARGIN]
    S* maps[3];      // [RING][width + 2 MAP_MARGIN]
    S* lines;        // [GROUP][4][width + 2 BLUR_MARGIN]

    int64_t picture_size() const { return width + 2 * PICTURE_MARGIN; }
    int64_t map_size() const { return width + 2 * MAP_MARGIN; }
    int64_t line_size() const { return width + 2 * BLUR_MARGIN; }
    static int64_t size(int64_t width) {
        const Workspace space(nullptr, width);
        return RING * (2 * space.picture_size() + 3 * space.map_size()) + GROUP * 4 * space.line_size();
    }
    Workspace(S* memory, int64_t width) : width(width) {
        for (S*& picture : pictures) {
            picture = memory;
            memory += RING * picture_size();
        }
        for (S*& map : maps) {
            map = memory;
            memory += RING * map_size();
        }
        lines = memory;
    }
    // Number 0 of the strip in a row of the image, above and below it too.
    S* picture(int which, int64_t row) const {
        return pictures[which] + (row & (RING - 1)) * picture_size() + PICTURE_MARGIN;
    }
    S* map(int which, int64_t row) const {
        return maps[which] + (row & (RING - 1)) * map_size() + MAP_MARGIN;
    }
    S* line(int row, int field) const { return lines + (row * 4 + field) * line_size() + BLUR_MARGIN; }
};

template <class S>
struct Comparison {
    using T = Wide<S>;
    static constexpr int LANES = T::LANES;
    static_assert(MAP_MARGIN % LANES == 0 && BLUR_MARGIN % LANES == 0 &&
                      PICTURE_MARGIN % (CHANNELS * LANES) == 0,
                  "");

    const PhotometricLossArgs<S>& args;
    int64_t height = args.height, width = args.width, length = width * CHANNELS;
    bool with_ssim = args.ssim_weight > 0, with_gradient = args.v_image != nullptr;

    // Pixels [first, last) of the image, whole vectors; and rows.
    struct Part {
        int64_t first_pixel, pixels, first_row, last_row;
        int64_t strip;  // its number
    };
    double (*sums)[FIGURES] = nullptr;  // [strips][height]

    // ------------------------------------------------------------------------------------------ 1. encode

    SPLAT_FN T compared(T given) const { return compared_value(given, args.encode != 0, args.linear != 0); }

    // The same over a background whose value is known. Around an object whole vectors are nothing but background.
    SPLAT_FN T compared(T given, T background, T compared_background) const {
        return Simd<S>::any(given.v != background.v) ? compared(given) : compared_background;
    }

    // False in the numbers of pixels that do not count.
    SPLAT_FN WideTruth<S> counted(int64_t row, int64_t position) const {
        WideTruth<S> result;
        for (int lane = 0; lane < LANES; ++lane) {
            const int64_t at = position + lane;
            const bool inside = at >= 0 && at < length;
            result.bits[lane] = inside && args.valid[row * width + at / CHANNELS] ? -1 : 0;
        }
        return result;
    }

    void encode_row(const Workspace<S>& space, const Part& part, int64_t row) const {
        S* const drawn_row = space.picture(0, row);
        S* const target_row = space.picture(1, row);
        if (row < 0 || row >= height) {
            for (int64_t i = -PICTURE_MARGIN; i < space.width + PICTURE_MARGIN; i += LANES) {
                T(S(0)).store(drawn_row + i);
                T(S(0)).store(target_row + i);
            }
            return;
        }
        const S* const image = args.image + row * length;
        const S* const target = args.target + row * length;
        const S* const target_alpha = args.target_alpha + row * width;
        T background[CHANNELS], compared_background[CHANNELS];
        for (int v = 0; v < CHANNELS; ++v) {
            for (int lane = 0; lane < LANES; ++lane)
                background[v].v[lane] = args.background[(v * LANES + lane) % CHANNELS];
            compared_background[v] = compared(background[v]);
        }
        constexpr int64_t MARGIN_PIXELS = PICTURE_MARGIN / CHANNELS;
        for (int64_t i = -MARGIN_PIXELS; i < part.pixels + MARGIN_PIXELS; i += LANES) {
            const int64_t pixel = part.first_pixel + i;
            const bool inside = pixel >= 0 && pixel + LANES <= width;
            const T left = T(S(1)) - load_padded(target_alpha, pixel, width);
            repeat<CHANNELS>([&](auto number) SPLAT_INLINE {
                constexpr int PART = decltype(number)::value;
                const int64_t position = pixel * CHANNELS + PART * LANES;
                // Rows of a strip lie apart in memory, which the processor does not foresee.
                __builtin_prefetch(image + GROUP * length + position);
                __builtin_prefetch(target + GROUP * length + position);
                const T behind = background[PART], known = compared_background[PART];
                T drawn = compared(load_padded(image, position, length), behind, known);
                T wanted = compared(load_padded(target, position, length) + spread<PART>(left) * behind,
                                    behind, known);
                if (args.valid) drawn = select(counted(row, position), drawn, wanted);
                if (!inside) {
                    const auto within = between<S>(position, 0, length);
                    drawn = where(within, drawn);
                    wanted = where(within, wanted);
                }
                drawn.store(drawn_row + i * CHANNELS + PART * LANES);
                wanted.store(target_row + i * CHANNELS + PART * LANES);
            });
        }
    }

    // ------------------------------------------------------------------------------------------ blurs

    // sums[row][field] = window down the columns at number i, for GROUP rows; make(k, fields) gives the fields of the
    // k-th of the ROWS rows.
    template <int FIELDS, class Make>
    static SPLAT_FN void blur_down(Make make, T (&sums)[GROUP][FIELDS]) {
        for (auto& row : sums)
            for (T& sum : row) sum = T(S(0));
        repeat<ROWS>([&](auto number) SPLAT_INLINE {
            constexpr int ROW = decltype(number)::value;
            T fields[FIELDS];
            make(ROW, fields);
            repeat<GROUP>([&](auto output) SPLAT_INLINE {
                constexpr int TAP = ROW - WINDOW_RADIUS - decltype(output)::value;
                if constexpr (TAP >= -WINDOW_RADIUS && TAP <= WINDOW_RADIUS) {
                    const T tap = T(S(WINDOW_TAPS[TAP < 0 ? -TAP : TAP]));
                    for (int f = 0; f < FIELDS; ++f)
                        sums[decltype(output)::value][f] = sums[decltype(output)::value][f] + fields[f] * tap;
                }
            });
        });
    }

    // Window along a row, at the number that `from` points to.
    static SPLAT_FN T blur_along(const S* from) {
        T sum = T(S(0));
        repeat<2 * WINDOW_RADIUS + 1>([&](auto number) SPLAT_INLINE {
            constexpr int TAP = decltype(number)::value - WINDOW_RADIUS;
            sum = sum + T::load(from + TAP * CHANNELS) * T(S(WINDOW_TAPS[TAP < 0 ? -TAP : TAP]));
        });
        return sum;
    }

    // ------------------------------------------------------------------------------------------ 2. moments

    // Rows [first, first + GROUP) of the derivative maps, zero outside of the image.
    void make_maps(const Workspace<S>& space, const Part& part, int64_t first) const {
        const S* rows[2][ROWS];
        for (int which = 0; which < 2; ++which)
            for (int k = 0; k < ROWS; ++k) rows[which][k] = space.picture(which, first - WINDOW_RADIUS + k);
        for (int64_t i = -BLUR_MARGIN; i < space.width + BLUR_MARGIN; i += LANES) {
            T blurred[GROUP][4];
            blur_down<4>([&](int k, T* fields) SPLAT_INLINE {
                const T x = T::load(rows[0][k] + i), y = T::load(rows[1][k] + i);
                fields[0] = x;
                fields[1] = y;
                fields[2] = x * x + y * y;
                fields[3] = x * y;
            }, blurred);
            for (int row = 0; row < GROUP; ++row)
                for (int f = 0; f < 4; ++f) blurred[row][f].store(space.line(row, f) + i);
        }
        for (int row = 0; row < GROUP; ++row) make_map_row(space, part, first + row, row);
    }

    void make_map_row(const Workspace<S>& space, const Part& part, int64_t row, int line) const {
        if (row < 0 || row >= height) {
            for (int f = 0; f < 3; ++f)
                for (int64_t i = -MAP_MARGIN; i < space.width + MAP_MARGIN; i += LANES)
                    T(S(0)).store(space.map(f, row) + i);
            return;
        }
        const T c1 = T(S(SSIM_K1 * SSIM_K1)), c2 = T(S(SSIM_K2 * SSIM_K2));
        const int64_t start = part.first_pixel * CHANNELS;
        T sum = T(S(0));
        for (int64_t i = -MAP_MARGIN; i < space.width + MAP_MARGIN; i += LANES) {
            SsimGradient<T> gradient;
            T value = ssim_at(
                SsimMoments<T>{blur_along(space.line(line, 0) + i), blur_along(space.line(line, 1) + i),
                               blur_along(space.line(line, 2) + i), blur_along(space.line(line, 3) + i)},
                c1, c2, gradient);
            if (start + i < 0 || start + i + LANES > length) {
                const auto within = between<S>(start + i, 0, length);
                value = where(within, value);
                gradient = {where(within, gradient.mean), where(within, gradient.squares),
                            where(within, gradient.product)};
            }
            if (i >= 0 && i < space.width) sum = sum + value;
            gradient.mean.store(space.map(0, row) + i);
            gradient.squares.store(space.map(1, row) + i);
            gradient.product.store(space.map(2, row) + i);
        }
        if (row >= part.first_row && row < part.last_row)
            sums[part.strip * height + row][FIGURE_SSIM] = sum.sum();
    }

    // ------------------------------------------------------------------------------------------ 3. compare

    // Rows [first, first + GROUP) of the losses and gradients, as far as they are the part's.
    void compare(const Workspace<S>& space, const Part& part, int64_t first) const {
        const bool blurs = with_ssim && with_gradient;
        if (blurs) {
            const S* rows[3][ROWS];
            for (int f = 0; f < 3; ++f)
                for (int k = 0; k < ROWS; ++k) rows[f][k] = space.map(f, first - WINDOW_RADIUS + k);
            for (int64_t i = -MAP_MARGIN; i < space.width + MAP_MARGIN; i += LANES) {
                T blurred[GROUP][3];
                blur_down<3>([&](int k, T* fields) SPLAT_INLINE {
                    for (int f = 0; f < 3; ++f) fields[f] = T::load(rows[f][k] + i);
                }, blurred);
                for (int row = 0; row < GROUP; ++row)
                    for (int f = 0; f < 3; ++f) blurred[row][f].store(space.line(row, f) + i);
            }
        }
        for (int row = 0; row < GROUP; ++row)
            if (first + row >= part.first_row && first + row < part.last_row) {
                if (blurs)
                    compare_row<true>(space, part, first + row, row);
                else
                    compare_row<false>(space, part, first + row, row);
                compare_alpha(part, first + row);
            }
    }

    template <bool BLURS>
    void compare_row(const Workspace<S>& space, const Part& part, int64_t row, int line) const {
        const double numbers = double(height) * double(length);
        const T by_sign = T(S(double(args.l1_weight) / numbers)),
                by_difference = T(S(2 * double(args.mse_weight) / numbers)),
                by_ssim = T(S(-double(args.ssim_weight) / numbers));
        const int64_t start = part.first_pixel * CHANNELS;
        const S* const drawn_row = space.picture(0, row);
        const S* const target_row = space.picture(1, row);
        T absolute = T(S(0)), squared = T(S(0));
        for (int64_t i = 0; i < space.width; i += LANES) {
            const T x = T::load(drawn_row + i), y = T::load(target_row + i);
            const T slope = comparison_slope(x, args.linear != 0), difference = (x - y) * slope;
            absolute = absolute + larger(difference, -difference);
            squared = squared + difference * difference;
            if (!with_gradient || start + i >= length) continue;
            __builtin_prefetch(args.v_image + (row + GROUP) * length + start + i, 1);
            const T sign = select(difference > T(S(0)), by_sign, where(difference < T(S(0)), -by_sign));
            T v_drawn = sign + difference * by_difference;
            if constexpr (BLURS) {
                const SsimGradient<T> blurred = {blur_along(space.line(line, 0) + i),
                                                 blur_along(space.line(line, 1) + i),
                                                 blur_along(space.line(line, 2) + i)};
                v_drawn = v_drawn + ssim_image_gradient(x, y, blurred) * by_ssim;
            }
            if (args.encode) {
                const T given = load_padded(args.image + row * length, start + i, length);
                v_drawn = v_drawn * (args.linear ? slope : srgb_from_linear_gradient(given, x));
            }
            if (args.valid) v_drawn = where(counted(row, start + i), v_drawn);
            store_padded(v_drawn, args.v_image + row * length, start + i, length);
        }
        double* const sum = sums[part.strip * height + row];
        sum[FIGURE_L1] = absolute.sum();
        sum[FIGURE_SQUARED] = squared.sum();
    }

    void compare_alpha(const Part& part, int64_t row) const {
        const T by_sign = T(S(double(args.alpha_weight) / (double(height) * double(width))));
        T absolute = T(S(0));
        for (int64_t i = part.first_pixel; i < part.first_pixel + part.pixels && i < width; i += LANES) {
            T difference = load_padded(args.alpha + row * width, i, width) -
                           load_padded(args.target_alpha + row * width, i, width);
            if (args.valid)
                for (int lane = 0; lane < LANES && i + lane < width; ++lane)
                    if (!args.valid[row * width + i + lane]) difference.v[lane] = S(0);
            absolute = absolute + larger(difference, -difference);
            if (with_gradient)
                store_padded(select(difference > T(S(0)), by_sign, where(difference < T(S(0)), -by_sign)),
                             args.v_alpha + row * width, i, width);
        }
        sums[part.strip * height + row][FIGURE_ALPHA] = absolute.sum();
    }

    // ------------------------------------------------------------------------------------------ all phases

    void run_part(const Workspace<S>& space, const Part& part) const {
        const int64_t lead = with_ssim ? 2 * WINDOW_RADIUS : 0;  // rows between encoding and comparing
        for (int64_t row = part.first_row - lead; row - lead < part.last_row; row += GROUP) {
            for (int k = 0; k < GROUP; ++k) encode_row(space, part, row + k);
            // Maps begin 5 rows above the part, where the ring of pictures is full.
            if (with_ssim && row - WINDOW_RADIUS + GROUP > part.first_row - WINDOW_RADIUS)
                make_maps(space, part, row - WINDOW_RADIUS);
            if (row - lead + GROUP > part.first_row) compare(space, part, row - lead);
        }
    }

    int run() {
        const int64_t strips = (width + STRIP_PIXELS - 1) / STRIP_PIXELS;
        const int64_t strip_pixels = ((width + strips - 1) / strips + 15) / 16 * 16;
        const int64_t most = (height + LEAST_BAND - 1) / LEAST_BAND, threads = thread_count();
        const int64_t bands = threads < most ? threads : most;
        const int64_t size = Workspace<S>::size(strip_pixels * CHANNELS);
        Buffer<S> memory;
        Buffer<double[FIGURES]> rows;
        if (!memory.resize(size * threads) || !rows.resize(strips * height))
            return fail(STATUS_OUT_OF_MEMORY, "photometric_loss: out of memory");
        sums = rows.data;
        for (int64_t i = 0; i < strips * height; ++i)
            for (double& sum : sums[i]) sum = 0;
        parallel_for(strips * bands, 1, [&](int64_t begin, int64_t end, int thread) {
            const Workspace<S> space(memory.data + size * thread, strip_pixels * CHANNELS);
            // The first rows of a part are made of rows that nobody has written: they are not used, but are numbers.
            for (int64_t i = 0; i < size; ++i) memory[size * thread + i] = S(0);
            for (int64_t unit = begin; unit < end; ++unit) {
                // Bands begin at whole groups, so that a row is rounded in the same way whatever the bands are.
                const int64_t strip = unit % strips;
                const Range groups = split(height, int(unit / strips), int(bands), GROUP);
                run_part(space, {strip * strip_pixels, strip_pixels, groups.begin, groups.end, strip});
            }
        });
        write_figures(strips);
        return STATUS_OK;
    }

    void write_figures(int64_t strips) const {
        double total[FIGURES] = {};
        for (int64_t i = 0; i < strips * height; ++i)
            for (int f = 0; f < FIGURES; ++f) total[f] += sums[i][f];
        const double pixels = double(height) * double(width), numbers = pixels * CHANNELS;
        const double l1 = total[FIGURE_L1] / numbers, ssim = total[FIGURE_SSIM] / numbers,
                     squared = total[FIGURE_SQUARED] / numbers, alpha = total[FIGURE_ALPHA] / pixels;
        const double dissimilarity = with_ssim ? 1 - ssim : 0;
        args.figures[0] = S(double(args.l1_weight) * l1 + double(args.ssim_weight) * dissimilarity +
                            double(args.mse_weight) * squared + double(args.alpha_weight) * alpha);
        args.figures[1] = S(l1);
        args.figures[2] = S(ssim);
        args.figures[3] = S(squared);
        args.figures[4] = S(alpha);
    }
};

template <class S>
int run_photometric_loss(const PhotometricLossArgs<S>& args) {
    if (args.height < 1 || args.width < 1)
        return fail(STATUS_BAD_ARGUMENT, "photometric_loss needs at least 1 x 1 pixels, got %d x %d",
                    int(args.height), int(args.width));
    if (!args.image || !args.alpha || !args.target || !args.target_alpha || !args.background ||
        !args.figures || !args.v_image != !args.v_alpha)
        return fail(STATUS_BAD_ARGUMENT, "photometric_loss: an array is null");
    if (args.linear && args.ssim_weight > 0)
        return fail(STATUS_BAD_ARGUMENT, "photometric_loss has no SSIM of linear light");
    return Comparison<S>{args}.run();
}

}  // namespace

int photometric_loss(const PhotometricLossArgs<float>& args) { return run_photometric_loss(args); }
int photometric_loss(const PhotometricLossArgs<double>& args) { return run_photometric_loss(args); }

SPLAT_END_ISA
