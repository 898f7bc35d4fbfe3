// sh_colors: spherical harmonics to colours (csrc/include/sh_color.h), forward, and backward with the camera's gradient where
// that is wanted; and project_colors_fwd, which is project_fwd and sh_colors_fwd in one.
//
// Grid: one thread a splat, blocks of two warps. Shared memory: a warp's rows of coefficients, 6.3 KB a warp in float
// (splat_rows.h says why).
// Phases of a warp: 1. its splats to the screen (project_colors_fwd alone)  2. the rows of coefficients into shared memory, in
// project_colors_fwd those of culled splats left out  3. a colour, or its gradient, a lane, which replaces the row by the row
// of its gradient  4. backward: the rows out to memory.
//
// sh_colors_fwd, degree 3:       12 + 192 bytes a splat in, 12 out, 150 operations (and 55 to decode).
// sh_colors_bwd, degree 3:       216 bytes in, 204 out, 460 operations.
// project_colors_fwd, degree 3:  44 bytes in, 192 more for a splat that is not culled, 48 out, 540 operations. Against the
//                                two kernels it saves the second reading of the means and the coefficients of what is culled.
//
// Sources: Kerbl et al. 2023, "3D Gaussian Splatting" (colour and culling in one preprocessing kernel).
#include "../include/op_args.h"
#include "args.h"
#include "splat_rows.h"

SPLAT_BEGIN_ISA

constexpr int SH_THREADS = 64;

template <class T>
SPLAT_DEVICE void sh_colors_fwd(const ShColorsFwdArgs<T>& args) {
    __shared__ T tiles[SH_THREADS / WARP][TILE_SIZE];
    T* const tile = tiles[warp_of_block()];
    const int lane = lane_of_warp();
    const int64_t i = global_thread(), first = i - lane;
    const RowShape shape = coefficient_rows(args.degree);
    const int stride = 3 * args.coefficients;
    const bool is_splat = i < args.count;
    const unsigned wanted = __ballot_sync(FULL_WARP, is_splat);
    stage_rows(args.sh + first * stride, stride, shape, wanted, tile);
    if (!is_splat) return;
    const ViewPoint<T> view = read_view_point(args.viewmat, args.orthographic != 0);
    const Vector3<T> color =
        color_of(view, load_vector(args.means, i), args.degree, args.decode != 0, tile + lane * shape.pitch);
    store_vector(color, args.colors, i);
}

template <class T>
SPLAT_DEVICE void project_colors_fwd(const ProjectColorsFwdArgs<T>& args) {
    __shared__ T tiles[SH_THREADS / WARP][TILE_SIZE];
    T* const tile = tiles[warp_of_block()];
    const int lane = lane_of_warp();
    const int64_t i = global_thread(), first = i - lane;
    const bool is_splat = i < args.count;
    bool visible = false;
    Vector3<T> mean = {}, color = {};
    if (is_splat) {
        const Splat<T> splat = load_splat<T>(args, i);
        const ScreenSplat<T> screen =
            project_splat(read_camera(args, args.viewmat), splat, args.depth_slopes != nullptr);
        store_screen(args, i, screen);
        visible = screen.radius_x > T(0);
        mean = splat.mean;
    }
    const unsigned wanted = __ballot_sync(FULL_WARP, visible);
    const RowShape shape = coefficient_rows(args.degree);
    const int stride = 3 * args.coefficients;
    stage_rows(args.sh + first * stride, stride, shape, wanted, tile);
    if (!is_splat) return;
    if (visible) {
        const ViewPoint<T> view = read_view_point(args.viewmat, args.orthographic != 0);
        color = color_of(view, mean, args.degree, args.decode != 0, tile + lane * shape.pitch);
    }
    store_vector(color, args.colors, i);
}

template <class T>
SPLAT_DEVICE void sh_colors_bwd(const ShColorsBwdArgs<T>& args) {
    __shared__ T tiles[SH_THREADS / WARP][TILE_SIZE];
    T* const tile = tiles[warp_of_block()];
    const int lane = lane_of_warp();
    const int64_t i = global_thread(), first = i - lane;
    const RowShape shape = coefficient_rows(args.degree);
    const int stride = 3 * args.coefficients;
    const bool is_splat = i < args.count;
    const unsigned wanted = __ballot_sync(FULL_WARP, is_splat);
    stage_rows(args.sh + first * stride, stride, shape, wanted, tile);
    Vector3<T> v_offset = {};
    if (is_splat) {
        const ViewPoint<T> view = read_view_point(args.viewmat, args.orthographic != 0);
        const Vector3<T> color = load_vector(args.v_colors, i);
        T v_color[3] = {color.x, color.y, color.z};
        v_offset = color_gradient(view, load_vector(args.means, i), args.degree, args.decode != 0, v_color,
                                  tile + lane * shape.pitch);
        if (args.v_means) store_vector(args.orthographic ? Vector3<T>{} : v_offset, args.v_means, i);
    }
    if (args.partial) write_warp_sums({v_offset.x, v_offset.y, v_offset.z}, args.partial);
    if (!args.v_sh) return;
    __syncwarp();
    T* const run = args.v_sh + first * stride;
    const int unused = stride - shape.size;
    for (int number = lane; number < WARP * shape.size; number += WARP) {
        const int row = shape.row(number);
        if (wanted >> row & 1) run[number + row * unused] = tile[shape.place(number, row)];
    }
    for (int number = lane; number < WARP * unused; number += WARP) {
        const int row = number / unused;
        if (wanted >> row & 1) run[number + (row + 1) * shape.size] = T(0);
    }
}

template <class T>
SPLAT_DEVICE void sh_camera_bwd(const ShCameraBwdArgs<T>& args) {
    __shared__ double totals[3];
    add_warp_sums(args.partial, args.warps, totals);
    if (threadIdx.x == 0)
        write_view_point_gradient(read_view_point(args.viewmat, args.orthographic != 0), totals,
                                  args.v_viewmat);
}

SPLAT_END_ISA

SPLAT_KERNEL(sh_colors_fwd, splat::SPLAT_ISA::sh_colors_fwd, ShColorsFwdArgs, splat::SPLAT_ISA::SH_THREADS)
SPLAT_KERNEL(project_colors_fwd, splat::SPLAT_ISA::project_colors_fwd, ProjectColorsFwdArgs,
             splat::SPLAT_ISA::SH_THREADS)
SPLAT_KERNEL(sh_colors_bwd, splat::SPLAT_ISA::sh_colors_bwd, ShColorsBwdArgs, splat::SPLAT_ISA::SH_THREADS)
SPLAT_KERNEL(sh_camera_bwd, splat::SPLAT_ISA::sh_camera_bwd, ShCameraBwdArgs, 96)
