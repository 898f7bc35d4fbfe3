// ssim and its backward: separable blurs with folded symmetric taps.
//
// An [H, W, C] image is H rows of W C numbers; neighbours of a channel are C numbers apart, so one loop over
// a row blurs all channels at once. The image is cut into strips of STRIP_BYTES, which rows are walked down
// one strip at a time:
//   1. make:       the fields to blur (four in the forward, three in the backward) of one image row;
//   2. horizontal: blur them along the row into a ring of the last eleven rows (it stays in the L1 cache);
//   3. vertical:   blur the ring's rows, and use the result for the image row five rows up.
// Threads share strips and bands of rows. Sums are kept for each strip and row and added in that order, so
// the mean does not depend on the number of threads.
#include "../include/gaussian_window.h"
#include "kernels.h"
#include "wide.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int STRIP_BYTES = 512;
constexpr int RING = 2 * WINDOW_RADIUS + 1;
constexpr int LEAST_BAND =
    4 * RING;  // rows; each band blurs 2 WINDOW_RADIUS rows that its neighbours blur as well

struct Shape {
    int64_t height, width, channels;
    bool valid;

    int64_t length() const { return width * channels; }  // numbers in a row
    int64_t margin() const { return WINDOW_RADIUS * channels; }
    // Numbers that the mean runs over.
    double counted() const {
        const int64_t border = valid ? 2 * WINDOW_RADIUS : 0;
        return double(height - border) * double(width - border) * double(channels);
    }
};

// Rows of one strip are far apart in memory, which the hardware does not foresee: they are asked for this many
// rows ahead.
constexpr int PREFETCH_ROWS = 2;

// sum_k tap_k (at(-k) + at(k)): the window, folded.
template <class S, class At>
SPLAT_FN Wide<S> blurred(At at) {
    using T = Wide<S>;
    T sum = at(0) * T(S(WINDOW_TAPS[0]));
    for (int k = 1; k <= WINDOW_RADIUS; ++k) sum = sum + (at(-k) + at(k)) * T(S(WINDOW_TAPS[k]));
    return sum;
}

// Memory of one thread.
template <int FIELDS, class S>
struct Workspace {
    static constexpr int64_t STRIP = STRIP_BYTES / int64_t(sizeof(S));
    S* line;  // [FIELDS][STRIP + 2 margin + LANES]
    S* ring;  // [RING][FIELDS][STRIP]
    int64_t line_size;

    static int64_t size(const Shape& shape) {
        return FIELDS * (STRIP + 2 * shape.margin() + Wide<S>::LANES) + RING * FIELDS * STRIP;
    }
    Workspace(S* memory, const Shape& shape)
        : line(memory + RING * FIELDS * STRIP),
          ring(memory),
          line_size(STRIP + 2 * shape.margin() + Wide<S>::LANES) {}
    S* ring_row(int64_t row) { return ring + (row + RING) % RING * FIELDS * STRIP; }
};

// Blurs one strip for image rows [begin, end).
//   make(row, position, fields): T fields[FIELDS] of the numbers from `position` of a row (zero outside)
//   use(row, position, fields):  receives the blurred ones
template <int FIELDS, class S, class Make, class Use>
SPLAT_FN void blur_strip(const Shape& shape, Workspace<FIELDS, S>& space, int64_t strip, int64_t begin,
                         int64_t end, const Make& make, const Use& use) {
    using T = Wide<S>;
    constexpr int64_t STRIP = Workspace<FIELDS, S>::STRIP;
    const int64_t start = strip * STRIP, channels = shape.channels, margin = shape.margin();
    const int64_t width = shape.length() - start < STRIP ? shape.length() - start : STRIP;
    for (int64_t row = begin - WINDOW_RADIUS; row < end + WINDOW_RADIUS; ++row) {
        S* const ring_row = space.ring_row(row);
        if (row < 0 || row >= shape.height) {
            for (int64_t i = 0; i < FIELDS * STRIP; i += T::LANES) T(S(0)).store(ring_row + i);
        } else {
            for (int64_t i = 0; i < width + 2 * margin; i += T::LANES) {
                T fields[FIELDS];
                make(row, start - margin + i, fields);
                for (int f = 0; f < FIELDS; ++f) fields[f].store(space.line + f * space.line_size + i);
            }
            for (int f = 0; f < FIELDS; ++f) {
                const S* const line = space.line + f * space.line_size + margin;
                for (int64_t i = 0; i < width; i += T::LANES)
                    blurred<S>([&](int k) SPLAT_INLINE {
                        return T::load(line + i + k * channels);
                    }).store(ring_row + f * STRIP + i);
            }
        }
        const int64_t out = row - WINDOW_RADIUS;
        if (out < begin) continue;
        const S* rows[RING];
        for (int k = 0; k < RING; ++k) rows[k] = space.ring_row(out - WINDOW_RADIUS + k);
        for (int64_t i = 0; i < width; i += T::LANES) {
            T fields[FIELDS];
            for (int f = 0; f < FIELDS; ++f)
                fields[f] = blurred<S>(
                    [&](int k) SPLAT_INLINE { return T::load(rows[k + WINDOW_RADIUS] + f * STRIP + i); });
            use(out, start + i, fields);
        }
    }
}

// Calls body(workspace, strip, begin, end) for all strips and bands of rows. False when memory has run out.
template <int FIELDS, class S, class Body>
bool for_each_strip(const Shape& shape, const Body& body) {
    constexpr int64_t STRIP = Workspace<FIELDS, S>::STRIP;
    const int64_t strips = (shape.length() + STRIP - 1) / STRIP;
    const int64_t most = (shape.height + LEAST_BAND - 1) / LEAST_BAND, threads = thread_count();
    const int64_t bands = threads < most ? threads : most;
    // rounded up to whole cache lines, so that threads do not share one
    const int64_t size = (Workspace<FIELDS, S>::size(shape) + 63) / 64 * 64;
    Buffer<S> memory;
    if (!memory.resize(size * threads)) return false;
    parallel_for(strips * bands, 1, [&](int64_t first, int64_t last, int thread) {
        Workspace<FIELDS, S> space(memory.data + size * thread, shape);
        for (int64_t unit = first; unit < last; ++unit) {
            const int64_t band = unit / strips;
            body(space, unit % strips, shape.height * band / bands, shape.height * (band + 1) / bands);
        }
    });
    return true;
}

template <class Args>
int check_arguments(const Args& args) {
    const int32_t least = args.valid ? RING : 1;
    if (args.height < least || args.width < least || args.channels < 1)
        return fail(STATUS_BAD_ARGUMENT, "ssim needs at least %d x %d pixels and 1 channel, got %d x %d x %d",
                    int(least), int(least), int(args.height), int(args.width), int(args.channels));
    return STATUS_OK;
}

template <class S>
int run_forward(const SsimFwdArgs<S>& args) {
    if (const int status = check_arguments(args)) return status;
    using T = Wide<S>;
    const Shape shape = {args.height, args.width, args.channels, args.valid != 0};
    const int64_t length = shape.length(), plane = shape.height * length;
    const double range = double(args.data_range);
    const T c1 = T(S(SSIM_K1 * range * SSIM_K1 * range)), c2 = T(S(SSIM_K2 * range * SSIM_K2 * range));
    const int64_t border = shape.valid ? WINDOW_RADIUS : 0, left = border * shape.channels,
                  right = length - left;
    const int64_t strips = (length + Workspace<4, S>::STRIP - 1) / Workspace<4, S>::STRIP;
    Buffer<T> sums;  // [strips][height]
    if (!sums.resize(strips * shape.height)) return fail(STATUS_OUT_OF_MEMORY, "ssim_fwd: out of memory");

    const auto make = [&](int64_t row, int64_t position, T* fields) SPLAT_INLINE {
        const int64_t ahead = (row + PREFETCH_ROWS) * length + position;
        __builtin_prefetch(args.image + ahead);
        __builtin_prefetch(args.target + ahead);
        const T x = load_padded(args.image + row * length, position, length);
        const T y = load_padded(args.target + row * length, position, length);
        fields[0] = x;
        fields[1] = y;
        fields[2] = x * x + y * y;
        fields[3] = x * y;
    };
    const auto body = [&](Workspace<4, S>& space, int64_t strip, int64_t begin, int64_t end) {
        T* const row_sums = sums.data + strip * shape.height;
        for (int64_t row = begin; row < end; ++row) row_sums[row] = T(S(0));
        const auto use = [&](int64_t row, int64_t position, const T* fields) SPLAT_INLINE {
            SsimGradient<T> gradient;
            const T value =
                ssim_at(SsimMoments<T>{fields[0], fields[1], fields[2], fields[3]}, c1, c2, gradient);
            const bool row_counts = row >= border && row < shape.height - border;
            const auto counts = between<S>(position, row_counts ? left : right, right);
            row_sums[row] = row_sums[row] + where(counts, value);
            if (args.maps) {
                S* const map = args.maps + row * length;
                for (int f = 0; f < 3; ++f)
                    __builtin_prefetch(map + f * plane + PREFETCH_ROWS * length + position, 1);
                store_padded(where(counts, gradient.mean), map, position, length);
                store_padded(where(counts, gradient.squares), map + plane, position, length);
                store_padded(where(counts, gradient.product), map + 2 * plane, position, length);
            }
        };
        blur_strip(shape, space, strip, begin, end, make, use);
    };
    if (!for_each_strip<4, S>(shape, body)) return fail(STATUS_OUT_OF_MEMORY, "ssim_fwd: out of memory");
    double total = 0;
    for (int64_t i = 0; i < strips * shape.height; ++i) total += sums[i].sum();
    *args.mean = S(total / shape.counted());
    return STATUS_OK;
}

template <class S>
int run_backward(const SsimBwdArgs<S>& args) {
    if (const int status = check_arguments(args)) return status;
    using T = Wide<S>;
    const Shape shape = {args.height, args.width, args.channels, args.valid != 0};
    const int64_t length = shape.length(), plane = shape.height * length;
    const T scale = T(S(double(*args.v_mean) / shape.counted()));
    const auto make = [&](int64_t row, int64_t position, T* fields) SPLAT_INLINE {
        for (int f = 0; f < 3; ++f) {
            const S* const map = args.maps + f * plane + row * length;
            __builtin_prefetch(map + PREFETCH_ROWS * length + position);
            fields[f] = load_padded(map, position, length);
        }
    };
    const auto use = [&](int64_t row, int64_t position, const T* fields) SPLAT_INLINE {
        const int64_t ahead = (row + PREFETCH_ROWS) * length + position;
        __builtin_prefetch(args.image + ahead);
        __builtin_prefetch(args.target + ahead);
        __builtin_prefetch(args.v_image + ahead, 1);
        const T x = load_padded(args.image + row * length, position, length);
        const T y = load_padded(args.target + row * length, position, length);
        const T gradient = ssim_image_gradient(x, y, SsimGradient<T>{fields[0], fields[1], fields[2]});
        store_padded(gradient * scale, args.v_image + row * length, position, length);
    };
    const auto body = [&](Workspace<3, S>& space, int64_t strip, int64_t begin, int64_t end) {
        blur_strip(shape, space, strip, begin, end, make, use);
    };
    if (!for_each_strip<3, S>(shape, body)) return fail(STATUS_OUT_OF_MEMORY, "ssim_bwd: out of memory");
    return STATUS_OK;
}

}  // namespace

int ssim_fwd(const SsimFwdArgs<float>& args) { return run_forward(args); }
int ssim_fwd(const SsimFwdArgs<double>& args) { return run_forward(args); }
int ssim_bwd(const SsimBwdArgs<float>& args) { return run_backward(args); }
int ssim_bwd(const SsimBwdArgs<double>& args) { return run_backward(args); }

SPLAT_END_ISA
