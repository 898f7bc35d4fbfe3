// update_splats: the backward of project and of sh_colors and Adam's update, LANES splats at a time. Each chunk of splats is
// read and written once: parameters and moments, 12 bytes a parameter each way. The gradient of a block stays in the
// first-level cache. Phases of a block:
//   1. gradients, one register a field (the formulas of projection.h and sh.h)
//   2. transposed into rows as the parameters have them
//   3. Adam over the rows, which lie one behind the other in memory
#include "../include/adam.h"
#include "kernels.h"
#include "project_rows.h"
#include "sh_rows.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int COEFFICIENTS_MAX = (SH_DEGREE_MAX + 1) * (SH_DEGREE_MAX + 1);

// One group of parameters: rows of SIZE numbers.
template <class S>
struct Group {
    S* parameter;
    S* first;
    S* second;
    int64_t size;  // of a row
};

// Gradients of one block of splats, as rows.
template <class S>
struct alignas(VECTOR_BYTES) BlockGradient {
    static constexpr int LANES = Wide<S>::LANES;
    S means[LANES * 3], log_scales[LANES * 3], quats_wxyz[LANES * 4], opacity_logits[LANES];
    S sh[LANES * 3 * COEFFICIENTS_MAX];
};

template <class S>
struct Updater {
    using T = Wide<S>;
    static constexpr int LANES = T::LANES;

    const UpdateSplatsArgs<S>& args;
    const Camera<S> camera;
    const ViewPoint<S> view;
    S sh_steps[LANES * 3 * COEFFICIENTS_MAX];  // a step size for each number of a block's coefficients

    explicit Updater(const UpdateSplatsArgs<S>& args)
        : args(args),
          camera(read_camera(args, args.viewmat)),
          view(read_view_point(args.viewmat, args.orthographic != 0)) {
        const int64_t size = 3 * int64_t(args.coefficients);
        for (int64_t i = 0; i < LANES * size; ++i)
            sh_steps[i] = i % size < 3 ? args.step_sh_constant : args.step_sh;
    }

    template <class Size>
    SPLAT_FN AdamStep<S, Size> step_of(Size size) const {
        return {args.rate1, args.beta2, args.rate2, args.eps, size, args.inverse_root};
    }

    // Adam over rows [begin, end) of a block that starts at splat `start`; `sizes` holds a step size a number.
    template <class SizeAt>
    SPLAT_FN void update_rows(const Group<S>& group, const S* gradient, int64_t start, int begin, int end,
                              SizeAt size_at) const {
        S* const parameter = group.parameter + start * group.size;
        S* const first = group.first + start * group.size;
        S* const second = group.second + start * group.size;
        int64_t i = begin * group.size;
        const int64_t last = end * group.size;
        const int64_t next_block = group.size * LANES;
        for (; i + LANES <= last; i += LANES) {
            // Some twenty runs of memory are gone through at once, more than the processor foresees.
            __builtin_prefetch(parameter + i + next_block, 1);
            __builtin_prefetch(first + i + next_block, 1);
            __builtin_prefetch(second + i + next_block, 1);
            T p = T::load(parameter + i), m = T::load(first + i), v = T::load(second + i);
            adam_update(step_of(size_at(i, T())), T::load(gradient + i), p, m, v);
            p.store(parameter + i);
            m.store(first + i);
            v.store(second + i);
        }
        for (; i < last; ++i)
            adam_update(step_of(size_at(i, S())), gradient[i], parameter[i], first[i], second[i]);
    }

    SPLAT_FN void update_group(const Group<S>& group, const S* gradient, int64_t start, int begin, int end,
                               S size) const {
        update_rows(group, gradient, start, begin, end, [&](int64_t, auto) SPLAT_INLINE { return size; });
    }

    void update_splats(const BlockGradient<S>& gradient, int64_t start, int begin, int end) const {
        const UpdateSplatsArgs<S>& a = args;
        update_group({a.means, a.first_means, a.second_means, 3}, gradient.means, start, begin, end,
                     a.step_means);
        update_group({a.log_scales, a.first_log_scales, a.second_log_scales, 3}, gradient.log_scales, start,
                     begin, end, a.step_log_scales);
        if (a.log_scale_floors)
            for (int64_t i = start + begin; i < start + end; ++i)
                for (int axis = 0; axis < 3; ++axis) {
                    S& log_scale = a.log_scales[3 * i + axis];
                    if (log_scale < a.log_scale_floors[i]) log_scale = a.log_scale_floors[i];
                }
        update_group({a.quats_wxyz, a.first_quats_wxyz, a.second_quats_wxyz, 4}, gradient.quats_wxyz, start,
                     begin, end, a.step_quats_wxyz);
        update_group({a.opacity_logits, a.first_opacity_logits, a.second_opacity_logits, 1},
                     gradient.opacity_logits, start, begin, end, a.step_opacity_logits);
        update_rows({a.sh, a.first_sh, a.second_sh, 3 * int64_t(a.coefficients)}, gradient.sh, start, begin,
                    end, [&](int64_t i, auto kind) SPLAT_INLINE {
            if constexpr (sizeof(kind) == sizeof(S))
                return sh_steps[i];
            else
                return T::load(sh_steps + i);
        });
    }

    // Gradients of splats [start, start + count) as rows; returns the lanes whose splat the screen says nothing about.
    template <int DEGREE>
    SPLAT_FN WideTruth<S> differentiate(int64_t start, int count, BlockGradient<S>& out) const {
        constexpr int COUNT = (DEGREE + 1) * (DEGREE + 1);
        T radius[2], v_color[3] = {T(S(0)), T(S(0)), T(S(0))};
        load_rows<2>(args.radii + start * 2, 2, count, radius);
        const auto visible = radius[0] > T(S(0));
        const ScreenSplat<T> v_screen = load_screen_gradient<S>(args, start, count);
        if (args.v_colors) load_rows<3>(args.v_colors + start * 3, 3, count, v_color);
        const T none = T(S(0));
        const auto silent =
            (v_screen.mean_x == none) & (v_screen.mean_y == none) & (v_screen.depth == none) &
            (v_screen.conic_xx == none) & (v_screen.conic_xy == none) & (v_screen.conic_yy == none) &
            (v_screen.opacity == none) & (v_screen.normal.x == none) & (v_screen.normal.y == none) &
            (v_screen.normal.z == none) & (v_color[0] == none) & (v_color[1] == none) & (v_color[2] == none);

        CameraGradient<T> v_camera;  // unused, and so never computed
        const Splat<T> v = project_splat_gradient(camera, load_splats<S>(args, start, count), v_screen,
                                                  args.v_normals != nullptr, v_camera);

        const int64_t stride = int64_t(args.coefficients) * 3;
        T inverse_length, basis[COUNT], coefficients[3 * COUNT];
        const Vector3<T> direction = directions(view, args.means + start * 3, count, inverse_length);
        sh_basis<DEGREE>(direction, basis);
        load_rows<3 * COUNT, false>(args.sh + start * stride, stride, count, coefficients);
        for (int channel = 0; channel < 3; ++channel)
            encoded_gradient(args.decode, encoded_color<COUNT>(basis, coefficients, channel),
                             v_color[channel]);
        Vector3<T> v_offset = {none, none, none};
        T weights[COUNT];
        for (int k = 0; k < COUNT; ++k)
            weights[k] = coefficient_gradient(basis[k], coefficients + 3 * k, v_color, coefficients + 3 * k);
        if (!view.orthographic) v_offset = offset_gradient<DEGREE>(view, direction, inverse_length, weights);

        T mean[3] = {where(visible, v.mean.x) + v_offset.x, where(visible, v.mean.y) + v_offset.y,
                     where(visible, v.mean.z) + v_offset.z};
        T log_scale[3] = {where(visible, v.log_scale.x), where(visible, v.log_scale.y),
                          where(visible, v.log_scale.z)};
        T quat[4] = {where(visible, v.quaternion.w), where(visible, v.quaternion.x),
                     where(visible, v.quaternion.y), where(visible, v.quaternion.z)};
        T logit[1] = {where(visible, v.opacity_logit)};
        store_rows<3, false>(mean, out.means, 3, count);
        store_rows<3, false>(log_scale, out.log_scales, 3, count);
        store_rows<4, false>(quat, out.quats_wxyz, 4, count);
        store_rows<1, false>(logit, out.opacity_logits, 1, count);
        store_rows<3 * COUNT, false>(coefficients, out.sh, stride, count);
        return silent;
    }

    template <int DEGREE>
    void update_range(int64_t begin, int64_t end) const {
        BlockGradient<S> gradient;
        for (S& number : gradient.sh) number = S(0);  // coefficients above the degree keep a gradient of 0
        for (int64_t start = begin; start < end; start += LANES) {
            const int count = end - start < LANES ? int(end - start) : LANES;
            const WideTruth<S> silent = differentiate<DEGREE>(start, count, gradient);
            if (!args.sparse) {
                update_splats(gradient, start, 0, count);
                continue;
            }
            for (int lane = 0; lane < count;) {  // runs of splats that were seen
                const int first = lane;
                const bool seen = !silent.bits[lane];
                while (lane < count && !silent.bits[lane] == seen) ++lane;
                if (seen) update_splats(gradient, start, first, lane);
            }
        }
    }

    void run() const {
        parallel_for(chunk_count(args.count), 1, [&](int64_t begin, int64_t end, int) {
            const int64_t first = begin * CHUNK, last = end * CHUNK < args.count ? end * CHUNK : args.count;
            switch (args.degree) {
                case 0: return update_range<0>(first, last);
                case 1: return update_range<1>(first, last);
                case 2: return update_range<2>(first, last);
                default: return update_range<3>(first, last);
            }
        });
    }
};

template <class S>
int run_update_splats(const UpdateSplatsArgs<S>& args) {
    if (args.degree < 0 || args.degree > SH_DEGREE_MAX)
        return fail(STATUS_BAD_ARGUMENT, "SH degree must be 0 to %d, got %d", SH_DEGREE_MAX,
                    int(args.degree));
    if (args.coefficients < (args.degree + 1) * (args.degree + 1) || args.coefficients > COEFFICIENTS_MAX)
        return fail(STATUS_BAD_ARGUMENT, "SH degree %d needs %d to %d coefficients, got %d", int(args.degree),
                    int((args.degree + 1) * (args.degree + 1)), COEFFICIENTS_MAX, int(args.coefficients));
    Updater<S>(args).run();
    return STATUS_OK;
}

}  // namespace

int update_splats(const UpdateSplatsArgs<float>& args) { return run_update_splats(args); }
int update_splats(const UpdateSplatsArgs<double>& args) { return run_update_splats(args); }

SPLAT_END_ISA
