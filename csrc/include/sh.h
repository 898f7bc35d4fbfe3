// Spherical harmonics of degree 0 to 3: direction, basis, and the gradients of both.
//
// The colour of a splat is  e = max(0, 0.5 + sum_k Y_k(d) c_k)  with the real basis Y_k in the order (l, m) =
// (0,0) (1,-1) (1,0) (1,1) (2,-2) ... (3,3) and with the signs of 3DGS. d is the unit vector from the
// camera's centre to the splat's centre; for an orthographic camera it is the camera's forward axis.
//
// Sources: Kerbl et al. 2023 (signs, order); Sloan 2013, "Efficient Spherical Harmonic Evaluation" (the
// polynomials).
#pragma once

#include "constants.h"
#include "small_vector.h"

SPLAT_BEGIN_ISA

constexpr int SH_DEGREE_MAX = 3;
constexpr int SH_COUNT_MAX = (SH_DEGREE_MAX + 1) * (SH_DEGREE_MAX + 1);

// Normalisations of the polynomials below.
constexpr double SH_0 = 0.28209479177387814;   // 1/2 sqrt(1/pi)
constexpr double SH_1 = 0.4886025119029199;    // 1/2 sqrt(3/pi)
constexpr double SH_2A = 1.0925484305920792;   // 1/2 sqrt(15/pi)
constexpr double SH_2B = 0.31539156525252005;  // 1/4 sqrt(5/pi)
constexpr double SH_2C = 0.5462742152960396;   // 1/4 sqrt(15/pi)
constexpr double SH_3A = 0.5900435899266435;   // 1/4 sqrt(35/(2 pi))
constexpr double SH_3B = 2.890611442640554;    // 1/2 sqrt(105/pi)
constexpr double SH_3C = 0.4570457994644658;   // 1/4 sqrt(21/(2 pi))
constexpr double SH_3D = 0.3731763325901154;   // 1/4 sqrt(7/pi)
constexpr double SH_3E = 1.445305721320277;    // 1/4 sqrt(105/pi)

// Y_k(d), k < (DEGREE + 1)^2. All are homogeneous polynomials, so d = 0 leaves Y_0 alone.
template <int DEGREE, class T>
SPLAT_FN void sh_basis(const Vector3<T>& d, T* y) {
    y[0] = T(SH_0);
    if (DEGREE < 1) return;
    y[1] = d.y * T(-SH_1);
    y[2] = d.z * T(SH_1);
    y[3] = d.x * T(-SH_1);
    if (DEGREE < 2) return;
    const T xx = d.x * d.x, yy = d.y * d.y, zz = d.z * d.z;
    const T xy = d.x * d.y, yz = d.y * d.z, xz = d.x * d.z;
    y[4] = xy * T(SH_2A);
    y[5] = yz * T(-SH_2A);
    y[6] = (zz + zz - xx - yy) * T(SH_2B);
    y[7] = xz * T(-SH_2A);
    y[8] = (xx - yy) * T(SH_2C);
    if (DEGREE < 3) return;
    const T ring = T(4) * zz - xx - yy;
    y[9] = d.y * (T(3) * xx - yy) * T(-SH_3A);
    y[10] = xy * d.z * T(SH_3B);
    y[11] = d.y * ring * T(-SH_3C);
    y[12] = d.z * (zz + zz - T(3) * (xx + yy)) * T(SH_3D);
    y[13] = d.x * ring * T(-SH_3C);
    y[14] = d.z * (xx - yy) * T(SH_3E);
    y[15] = d.x * (xx - T(3) * yy) * T(-SH_3A);
}

// v_d of sum_k w_k Y_k(d), treating the three components of d as independent; direction_gradient() projects
// it. Each line is w_k times the gradient of the polynomial above.
template <int DEGREE, class T>
SPLAT_FN Vector3<T> sh_basis_gradient(const Vector3<T>& d, const T* w) {
    Vector3<T> v = {T(0), T(0), T(0)};
    if (DEGREE < 1) return v;
    v = {w[3] * T(-SH_1), w[1] * T(-SH_1), w[2] * T(SH_1)};
    if (DEGREE < 2) return v;
    const T w4 = w[4] * T(SH_2A), w5 = w[5] * T(-SH_2A), w6 = w[6] * T(2 * SH_2B), w7 = w[7] * T(-SH_2A),
            w8 = w[8] * T(2 * SH_2C);
    v.x = v.x + w4 * d.y - w6 * d.x + w7 * d.z + w8 * d.x;
    v.y = v.y + w4 * d.x + w5 * d.z - w6 * d.y - w8 * d.y;
    v.z = v.z + w5 * d.y + T(2) * w6 * d.z + w7 * d.x;
    if (DEGREE < 3) return v;
    const T xx = d.x * d.x, yy = d.y * d.y, zz = d.z * d.z;
    const T xy = d.x * d.y, yz = d.y * d.z, xz = d.x * d.z;
    const T ring = T(4) * zz - xx - yy;
    const T w9 = w[9] * T(-SH_3A), w10 = w[10] * T(SH_3B), w11 = w[11] * T(-SH_3C), w12 = w[12] * T(SH_3D),
            w13 = w[13] * T(-SH_3C), w14 = w[14] * T(SH_3E), w15 = w[15] * T(-SH_3A);
    v.x = v.x + T(6) * w9 * xy + w10 * yz - T(2) * w11 * xy - T(6) * w12 * xz + w13 * (ring - T(2) * xx) +
          T(2) * w14 * xz + T(3) * w15 * (xx - yy);
    v.y = v.y + T(3) * w9 * (xx - yy) + w10 * xz + w11 * (ring - T(2) * yy) - T(6) * w12 * yz -
          T(2) * w13 * xy - T(2) * w14 * yz - T(6) * w15 * xy;
    v.z = v.z + w10 * xy + T(8) * (w11 * yz + w13 * xz) + T(3) * w12 * (zz + zz - xx - yy) + w14 * (xx - yy);
    return v;
}

// d = o / |o| for an offset o, and 1/|o|; both zero where o is too short or not finite.
template <class T>
SPLAT_FN Vector3<T> unit_direction(const Vector3<T>& offset, T& inverse_length) {
    const T squared = dot(offset, offset);
    const auto usable = is_finite(squared) & (squared > T(DISTANCE_MIN * DISTANCE_MIN));
    inverse_length = where(usable, T(1) / square_root(squared));
    return where(usable, scaled(offset, inverse_length));
}

// v_o = (I - d d^T) v_d / |o|: moving along the line of sight does not change the direction.
template <class T>
SPLAT_FN Vector3<T> direction_gradient(const Vector3<T>& d, T inverse_length, const Vector3<T>& v_direction) {
    const T along = dot(d, v_direction);
    return scaled(blended(v_direction, T(1), d, -along), inverse_length);
}

// Centre of the camera in the world, -W^T t, for a rigid viewmat.
template <class S>
SPLAT_FN Vector3<S> camera_center(const Matrix3<S>& rotation, const Vector3<S>& translation) {
    return scaled(row_times(translation, rotation), S(-1));
}

SPLAT_END_ISA
