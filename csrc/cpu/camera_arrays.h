// Cameras as the ABI passes them, and the sums that become the camera's gradient.
#pragma once

#include "../include/small_vector.h"
#include "wide.h"

SPLAT_BEGIN_ISA

// Splats that one partial sum of a camera gradient covers. Sums are formed for each chunk and added in the
// order of the chunks, so they do not depend on the number of threads.
constexpr int64_t CHUNK = 1024;

SPLAT_FN int64_t chunk_count(int64_t count) { return (count + CHUNK - 1) / CHUNK; }

// Rows 0 to 2 of a row-major [4,4] matrix.
template <class S>
SPLAT_FN void read_viewmat(const S* viewmat, Matrix3<S>& rotation, Vector3<S>& translation) {
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column) rotation.m[row][column] = viewmat[row * 4 + column];
    translation = {viewmat[3], viewmat[7], viewmat[11]};
}

// totals[i] = sum of partial[chunk][i] over the chunks, in their order.
template <int SIZE>
SPLAT_FN void sum_chunks(const double (*partial)[SIZE], int64_t chunks, double (&totals)[SIZE]) {
    for (int i = 0; i < SIZE; ++i) totals[i] = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int i = 0; i < SIZE; ++i) totals[i] += partial[chunk][i];
}

SPLAT_END_ISA
