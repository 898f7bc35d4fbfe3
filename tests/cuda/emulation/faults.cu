// Small kernels that are sound while `fault` is 0 and break one rule of CUDA each while it is 1: what the emulation must
// report. One subject a kernel; blocks of up to 64 threads, which are two warps.
#include "../../../csrc/cuda/device.h"

namespace splat {

template <class T>
struct FaultArgs {
    int64_t count;  // numbers
    int64_t fault;  // 0: sound, 1: the fault
    const T* in;    // [count]
    T* out;         // [count]
};

}  // namespace splat

SPLAT_BEGIN_ISA

constexpr int THREADS = 64;

// Each thread reads what its left neighbour has written: right by luck where threads take their turns from left to right.
template <class T>
SPLAT_DEVICE void missing_barrier(const FaultArgs<T>& args) {
    __shared__ T staged[THREADS];
    const int i = int(threadIdx.x);
    staged[i] = args.in[i];
    if (!args.fault) __syncthreads();
    args.out[i] = staged[i > 0 ? i - 1 : 0];
}

// Batches through one buffer: the second batch must not be written before all have read the first.
template <class T>
SPLAT_DEVICE void missing_second_barrier(const FaultArgs<T>& args) {
    __shared__ T staged[THREADS];
    const int i = int(threadIdx.x);
    for (int64_t first = 0; first < args.count; first += THREADS) {
        staged[i] = args.in[first + i];
        __syncthreads();
        args.out[first + i] = staged[THREADS - 1 - i];
        if (!args.fault) __syncthreads();
    }
}

// Two barriers where all threads must come to one.
template <class T>
SPLAT_DEVICE void divergent_barrier(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    if (args.fault && i >= WARP) {
        __syncthreads();
        args.out[i] = args.in[i];
    } else {
        __syncthreads();
        args.out[i] = args.in[i];
    }
}

// Threads without work leave, and the others wait for them.
template <class T>
SPLAT_DEVICE void exit_before_barrier(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    if (args.fault && i >= 60) return;
    __syncthreads();
    args.out[i] = args.in[i];
}

// A sum over the warp after a lane has left.
template <class T>
SPLAT_DEVICE void exited_lane(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    if (args.fault && i == 31) return;
    const T sum = warp_sum(args.in[i]);
    if (i % WARP == 0) args.out[i / WARP] = sum;
}

// Half of a warp shuffles where the other half does not.
template <class T>
SPLAT_DEVICE void divergent_shuffle(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    T value = args.in[i];
    if (!args.fault || i % 2)
        value = __shfl_xor_sync(FULL_WARP, value, 1);
    else
        value = T(__popc(__ballot_sync(FULL_WARP, value > T(0))));
    args.out[i] = value;
}

// A mask without the lane that calls.
template <class T>
SPLAT_DEVICE void own_lane_left_out(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    args.out[i] = T(__ballot_sync(args.fault ? 0xfffffffeu : FULL_WARP, 1) != 0);
}

// A shuffle from a lane that takes no part.
template <class T>
SPLAT_DEVICE void source_left_out(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    if (i % WARP < 16)
        args.out[i] = __shfl_sync(0x0000ffffu, args.in[i], args.fault ? 16 : 15);
    else
        args.out[i] = args.in[i];
}

// A number that nobody has written.
template <class T>
SPLAT_DEVICE void never_written(const FaultArgs<T>& args) {
    __shared__ T staged[THREADS];
    const int i = int(threadIdx.x);
    if (!args.fault || i != 7) staged[i] = args.in[i];
    __syncthreads();
    T sum = T(0);
    for (int other = 0; other < THREADS; other++) sum += staged[other];
    args.out[i] = sum;
}

// The same in dynamic shared memory.
template <class T>
SPLAT_DEVICE void never_written_dynamic(const FaultArgs<T>& args) {
    SPLAT_DYNAMIC_SHARED(memory);
    T* const staged = reinterpret_cast<T*>(memory);
    const int i = int(threadIdx.x);
    if (!args.fault || i != 7) staged[i] = args.in[i];
    __syncthreads();
    args.out[i] = staged[THREADS - 1 - i];
}

// Lanes of one warp exchange through shared memory; without __syncwarp, they may read before the others write.
template <class T>
SPLAT_DEVICE void race_in_warp(const FaultArgs<T>& args) {
    __shared__ T staged[THREADS];
    const int i = int(threadIdx.x);
    staged[i] = args.in[i];
    if (!args.fault) __syncwarp();
    args.out[i] = staged[i ^ 1];
}

// The same, with a shuffle in the barrier's place: a shuffle makes lanes meet but does not order memory. No value tells it
// here.
template <class T>
SPLAT_DEVICE void shuffle_is_no_barrier(const FaultArgs<T>& args) {
    __shared__ T staged[THREADS];
    const int i = int(threadIdx.x);
    staged[i] = args.in[i];
    const T sum = warp_sum(args.in[i]);
    if (!args.fault) __syncwarp();
    args.out[i] = staged[i ^ 1] + T(0) * sum;
}

// All lanes write one word, and the same number: no value tells it.
template <class T>
SPLAT_DEVICE void same_word(const FaultArgs<T>& args) {
    __shared__ T word[1];
    const int i = int(threadIdx.x);
    if (args.fault || i == 0) word[0] = args.in[0];
    __syncthreads();
    args.out[i] = word[0];
}

// Blocks add to one number.
template <class T>
SPLAT_DEVICE void race_of_blocks(const FaultArgs<T>& args) {
    if (threadIdx.x) return;
    if (args.fault)
        args.out[0] += args.in[blockIdx.x];
    else
        atomicAdd(args.out, args.in[blockIdx.x]);
}

// The last thread writes one past the end of global memory.
template <class T>
SPLAT_DEVICE void past_the_end(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    args.out[i + args.fault] = args.in[i];
}

// An index beyond a shared array.
template <class T>
SPLAT_DEVICE void past_a_shared_array(const FaultArgs<T>& args) {
    __shared__ T staged[THREADS];
    __shared__ T other[THREADS];
    const int i = int(threadIdx.x);
    other[i] = args.in[i];
    staged[i + args.fault] = other[i];
    __syncthreads();
    args.out[i] = staged[i];
}

// The null pointer.
template <class T>
SPLAT_DEVICE void null_pointer(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    const T* const from = args.fault && i == 5 ? nullptr : args.in;
    args.out[i] = from[i];
}

// A loop without an end.
template <class T>
SPLAT_DEVICE void endless(const FaultArgs<T>& args) {
    const int i = int(threadIdx.x);
    const volatile T* const number = args.in + i;
    while (args.fault && i == 3 && *number > T(0)) continue;
    args.out[i] = args.in[i];
}

SPLAT_END_ISA

SPLAT_KERNEL(missing_barrier, splat::SPLAT_ISA::missing_barrier, FaultArgs, 64)
SPLAT_KERNEL(missing_second_barrier, splat::SPLAT_ISA::missing_second_barrier, FaultArgs, 64)
SPLAT_KERNEL(divergent_barrier, splat::SPLAT_ISA::divergent_barrier, FaultArgs, 64)
SPLAT_KERNEL(exit_before_barrier, splat::SPLAT_ISA::exit_before_barrier, FaultArgs, 64)
SPLAT_KERNEL(exited_lane, splat::SPLAT_ISA::exited_lane, FaultArgs, 64)
SPLAT_KERNEL(divergent_shuffle, splat::SPLAT_ISA::divergent_shuffle, FaultArgs, 64)
SPLAT_KERNEL(own_lane_left_out, splat::SPLAT_ISA::own_lane_left_out, FaultArgs, 64)
SPLAT_KERNEL(source_left_out, splat::SPLAT_ISA::source_left_out, FaultArgs, 64)
SPLAT_KERNEL(never_written, splat::SPLAT_ISA::never_written, FaultArgs, 64)
SPLAT_KERNEL(never_written_dynamic, splat::SPLAT_ISA::never_written_dynamic, FaultArgs, 64)
SPLAT_KERNEL(race_in_warp, splat::SPLAT_ISA::race_in_warp, FaultArgs, 64)
SPLAT_KERNEL(shuffle_is_no_barrier, splat::SPLAT_ISA::shuffle_is_no_barrier, FaultArgs, 64)
SPLAT_KERNEL(same_word, splat::SPLAT_ISA::same_word, FaultArgs, 64)
SPLAT_KERNEL(race_of_blocks, splat::SPLAT_ISA::race_of_blocks, FaultArgs, 64)
SPLAT_KERNEL(past_the_end, splat::SPLAT_ISA::past_the_end, FaultArgs, 64)
SPLAT_KERNEL(past_a_shared_array, splat::SPLAT_ISA::past_a_shared_array, FaultArgs, 64)
SPLAT_KERNEL(null_pointer, splat::SPLAT_ISA::null_pointer, FaultArgs, 64)
SPLAT_KERNEL(endless, splat::SPLAT_ISA::endless, FaultArgs, 64)
