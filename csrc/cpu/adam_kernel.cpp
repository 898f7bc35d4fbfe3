// adam_step: one pass over parameters, gradients and both moments; bound by memory (28 bytes a float
// parameter).
#include "../include/adam.h"
#include "kernels.h"
#include "wide.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int64_t LEAST_PER_THREAD = 1 << 14;  // numbers; below that a thread costs more than it saves

template <class S>
void update_range(const AdamStepArgs<S>& args, const AdamStep<S>& step, int64_t begin, int64_t end) {
    using T = Wide<S>;
    int64_t i = begin;
    for (; i + T::LANES <= end; i += T::LANES) {
        T parameter = T::load(args.parameter + i), first = T::load(args.exp_avg + i),
          second = T::load(args.exp_avg_sq + i);
        adam_update(step, T::load(args.gradient + i), parameter, first, second);
        parameter.store(args.parameter + i);
        first.store(args.exp_avg + i);
        second.store(args.exp_avg_sq + i);
    }
    for (; i < end; ++i)
        adam_update(step, args.gradient[i], args.parameter[i], args.exp_avg[i], args.exp_avg_sq[i]);
}

template <class S>
int run_adam_step(const AdamStepArgs<S>& args) {
    const AdamStep<S> step = {args.rate1, args.beta2,     args.rate2,
                              args.eps,   args.step_size, args.inverse_root};
    if (!args.visible) {
        parallel_for(args.rows * args.row_size, LEAST_PER_THREAD,
                     [&](int64_t begin, int64_t end, int) { update_range(args, step, begin, end); });
        return STATUS_OK;
    }
    const int64_t size = args.row_size;
    parallel_for(args.rows, LEAST_PER_THREAD / (size > 0 ? size : 1) + 1,
                 [&](int64_t begin, int64_t end, int) {
        // Runs of visible rows are updated as one.
        for (int64_t row = begin; row < end;) {
            const int64_t start = row;
            const bool visible = args.visible[row] != 0;
            while (row < end && (args.visible[row] != 0) == visible) ++row;
            if (visible) update_range(args, step, start * size, row * size);
        }
    });
    return STATUS_OK;
}

}  // namespace

int adam_step(const AdamStepArgs<float>& args) { return run_adam_step(args); }
int adam_step(const AdamStepArgs<double>& args) { return run_adam_step(args); }

SPLAT_END_ISA
