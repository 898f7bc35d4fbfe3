// The sums over splats that become a camera's gradient.
#pragma once

#include "wide.h"

SPLAT_BEGIN_ISA

// Splats that one partial sum of a camera gradient covers. Sums are formed for each chunk and added in the
// order of the chunks, so they do not depend on the number of threads.
constexpr int64_t CHUNK = 1024;

SPLAT_FN int64_t chunk_count(int64_t count) { return (count + CHUNK - 1) / CHUNK; }

// totals[i] = sum of partial[chunk][i] over the chunks, in their order.
template <int SIZE>
SPLAT_FN void sum_chunks(const double (*partial)[SIZE], int64_t chunks, double (&totals)[SIZE]) {
    for (int i = 0; i < SIZE; ++i) totals[i] = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int i = 0; i < SIZE; ++i) totals[i] += partial[chunk][i];
}

SPLAT_END_ISA
