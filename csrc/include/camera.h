// The camera of an op: from its arguments to what the formulas take, and from sums over splats to its gradient.
#pragma once

#include "projection.h"

SPLAT_BEGIN_ISA

// Rows 0 to 2 of a row-major [4,4] matrix.
template <class S>
SPLAT_FN void read_viewmat(const S* viewmat, Matrix3<S>& rotation, Vector3<S>& translation) {
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 3; ++column) rotation.m[row][column] = viewmat[row * 4 + column];
    translation = {viewmat[3], viewmat[7], viewmat[11]};
}

// Of any argument structure with the fields of project.
template <class Args, class S>
SPLAT_FN Camera<S> read_camera(const Args& args, const S* viewmat) {
    Camera<S> camera;
    read_viewmat(viewmat, camera.rotation, camera.translation);
    camera.focal_x = args.intrinsics[0];
    camera.focal_y = args.intrinsics[1];
    camera.center_x = args.intrinsics[2];
    camera.center_y = args.intrinsics[3];
    camera.width = S(args.width);
    camera.height = S(args.height);
    camera.near_depth = args.near_depth;
    camera.dilation = args.dilation_px2;
    camera.orthographic = args.orthographic != 0;
    camera.antialiased = args.antialiased != 0;
    return camera;
}

// What is summed over splats for the camera's gradient: v_W row by row, v_t, v_fx, v_fy, v_cx, v_cy.
constexpr int CAMERA_SUMS = 16;

template <class T>
SPLAT_FN void camera_terms(const CameraGradient<T>& v, T (&terms)[CAMERA_SUMS]) {
    for (int row = 0; row < 3; ++row) {
        terms[row * 3] = v.rotation[row].x;
        terms[row * 3 + 1] = v.rotation[row].y;
        terms[row * 3 + 2] = v.rotation[row].z;
    }
    terms[9] = v.translation.x;
    terms[10] = v.translation.y;
    terms[11] = v.translation.z;
    terms[12] = v.focal_x;
    terms[13] = v.focal_y;
    terms[14] = v.center_x;
    terms[15] = v.center_y;
}

// The sums as gradients of viewmat, [4,4] with a last row of 0, and of the intrinsics, [4]; either may be null.
template <class S>
SPLAT_FN void write_camera_gradient(const double (&totals)[CAMERA_SUMS], S* v_viewmat, S* v_intrinsics) {
    if (v_viewmat) {
        for (int row = 0; row < 3; ++row) {
            for (int column = 0; column < 3; ++column)
                v_viewmat[row * 4 + column] = S(totals[row * 3 + column]);
            v_viewmat[row * 4 + 3] = S(totals[9 + row]);
        }
        for (int column = 0; column < 4; ++column) v_viewmat[12 + column] = S(0);
    }
    if (v_intrinsics)
        for (int i = 0; i < 4; ++i) v_intrinsics[i] = S(totals[12 + i]);
}

SPLAT_END_ISA
