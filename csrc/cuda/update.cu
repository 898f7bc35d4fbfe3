// update_splats: the backward of project and of sh_colors, and Adam's update of all parameters. The 59 numbers of a splat's
// gradient never leave the chip.
//
// Grid: one thread a splat, blocks of two warps. Shared memory: 6.3 KB a warp in float, first for rows of coefficients and
// their gradients, then for those of the other parameters.
// Phases of a warp:
//   1. which of its splats any pixel saw; with `sparse` the others are left out, and a warp without any returns
//   2. the rows of coefficients of splats whose colour has a gradient into shared memory
//   3. a lane a splat: gradient of the colour, which replaces the row
//   4. all lanes along the rows: Adam of the coefficients. Their moments pass as whole lines of memory
//   5. a lane a splat: gradient of the other parameters, 11 numbers, into shared memory
//   6. all lanes along each of the four arrays: Adam, and the floors of the log-scales
// Since each phase begins anew from memory or shared memory, phase 3 and 5 never hold their registers at the same time.
//
// 59 parameters of 24 bytes (three numbers in, three out) and 44 bytes of gradients and radii: 1460 bytes a splat, and 236
// that are read a second time, out of the caches; 950 operations for the gradients and 59 x 15 for Adam. A card of 4.8 TB/s
// and 67 TFLOP/s needs 0.30 ms for a million splats by bytes and 0.03 ms by operations. (Operations are counted in the PTX, a
// multiply-add as two, as for the other kernels of splats.)
//
// Sources: Kingma and Ba 2015, "Adam"; Mallick et al. 2024, "Taming 3DGS" (sparse Adam); the fusion is the one of
// csrc/cpu/update_kernel.cpp.
#include "../include/adam.h"
#include "../include/op_args.h"
#include "splat_rows.h"

SPLAT_BEGIN_ISA

constexpr int UPDATE_THREADS = 64;
constexpr int MEAN_AT = 0, LOG_SCALE_AT = 3, QUAT_AT = 6,
              LOGIT_AT = 10;  // in a row of the other parameters' gradients
constexpr int GEOMETRY_PITCH = 11;

// One group of parameters of a warp's splats, from its first splat on.
template <class T>
struct Group {
    T* parameter;
    T* first;
    T* second;
    const T* floors;  // below which no parameter of a splat may end, or null
    T step_size;      // of columns 3 and above
    T leading_step;   // of columns 0 to 2
};

// Adam over the rows in `updated`. The gradients of columns 0 to `columns` - 1 of the rows in `moved` lie in the tile, from
// `gradients` on; all others are 0.
template <class T>
SPLAT_DEVICE void update_rows(const UpdateSplatsArgs<T>& args, const Group<T>& group, const RowShape& shape,
                              unsigned updated, unsigned moved, int columns, const T* gradients) {
#pragma unroll 4
    for (int i = lane_of_warp(); i < WARP * shape.size; i += WARP) {
        const int row = shape.row(i);
        if (!(updated >> row & 1)) continue;
        const int column = i - row * shape.size;
        const bool is_moved = (moved >> row & 1) && column < columns;
        const T gradient = is_moved ? gradients[shape.place(i, row)] : T(0);
        const T step_size = column < 3 ? group.leading_step : group.step_size;
        const AdamStep<T> step = {args.rate1, args.beta2, args.rate2, args.eps, step_size, args.inverse_root};
        T parameter = group.parameter[i], first = group.first[i], second = group.second[i];
        adam_update(step, gradient, parameter, first, second);
        if (group.floors && parameter < group.floors[row]) parameter = group.floors[row];
        group.parameter[i] = parameter;
        group.first[i] = first;
        group.second[i] = second;
    }
}

// Whether anything arrives at a splat from the screen.
template <class T>
SPLAT_DEVICE bool is_seen(const UpdateSplatsArgs<T>& args, int64_t i, const T (&v_color)[3]) {
    const ScreenSplat<T> v = load_screen_gradient<T>(args, i);
    const T numbers[] = {v.mean_x,   v.mean_y,   v.depth,    v.conic_xx, v.conic_xy, v.conic_yy, v.opacity,
                         v.normal.x, v.normal.y, v.normal.z, v_color[0], v_color[1], v_color[2]};
    bool seen = false;
    for (const T number : numbers) seen |= number != T(0);
    return seen;
}

// Phases 2 to 4; returns the gradient of the lane's mean through its colour.
template <class T>
SPLAT_DEVICE Vector3<T> update_coefficients(const UpdateSplatsArgs<T>& args, int64_t first, unsigned updated,
                                            T (&v_color)[3], T* tile) {
    const int lane = lane_of_warp();
    const RowShape shape = coefficient_rows(args.degree);
    const int stride = 3 * args.coefficients;
    const bool is_moved = v_color[0] != T(0) || v_color[1] != T(0) || v_color[2] != T(0);
    const unsigned moved = __ballot_sync(FULL_WARP, is_moved);
    const int64_t start = first * stride;
    stage_rows(args.sh + start, stride, shape, moved, tile);
    Vector3<T> v_offset = {};
    if (is_moved) {
        const ViewPoint<T> view = read_view_point(args.viewmat, args.orthographic != 0);
        v_offset = color_gradient(view, load_vector(args.means, first + lane), args.degree, args.decode != 0,
                                  v_color, tile + lane * shape.pitch);
        if (view.orthographic) v_offset = {};
    }
    __syncwarp();
    const Group<T> group = {args.sh + start, args.first_sh + start, args.second_sh + start,
                            nullptr,         args.step_sh,          args.step_sh_constant};
    update_rows(args, group, row_shape(stride, shape.pitch), updated, moved, shape.size, tile);
    return v_offset;
}

// Phase 5. What came through the colour waits in the row meanwhile, not in registers.
template <class T>
SPLAT_DEVICE void differentiate_geometry(const UpdateSplatsArgs<T>& args, int64_t i,
                                         const Vector3<T>& v_offset, T* row) {
    row[MEAN_AT] = v_offset.x;
    row[MEAN_AT + 1] = v_offset.y;
    row[MEAN_AT + 2] = v_offset.z;
    Splat<T> v = {};
    if (args.radii[2 * i] > T(0)) {
        CameraGradient<T> v_camera;  // unused, and so never computed
        v = project_splat_gradient(read_camera(args, args.viewmat), load_splat<T>(args, i),
                                   load_screen_gradient<T>(args, i), args.v_normals != nullptr, v_camera);
    }
    row[MEAN_AT] += v.mean.x;
    row[MEAN_AT + 1] += v.mean.y;
    row[MEAN_AT + 2] += v.mean.z;
    row[LOG_SCALE_AT] = v.log_scale.x;
    row[LOG_SCALE_AT + 1] = v.log_scale.y;
    row[LOG_SCALE_AT + 2] = v.log_scale.z;
    row[QUAT_AT] = v.quaternion.w;
    row[QUAT_AT + 1] = v.quaternion.x;
    row[QUAT_AT + 2] = v.quaternion.y;
    row[QUAT_AT + 3] = v.quaternion.z;
    row[LOGIT_AT] = v.opacity_logit;
}

// Phase 6.
template <class T>
SPLAT_DEVICE void update_geometry(const UpdateSplatsArgs<T>& args, int64_t first, unsigned updated,
                                  const T* tile) {
    const T* const floors = args.log_scale_floors ? args.log_scale_floors + first : nullptr;
    const Group<T> means = {args.means + 3 * first,
                            args.first_means + 3 * first,
                            args.second_means + 3 * first,
                            nullptr,
                            args.step_means,
                            args.step_means};
    const Group<T> log_scales = {args.log_scales + 3 * first,
                                 args.first_log_scales + 3 * first,
                                 args.second_log_scales + 3 * first,
                                 floors,
                                 args.step_log_scales,
                                 args.step_log_scales};
    const Group<T> quats = {args.quats_wxyz + 4 * first,
                            args.first_quats_wxyz + 4 * first,
                            args.second_quats_wxyz + 4 * first,
                            nullptr,
                            args.step_quats_wxyz,
                            args.step_quats_wxyz};
    const Group<T> logits = {args.opacity_logits + first,        args.first_opacity_logits + first,
                             args.second_opacity_logits + first, nullptr,
                             args.step_opacity_logits,           args.step_opacity_logits};
    const RowShape threes = row_shape(3, GEOMETRY_PITCH), fours = row_shape(4, GEOMETRY_PITCH),
                   ones = row_shape(1, GEOMETRY_PITCH);
    update_rows(args, means, threes, updated, updated, 3, tile + MEAN_AT);
    update_rows(args, log_scales, threes, updated, updated, 3, tile + LOG_SCALE_AT);
    update_rows(args, quats, fours, updated, updated, 4, tile + QUAT_AT);
    update_rows(args, logits, ones, updated, updated, 1, tile + LOGIT_AT);
}

template <class T>
SPLAT_DEVICE void update_splats(const UpdateSplatsArgs<T>& args) {
    __shared__ T tiles[UPDATE_THREADS / WARP][TILE_SIZE];
    T* const tile = tiles[warp_of_block()];
    const int lane = lane_of_warp();
    const int i = int(global_thread()), first = i - lane;  // 2^31 splats would take 1.5 TB
    T v_color[3] = {T(0), T(0), T(0)};
    bool is_updated = i < args.count;
    if (is_updated) {
        if (args.v_colors) {
            const Vector3<T> v = load_vector(args.v_colors, i);
            v_color[0] = v.x;
            v_color[1] = v.y;
            v_color[2] = v.z;
        }
        if (args.sparse) is_updated = is_seen(args, i, v_color);
    }
    const unsigned updated = __ballot_sync(FULL_WARP, is_updated);
    if (!updated) return;
    const Vector3<T> v_offset = update_coefficients(args, first, updated, v_color, tile);
    __syncwarp();
    if (updated >> lane & 1) differentiate_geometry(args, i, v_offset, tile + lane * GEOMETRY_PITCH);
    __syncwarp();
    update_geometry(args, first, updated, tile);
}

SPLAT_END_ISA

SPLAT_KERNEL(update_splats, splat::SPLAT_ISA::update_splats, UpdateSplatsArgs,
             splat::SPLAT_ISA::UPDATE_THREADS)
