// sh_colors and its backward: LANES splats at a time, the coefficients of a block transposed so that each
// register holds one coefficient of all its splats. Reading and writing the coefficients is what takes the
// time: 192 bytes a splat.
#include "camera_arrays.h"
#include "kernels.h"
#include "sh_rows.h"

SPLAT_BEGIN_ISA

namespace {

template <int DEGREE, class S>
void forward_range(const ShColorsFwdArgs<S>& args, const ViewPoint<S>& view, int64_t begin, int64_t end) {
    using T = Wide<S>;
    constexpr int COUNT = (DEGREE + 1) * (DEGREE + 1);
    const int64_t stride = int64_t(args.coefficients) * 3;
    for (int64_t first = begin; first < end; first += T::LANES) {
        const int count = end - first < T::LANES ? int(end - first) : T::LANES;
        T inverse_length, basis[COUNT], coefficients[3 * COUNT], color[3];
        sh_basis<DEGREE>(directions(view, args.means + first * 3, count, inverse_length), basis);
        load_rows<3 * COUNT>(args.sh + first * stride, stride, count, coefficients);
        for (int channel = 0; channel < 3; ++channel)
            color[channel] = shown_color(args.decode, encoded_color<COUNT>(basis, coefficients, channel));
        store_rows<3>(color, args.colors + first * 3, 3, count);
    }
}

// One chunk. `partial` receives the sum of v_offset (perspective) or v_direction (orthographic) over its
// splats.
template <int DEGREE, class S>
void backward_chunk(const ShColorsBwdArgs<S>& args, const ViewPoint<S>& view, int64_t begin, int64_t end,
                    double* partial) {
    using T = Wide<S>;
    constexpr int COUNT = (DEGREE + 1) * (DEGREE + 1);
    const int64_t stride = int64_t(args.coefficients) * 3;
    T sums[3] = {T(0), T(0), T(0)};
    for (int64_t first = begin; first < end; first += T::LANES) {
        const int count = end - first < T::LANES ? int(end - first) : T::LANES;
        T inverse_length, basis[COUNT], coefficients[3 * COUNT], v_color[3];
        const Vector3<T> direction = directions(view, args.means + first * 3, count, inverse_length);
        sh_basis<DEGREE>(direction, basis);
        load_rows<3 * COUNT>(args.sh + first * stride, stride, count, coefficients);
        load_rows<3>(args.v_colors + first * 3, 3, count, v_color);
        for (int channel = 0; channel < 3; ++channel)
            encoded_gradient(args.decode, encoded_color<COUNT>(basis, coefficients, channel),
                             v_color[channel]);

        T weights[COUNT];
        for (int k = 0; k < COUNT; ++k)
            weights[k] = coefficient_gradient(basis[k], coefficients + 3 * k, v_color, coefficients + 3 * k);

        if (args.v_means || partial) {
            const Vector3<T> v_direction = offset_gradient<DEGREE>(view, direction, inverse_length, weights);
            // rows past the end repeat the last splat
            const Vector3<T> counted = where(between<S>(0, 0, count), v_direction);
            sums[0] = sums[0] + counted.x;
            sums[1] = sums[1] + counted.y;
            sums[2] = sums[2] + counted.z;
            if (args.v_means) {
                const T zero = T(0);
                T mean[3] = {view.orthographic ? zero : v_direction.x,
                             view.orthographic ? zero : v_direction.y,
                             view.orthographic ? zero : v_direction.z};
                store_rows<3>(mean, args.v_means + first * 3, 3, count);
            }
        }
        if (args.v_sh) {
            store_rows<3 * COUNT>(coefficients, args.v_sh + first * stride, stride, count);
            for (int lane = 0; lane < count && stride > 3 * COUNT; ++lane)
                for (int64_t i = 3 * COUNT; i < stride; ++i) args.v_sh[(first + lane) * stride + i] = S(0);
        }
    }
    if (partial)
        for (int i = 0; i < 3; ++i) partial[i] = sums[i].sum();
}

template <class Args>
int check_arguments(const Args& args) {
    if (args.degree < 0 || args.degree > SH_DEGREE_MAX)
        return fail(STATUS_BAD_ARGUMENT, "SH degree must be 0 to %d, got %d", SH_DEGREE_MAX,
                    int(args.degree));
    if (args.coefficients < (args.degree + 1) * (args.degree + 1))
        return fail(STATUS_BAD_ARGUMENT, "SH degree %d needs %d coefficients, got %d", int(args.degree),
                    int((args.degree + 1) * (args.degree + 1)), int(args.coefficients));
    return STATUS_OK;
}

template <class S>
int run_forward(const ShColorsFwdArgs<S>& args) {
    if (const int status = check_arguments(args)) return status;
    const ViewPoint<S> view = read_view_point(args.viewmat, args.orthographic != 0);
    parallel_for(chunk_count(args.count), 1, [&](int64_t begin, int64_t end, int) {
        const int64_t first = begin * CHUNK, last = end * CHUNK < args.count ? end * CHUNK : args.count;
        switch (args.degree) {
            case 0: return forward_range<0>(args, view, first, last);
            case 1: return forward_range<1>(args, view, first, last);
            case 2: return forward_range<2>(args, view, first, last);
            default: return forward_range<3>(args, view, first, last);
        }
    });
    return STATUS_OK;
}

template <class S>
int run_backward(const ShColorsBwdArgs<S>& args) {
    if (const int status = check_arguments(args)) return status;
    const ViewPoint<S> view = read_view_point(args.viewmat, args.orthographic != 0);
    const int64_t chunks = chunk_count(args.count);
    Buffer<double[3]> partial;
    if (args.v_viewmat && !partial.resize(chunks))
        return fail(STATUS_OUT_OF_MEMORY, "sh_colors_bwd: out of memory");
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t chunk = begin; chunk < end; ++chunk) {
            const int64_t first = chunk * CHUNK,
                          last = first + CHUNK < args.count ? first + CHUNK : args.count;
            double* sums = args.v_viewmat ? partial[chunk] : nullptr;
            switch (args.degree) {
                case 0: backward_chunk<0>(args, view, first, last, sums); break;
                case 1: backward_chunk<1>(args, view, first, last, sums); break;
                case 2: backward_chunk<2>(args, view, first, last, sums); break;
                default: backward_chunk<3>(args, view, first, last, sums); break;
            }
        }
    });
    if (args.v_viewmat) {
        double totals[3];
        sum_chunks(partial.data, chunks, totals);
        write_view_point_gradient(view, totals, args.v_viewmat);
    }
    return STATUS_OK;
}

}  // namespace

int sh_colors_fwd(const ShColorsFwdArgs<float>& args) { return run_forward(args); }
int sh_colors_fwd(const ShColorsFwdArgs<double>& args) { return run_forward(args); }
int sh_colors_bwd(const ShColorsBwdArgs<float>& args) { return run_backward(args); }
int sh_colors_bwd(const ShColorsBwdArgs<double>& args) { return run_backward(args); }

SPLAT_END_ISA
