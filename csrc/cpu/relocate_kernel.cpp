// relocate: each splat's copies, by relocation.h. At most a few thousand splats now and then: no vectors.
#include "../include/relocation.h"
#include "kernels.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int64_t LEAST_PER_THREAD = 256;  // splats; some 20 us

template <class S>
int run_relocate(const RelocateArgs<S>& args) {
    parallel_for(args.count, LEAST_PER_THREAD, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            double opacity, ratio;
            relocation(double(args.opacities[i]), args.counts[i], opacity, ratio);
            args.new_opacities[i] = S(opacity);
            for (int axis = 0; axis < 3; ++axis)
                args.new_scales[3 * i + axis] = S(double(args.scales[3 * i + axis]) * ratio);
        }
    });
    return STATUS_OK;
}

}  // namespace

int relocate(const RelocateArgs<float>& args) { return run_relocate(args); }
int relocate(const RelocateArgs<double>& args) { return run_relocate(args); }

SPLAT_END_ISA
