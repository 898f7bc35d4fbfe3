// Sums over a whole picture in two steps and always in the same order: each block writes what its threads add up to, and
// one block adds those in double. No atomics, so the figures are the same in every bit from run to run.
#pragma once

#include "device.h"

SPLAT_BEGIN_ISA

// Block sums of FIGURES numbers a thread, in thread 0. Called once a kernel, by all threads; a block of BLOCK threads.
// A block adds some thousand numbers in a tree of additions, which float does to a few 1e-7.
template <int BLOCK, int FIGURES, class T>
SPLAT_DEVICE void block_sums(T (&figures)[FIGURES]) {
    __shared__ T of_warps[BLOCK / WARP][FIGURES];
#pragma unroll
    for (int f = 0; f < FIGURES; ++f) {
        figures[f] = warp_sum(figures[f]);
        if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP][f] = figures[f];
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
#pragma unroll
    for (int warp = 1; warp < BLOCK / WARP; ++warp)
#pragma unroll
        for (int f = 0; f < FIGURES; ++f) figures[f] += of_warps[warp][f];
}

// As block_sums, and thread 0 writes them to sums[number][FIGURES].
template <int BLOCK, int FIGURES, class T>
SPLAT_DEVICE void write_block_sums(T (&figures)[FIGURES], int64_t number, T* sums) {
    block_sums<BLOCK>(figures);
    if (threadIdx.x > 0) return;
#pragma unroll
    for (int f = 0; f < FIGURES; ++f) sums[number * FIGURES + f] = figures[f];
}

// Sums of [count, FIGURES] numbers by one block, in thread 0.
template <int BLOCK, int FIGURES, class T>
SPLAT_DEVICE void sum_rows(const T* rows, int64_t count, double (&totals)[FIGURES]) {
#pragma unroll
    for (double& total : totals) total = 0;
    for (int64_t i = threadIdx.x; i < count; i += BLOCK)
#pragma unroll
        for (int f = 0; f < FIGURES; ++f) totals[f] += double(rows[i * FIGURES + f]);
    block_sums<BLOCK>(totals);
}

SPLAT_END_ISA
