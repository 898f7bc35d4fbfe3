// project and its backward: LANES splats at a time; chunks of splats are shared out among the threads.
#include "camera_arrays.h"
#include "kernels.h"
#include "project_rows.h"

SPLAT_BEGIN_ISA

namespace {

template <class S>
int run_project_fwd(const ProjectFwdArgs<S>& args) {
    using T = Wide<S>;
    const Camera<S> camera = read_camera(args, args.viewmat);
    parallel_for(chunk_count(args.count), 1, [&](int64_t begin, int64_t end, int) {
        const int64_t last = end * CHUNK < args.count ? end * CHUNK : args.count;
        for (int64_t first = begin * CHUNK; first < last; first += T::LANES) {
            const int count = last - first < T::LANES ? int(last - first) : T::LANES;
            ScreenSplat<T> out =
                project_splat(camera, load_splats<S>(args, first, count), args.depth_slopes != nullptr);
            T mean[2] = {out.mean_x, out.mean_y}, radius[2] = {out.radius_x, out.radius_y};
            T conic[3] = {out.conic_xx, out.conic_xy, out.conic_yy};
            store_rows<2>(mean, args.means2d + first * 2, 2, count);
            store_rows<1>(&out.depth, args.depths + first, 1, count);
            store_rows<3>(conic, args.conics + first * 3, 3, count);
            store_rows<1>(&out.opacity, args.opacities + first, 1, count);
            store_rows<2>(radius, args.radii + first * 2, 2, count);
            if (args.normals) {
                T normal[3] = {out.normal.x, out.normal.y, out.normal.z};
                store_rows<3>(normal, args.normals + first * 3, 3, count);
            }
            if (args.depth_slopes) {
                T slope[2] = {out.slope_x, out.slope_y};
                store_rows<2>(slope, args.depth_slopes + first * 2, 2, count);
            }
        }
    });
    return STATUS_OK;
}

// One chunk: gradients of its splats, and its part of the camera's gradient.
template <class S>
void backward_chunk(const ProjectBwdArgs<S>& args, const Camera<S>& camera, int64_t begin, int64_t end,
                    double* partial) {
    using T = Wide<S>;
    T sums[CAMERA_SUMS];
    for (T& sum : sums) sum = T(0);
    for (int64_t first = begin; first < end; first += T::LANES) {
        const int count = end - first < T::LANES ? int(end - first) : T::LANES;
        T radius[2];
        load_rows<2>(args.radii + first * 2, 2, count, radius);
        // rows past the end repeat the last splat, and must not be counted again
        const auto visible = (radius[0] > T(0)) & between<S>(0, 0, count);

        CameraGradient<T> v_camera;
        const Splat<T> v = project_splat_gradient(camera, load_splats<S>(args, first, count),
                                                  load_screen_gradient<S>(args, first, count),
                                                  args.v_normals != nullptr, v_camera);
        T mean[3] = {where(visible, v.mean.x), where(visible, v.mean.y), where(visible, v.mean.z)};
        T log_scale[3] = {where(visible, v.log_scale.x), where(visible, v.log_scale.y),
                          where(visible, v.log_scale.z)};
        T quat[4] = {where(visible, v.quaternion.w), where(visible, v.quaternion.x),
                     where(visible, v.quaternion.y), where(visible, v.quaternion.z)};
        T logit[1] = {where(visible, v.opacity_logit)};
        store_rows<3>(mean, args.v_means + first * 3, 3, count);
        store_rows<3>(log_scale, args.v_log_scales + first * 3, 3, count);
        store_rows<4>(quat, args.v_quats_wxyz + first * 4, 4, count);
        store_rows<1>(logit, args.v_opacity_logits + first, 1, count);
        if (partial) {
            CameraGradient<T> counted;
            for (int row = 0; row < 3; ++row) counted.rotation[row] = where(visible, v_camera.rotation[row]);
            counted.translation = where(visible, v_camera.translation);
            counted.focal_x = where(visible, v_camera.focal_x);
            counted.focal_y = where(visible, v_camera.focal_y);
            counted.center_x = where(visible, v_camera.center_x);
            counted.center_y = where(visible, v_camera.center_y);
            T terms[CAMERA_SUMS];
            camera_terms(counted, terms);
            for (int i = 0; i < CAMERA_SUMS; ++i) sums[i] = sums[i] + terms[i];
        }
    }
    if (partial)
        for (int i = 0; i < CAMERA_SUMS; ++i) partial[i] = sums[i].sum();
}

template <class S>
int run_project_bwd(const ProjectBwdArgs<S>& args) {
    const Camera<S> camera = read_camera(args, args.viewmat);
    const int64_t chunks = chunk_count(args.count);
    const bool with_camera = args.v_viewmat || args.v_intrinsics;
    Buffer<double[CAMERA_SUMS]> partial;
    if (with_camera && !partial.resize(chunks))
        return fail(STATUS_OUT_OF_MEMORY, "project_bwd: out of memory");
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t chunk = begin; chunk < end; ++chunk) {
            const int64_t first = chunk * CHUNK, next = first + CHUNK;
            backward_chunk(args, camera, first, next < args.count ? next : args.count,
                           with_camera ? partial[chunk] : nullptr);
        }
    });
    if (with_camera) {
        double totals[CAMERA_SUMS];
        sum_chunks(partial.data, chunks, totals);
        write_camera_gradient(totals, args.v_viewmat, args.v_intrinsics);
    }
    return STATUS_OK;
}

}  // namespace

int project_fwd(const ProjectFwdArgs<float>& args) { return run_project_fwd(args); }
int project_fwd(const ProjectFwdArgs<double>& args) { return run_project_fwd(args); }
int project_bwd(const ProjectBwdArgs<float>& args) { return run_project_bwd(args); }
int project_bwd(const ProjectBwdArgs<double>& args) { return run_project_bwd(args); }

SPLAT_END_ISA
