// Blocks of splats between memory and the formulas of sh_color.h.
#pragma once

#include "../include/sh_color.h"
#include "camera_arrays.h"
#include "wide.h"

SPLAT_BEGIN_ISA

template <class S>
SPLAT_FN Vector3<Wide<S>> directions(const ViewPoint<S>& view, const S* means, int count,
                                     Wide<S>& inverse_length) {
    using T = Wide<S>;
    T mean[3] = {T(0), T(0), T(0)};
    if (!view.orthographic) load_rows<3>(means, 3, count, mean);
    return view_direction(view, Vector3<T>{mean[0], mean[1], mean[2]}, inverse_length);
}

SPLAT_END_ISA
