// Blocks of splats between memory and the formulas of projection.h, for any argument structure with the fields of project.
#pragma once

#include "../include/camera.h"
#include "camera_arrays.h"
#include "wide.h"

SPLAT_BEGIN_ISA

template <class S, class Args>
SPLAT_FN Splat<Wide<S>> load_splats(const Args& args, int64_t first, int count) {
    using T = Wide<S>;
    T mean[3], log_scale[3], quat[4], logit[1];
    load_rows<3>(args.means + first * 3, 3, count, mean);
    load_rows<3>(args.log_scales + first * 3, 3, count, log_scale);
    load_rows<4>(args.quats_wxyz + first * 4, 4, count, quat);
    load_rows<1>(args.opacity_logits + first, 1, count, logit);
    return {{mean[0], mean[1], mean[2]},
            {log_scale[0], log_scale[1], log_scale[2]},
            {quat[0], quat[1], quat[2], quat[3]},
            logit[0]};
}

// Gradients that arrive from the screen; those that are null count as zero.
template <class S, class Args>
SPLAT_FN ScreenSplat<Wide<S>> load_screen_gradient(const Args& args, int64_t first, int count) {
    using T = Wide<S>;
    T mean[2] = {T(0), T(0)}, depth[1] = {T(0)}, conic[3] = {T(0), T(0), T(0)}, opacity[1] = {T(0)};
    T normal[3] = {T(0), T(0), T(0)};
    if (args.v_means2d) load_rows<2>(args.v_means2d + first * 2, 2, count, mean);
    if (args.v_depths) load_rows<1>(args.v_depths + first, 1, count, depth);
    if (args.v_conics) load_rows<3>(args.v_conics + first * 3, 3, count, conic);
    if (args.v_opacities) load_rows<1>(args.v_opacities + first, 1, count, opacity);
    if (args.v_normals) load_rows<3>(args.v_normals + first * 3, 3, count, normal);
    return {mean[0],  mean[1],  depth[0],   conic[0],
            conic[1], conic[2], opacity[0], {normal[0], normal[1], normal[2]},
            T(0),     T(0),     T(0),       T(0)};
}

SPLAT_END_ISA
