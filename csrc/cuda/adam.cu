// One parameter's Adam update (csrc/include/adam.h), in place.
//
// Grid: one thread a number, rows x row_size of them. No shared memory. 28 bytes a number go through memory (parameter, two
// moments in and out, the gradient in), so the kernel runs at the speed of memory and nothing else matters.
// A warp's numbers are one line of 128 bytes, which a request of four numbers a lane would only make into four; with 16 bytes
// under way for each of an SM's 1024 to 2048 threads there is as much in flight as a card's latency and bandwidth ask for.
//
// Source: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1; leaving out rows that no pixel saw:
// Mallick et al. 2024, "Taming 3DGS".
#include "../include/adam.h"
#include "../include/op_args.h"
#include "device.h"

SPLAT_BEGIN_ISA

template <class T>
SPLAT_DEVICE void adam_step(const AdamStepArgs<T>& args) {
    const int64_t i = global_thread();
    if (i >= args.rows * args.row_size) return;
    if (args.visible && !args.visible[i / args.row_size]) return;
    const AdamStep<T> step = {args.rate1, args.beta2,     args.rate2,
                              args.eps,   args.step_size, args.inverse_root};
    T parameter = args.parameter[i], first = args.exp_avg[i], second = args.exp_avg_sq[i];
    adam_update(step, args.gradient[i], parameter, first, second);
    args.parameter[i] = parameter;
    args.exp_avg[i] = first;
    args.exp_avg_sq[i] = second;
}

SPLAT_END_ISA

SPLAT_KERNEL(adam_step, splat::SPLAT_ISA::adam_step, AdamStepArgs, 256)
