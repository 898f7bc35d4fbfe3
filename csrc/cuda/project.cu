// project: splats to the screen (csrc/include/projection.h), forward, and backward with the camera's gradient where that is
// wanted.
//
// Grid: one thread a splat, all of which but project_camera_bwd use no shared memory.
// project_fwd:  44 bytes a splat in and 36 out (48 with normals, 8 more with slopes), 330 operations.
// project_bwd:  76 bytes in (92 with the gradients of depths and normals), 44 out, 650 operations. The camera's 16
//               sums: each warp adds its splats' terms by shuffles and writes them, 4 bytes a splat more.
// project_camera_bwd: one block, a warp a sum over all warps of project_bwd, in a fixed order: the same bits each time,
//               which atomics would not give.
//
// Sources: those of projection.h; one thread a splat: Kerbl et al. 2023, "3D Gaussian Splatting".
#include "../include/op_args.h"
#include "args.h"
#include "splat_rows.h"

SPLAT_BEGIN_ISA

template <class T>
SPLAT_DEVICE void project_fwd(const ProjectFwdArgs<T>& args) {
    const int64_t i = global_thread();
    if (i >= args.count) return;
    const bool with_slope = args.depth_slopes != nullptr;
    store_screen(args, i, project_splat(read_camera(args, args.viewmat), load_splat<T>(args, i), with_slope));
}

template <class T>
SPLAT_DEVICE void project_bwd(const ProjectBwdArgs<T>& args) {
    const int64_t i = global_thread();
    Splat<T> v = {};
    CameraGradient<T> v_camera = {};
    if (i < args.count && args.radii[2 * i] > T(0))
        v = project_splat_gradient(read_camera(args, args.viewmat), load_splat<T>(args, i),
                                   load_screen_gradient<T>(args, i), args.v_normals != nullptr, v_camera);
    if (i < args.count) {
        store_vector(v.mean, args.v_means, i);
        store_vector(v.log_scale, args.v_log_scales, i);
        T* const quat = args.v_quats_wxyz + 4 * i;
        quat[0] = v.quaternion.w;
        quat[1] = v.quaternion.x;
        quat[2] = v.quaternion.y;
        quat[3] = v.quaternion.z;
        args.v_opacity_logits[i] = v.opacity_logit;
    }
    if (args.partial) {
        T terms[CAMERA_SUMS];
        camera_terms(v_camera, terms);
        write_warp_sums(terms, args.partial);
    }
}

template <class T>
SPLAT_DEVICE void project_camera_bwd(const ProjectCameraBwdArgs<T>& args) {
    __shared__ double totals[CAMERA_SUMS];
    add_warp_sums(args.partial, args.warps, totals);
    if (threadIdx.x == 0) write_camera_gradient(totals, args.v_viewmat, args.v_intrinsics);
}

SPLAT_END_ISA

SPLAT_KERNEL(project_fwd, splat::SPLAT_ISA::project_fwd, ProjectFwdArgs, 128)
SPLAT_KERNEL(project_bwd, splat::SPLAT_ISA::project_bwd, ProjectBwdArgs, 128)
SPLAT_KERNEL(project_camera_bwd, splat::SPLAT_ISA::project_camera_bwd, ProjectCameraBwdArgs, 512)
