// relocate: each splat's copies, by relocation.h.
//
// Grid: one thread a splat. No shared memory. 36 bytes a splat, and up to 51 terms of a sum in double, some 30 operations
// each: on a card with few double units that takes longer than the memory, of splats that are a few in a hundred, once in a
// hundred steps.
//
// Source: Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", equation 9.
#include "../include/op_args.h"
#include "../include/relocation.h"
#include "device.h"

SPLAT_BEGIN_ISA

template <class T>
SPLAT_DEVICE void relocate(const RelocateArgs<T>& args) {
    const int64_t i = global_thread();
    if (i >= args.count) return;
    double opacity, ratio;
    relocation(double(args.opacities[i]), args.counts[i], opacity, ratio);
    args.new_opacities[i] = T(opacity);
    for (int axis = 0; axis < 3; ++axis)
        args.new_scales[3 * i + axis] = T(double(args.scales[3 * i + axis]) * ratio);
}

SPLAT_END_ISA

SPLAT_KERNEL(relocate, splat::SPLAT_ISA::relocate, RelocateArgs, 128)
