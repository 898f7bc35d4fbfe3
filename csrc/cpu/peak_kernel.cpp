// peak_fma: how many multiply-adds a second this instruction set can do, for the benchmark.
//
// Each thread keeps REGISTERS vectors that depend on themselves alone. A multiply-add takes 4 cycles on two units (a
// multiplication and an addition 8, where there is no fused one): 8 in flight fill the units, 12 leave room, and with factor
// and addend they fit into the 16 registers of SSE and AVX2.
#include "kernels.h"
#include "vec.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int REGISTERS = 12;

template <class T>
T multiply_add(int64_t rounds, T factor, T addend) {
    using M = Simd<T>;
    using V = typename M::V;
    const V factors = M::broadcast(factor), addends = M::broadcast(addend);
    V values[REGISTERS];
    for (int k = 0; k < REGISTERS; ++k) values[k] = M::broadcast(addend * T(k + 1));
    for (int64_t round = 0; round < rounds; ++round)
        for (int k = 0; k < REGISTERS; ++k) values[k] = values[k] * factors + addends;
    T sum = 0;
    for (int k = 0; k < REGISTERS; ++k)
        for (int lane = 0; lane < M::LANES; ++lane) sum += values[k][lane];
    return sum;
}

template <class T>
int run_peak_fma(const PeakFmaArgs<T>& args) {
    const long long rounds = args.rounds;
    if (rounds < 0) return fail(STATUS_BAD_ARGUMENT, "expected 0 rounds or more, got %lld", rounds);
    if (!args.operations || !args.sum) return fail(STATUS_BAD_ARGUMENT, "operations or sum is null");
    const int threads = thread_count();
    Buffer<T> sums;
    if (!sums.resize(threads)) return fail(STATUS_OUT_OF_MEMORY, "no memory for a sum a thread");
    on_threads(threads,
               [&](int thread, int) { sums[thread] = multiply_add(args.rounds, args.factor, args.addend); });
    *args.sum = sums[0];
    *args.operations = 2 * args.rounds * REGISTERS * Simd<T>::LANES * threads;
    return STATUS_OK;
}

}  // namespace

int peak_fma(const PeakFmaArgs<float>& args) { return run_peak_fma(args); }
int peak_fma(const PeakFmaArgs<double>& args) { return run_peak_fma(args); }

SPLAT_END_ISA
