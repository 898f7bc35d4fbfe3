// Projection of a 3D Gaussian to the screen (EWA splatting), forward and backward.
//
// Symbols:
//   m          the splat's centre in the world
//   p          p = W m + t, its centre in the camera's frame (x right, y down, z ahead)
//   W, t       rotation and translation of viewmat (camera_from_world)
//   R, s       the splat's rotation matrix (from the quaternion q) and scales exp(log_scale), S = diag(s)
//   J          2x3 Jacobian of the projection at p
//   A = J W R S  (2x3), so that the covariance on the screen is  Sigma' = J W (R S S R^T) W^T J^T = A A^T
//   d          dilation: variance in px^2 added to both diagonal entries;  Sigma'_d = Sigma' + d I
//   Q          the conic, the inverse of Sigma'_d
//   g          how the depth of greatest density grows across the screen
//   v_x        dL/dx, the gradient of the loss with respect to x ("v" as in vector-Jacobian product)
//
// Sources: Zwicker, Pfister, van Baar, Gross 2001, "EWA Volume Splatting", eq. 24 to 26 (J and Sigma'); Kerbl
// et al. 2023, "3D Gaussian Splatting", eq. 5 and 6, appendix A; Ye and Kanazawa 2023, "Mathematical
// Supplement for the gsplat Library" (the backward pass); Yu et al. 2024, "Mip-Splatting", eq. 9 (the
// opacity's compensation); Zhang et al. 2024, "RaDe-GS" (the depth of greatest density as a plane over the screen).
#pragma once

#include "constants.h"
#include "small_vector.h"

SPLAT_BEGIN_ISA

// What is the same for all splats of a call. S is the type of one lane.
template <class S>
struct Camera {
    Matrix3<S> rotation;     // W
    Vector3<S> translation;  // t
    S focal_x, focal_y;      // px; px per scene unit for an orthographic camera
    S center_x, center_y;    // principal point, px
    S width, height;         // px
    S near_depth;            // splats with z below it are culled
    S dilation;              // d, px^2
    bool orthographic;
    bool antialiased;
};

template <class T>
struct Splat {
    Vector3<T> mean;
    Vector3<T> log_scale;
    Quaternion<T> quaternion;  // any norm
    T opacity_logit;
};

// A splat on the screen, and the gradients with respect to it. A culled splat is all zero.
template <class T>
struct ScreenSplat {
    T mean_x, mean_y;                // px
    T depth;                         // z in the camera's frame
    T conic_xx, conic_xy, conic_yy;  // Q, px^-2; the gradient of conic_xy counts both off-diagonal entries
    T opacity;
    Vector3<T> normal;  // world frame
    T radius_x, radius_y;
    T slope_x, slope_y;  // g, scene units per px; 0 where not asked for, and it has no gradient
};

// -----------------------------------------------------------------------------------------------------------
// Pieces that the forward and the backward pass share

// Rotation matrix of a unit quaternion.
template <class T>
SPLAT_FN Matrix3<T> rotation_matrix(const Quaternion<T>& q) {
    const T x2 = q.x + q.x, y2 = q.y + q.y, z2 = q.z + q.z;
    const T xx = q.x * x2, yy = q.y * y2, zz = q.z * z2;
    const T xy = q.x * y2, xz = q.x * z2, yz = q.y * z2;
    const T wx = q.w * x2, wy = q.w * y2, wz = q.w * z2;
    return {{{T(1) - (yy + zz), xy - wz, xz + wy},
             {xy + wz, T(1) - (xx + zz), yz - wx},
             {xz - wy, yz + wx, T(1) - (xx + yy)}}};
}

// The Jacobian of the projection,  J = [ xx 0 xz ; 0 yy yz ],  and what it was made of.
//
// Perspective: (x, y, z) -> (f_x x/z + c_x, f_y y/z + c_y), so xx = f_x/z and xz = -f_x x/z^2 = -offset_x /
// z, where offset_x = f_x x/z is the distance of the splat's centre from the principal point in pixels. A
// splat that is centred far outside the image but reaches into it would be linearised where the projection is
// far from linear, and become a fan across the image. As in 3DGS the offset is therefore clamped: J is taken
// at most FRUSTUM_MARGIN of the image's size outside the image (1.3 half fields of view from the axis of a
// centred camera). The centre itself is not clamped.
template <class T>
struct Jacobian {
    T xx, xz, yy, yz;
    T inverse_depth;       // 1/z, or 1 for an orthographic camera
    T offset_x, offset_y;  // of the centre, not clamped, px
    T clamped_offset_x, clamped_offset_y;
};

template <class T, class S>
SPLAT_FN Jacobian<T> projection_jacobian(const Camera<S>& camera, const Vector3<T>& p) {
    Jacobian<T> j;
    if (camera.orthographic) {
        j.inverse_depth = T(1);
        j.offset_x = j.clamped_offset_x = p.x * camera.focal_x;
        j.offset_y = j.clamped_offset_y = p.y * camera.focal_y;
        j.xx = T(camera.focal_x);
        j.yy = T(camera.focal_y);
        j.xz = j.yz = T(0);
        return j;
    }
    const S margin_x = S(FRUSTUM_MARGIN) * camera.width, margin_y = S(FRUSTUM_MARGIN) * camera.height;
    j.inverse_depth = T(1) / p.z;
    j.xx = j.inverse_depth * camera.focal_x;
    j.yy = j.inverse_depth * camera.focal_y;
    j.offset_x = p.x * j.xx;
    j.offset_y = p.y * j.yy;
    j.clamped_offset_x = smaller(larger(j.offset_x, T(-margin_x - camera.center_x)),
                                 T(camera.width + margin_x - camera.center_x));
    j.clamped_offset_y = smaller(larger(j.offset_y, T(-margin_y - camera.center_y)),
                                 T(camera.height + margin_y - camera.center_y));
    j.xz = -j.clamped_offset_x * j.inverse_depth;
    j.yz = -j.clamped_offset_y * j.inverse_depth;
    return j;
}

// The chain  q -> R,  p -> J,  A = J W R S,  Sigma' = A A^T,  as far as both passes need it.
template <class T>
struct Footprint {
    Vector3<T> point;          // p
    Jacobian<T> jacobian;      // J
    Quaternion<T> unit;        // q / |q|
    T inverse_norm;            // 1 / |q|
    Matrix3<T> rotation;       // R
    Vector3<T> scale;          // s
    Vector3<T> jw_x, jw_y;     // rows of J W
    Vector3<T> a_x, a_y;       // rows of A
    T plain_xx, plain_yy;      // diagonal of Sigma'
    T cov_xx, cov_xy, cov_yy;  // Sigma'_d
    T plain_determinant;       // det Sigma'
    T determinant;             // det Sigma'_d
};

template <class T, class S>
SPLAT_FN Footprint<T> footprint(const Camera<S>& camera, const Splat<T>& splat) {
    Footprint<T> f;
    const auto& w = camera.rotation.m;
    f.point = times_column(camera.rotation, splat.mean);
    f.point = {f.point.x + camera.translation.x, f.point.y + camera.translation.y,
               f.point.z + camera.translation.z};
    f.jacobian = projection_jacobian(camera, f.point);

    const Quaternion<T>& q = splat.quaternion;
    f.inverse_norm = T(1) / square_root(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);
    f.unit = {q.w * f.inverse_norm, q.x * f.inverse_norm, q.y * f.inverse_norm, q.z * f.inverse_norm};
    f.rotation = rotation_matrix(f.unit);
    f.scale = {exponential(splat.log_scale.x), exponential(splat.log_scale.y),
               exponential(splat.log_scale.z)};

    const Jacobian<T>& j = f.jacobian;
    f.jw_x = {j.xx * w[0][0] + j.xz * w[2][0], j.xx * w[0][1] + j.xz * w[2][1],
              j.xx * w[0][2] + j.xz * w[2][2]};
    f.jw_y = {j.yy * w[1][0] + j.yz * w[2][0], j.yy * w[1][1] + j.yz * w[2][1],
              j.yy * w[1][2] + j.yz * w[2][2]};
    f.a_x = multiplied(row_times(f.jw_x, f.rotation), f.scale);
    f.a_y = multiplied(row_times(f.jw_y, f.rotation), f.scale);

    f.plain_xx = dot(f.a_x, f.a_x);
    f.plain_yy = dot(f.a_y, f.a_y);
    // det(A A^T) is the squared area that the rows of A span (Cauchy-Binet). Unlike xx yy - xy^2 it does not
    // cancel for thin splats, and it cannot come out negative.
    const Vector3<T> area = cross(f.a_x, f.a_y);
    f.plain_determinant = dot(area, area);
    f.cov_xx = f.plain_xx + camera.dilation;
    f.cov_xy = dot(f.a_x, f.a_y);
    f.cov_yy = f.plain_yy + camera.dilation;
    f.determinant = f.plain_determinant + (f.plain_xx + f.plain_yy + camera.dilation) * camera.dilation;
    return f;
}

template <class T>
SPLAT_FN T sigmoid(T x) {
    return T(1) / (T(1) + exponential(-x));
}

// Index of the shortest axis (the first among equals) as three weights, one of them 1.
template <class T>
SPLAT_FN Vector3<T> shortest_axis(const Vector3<T>& log_scale) {
    const auto x = (log_scale.x <= log_scale.y) & (log_scale.x <= log_scale.z);
    const T is_x = select(x, T(1), T(0));
    const T is_y = select(x, T(0), select(log_scale.y <= log_scale.z, T(1), T(0)));
    return {is_x, is_y, T(1) - is_x - is_y};
}

// Which axis is the normal, and with which sign it faces the camera: the normal is R times this vector.
template <class T, class S>
SPLAT_FN Vector3<T> normal_axis(const Camera<S>& camera, const Splat<T>& splat, const Footprint<T>& f) {
    const Vector3<T> axis = shortest_axis(splat.log_scale);
    const Vector3<T> in_camera = times_column(camera.rotation, times_column(f.rotation, axis));
    const T facing = camera.orthographic ? in_camera.z : dot(in_camera, f.point);
    return scaled(axis, select(facing > T(0), T(-1), T(1)));
}

// -----------------------------------------------------------------------------------------------------------
// Forward

// How the depth at which a ray meets the splat's greatest density grows across the screen, scene units per px. In the frame
// of the screen and of z the splat is a Gaussian with covariance [ Sigma' c ; c^T c_zz ], where c = A a_z and a_z is the
// third row of W R S. For a given place on the screen the mean of z, which is its densest point, is linear in that place:
// z + g (pixel - mean), with g = Sigma'^-1 c. SLOPE_VARIANCE on the diagonal bounds g where the splat is seen edge-on.
template <class T>
struct DepthSlope {
    T x, y;
};

template <class T, class S>
SPLAT_FN DepthSlope<T> depth_slope(const Camera<S>& camera, const Footprint<T>& f) {
    const auto& w = camera.rotation.m;
    const Vector3<T> ahead = {T(w[2][0]), T(w[2][1]), T(w[2][2])};
    const Vector3<T> a_z = multiplied(row_times(ahead, f.rotation), f.scale);
    const T c_x = dot(f.a_x, a_z), c_y = dot(f.a_y, a_z);
    const T floor = T(S(SLOPE_VARIANCE));
    const T determinant = f.plain_determinant + (f.plain_xx + f.plain_yy + floor) * floor;
    const T inverse = T(1) / determinant;
    return {((f.plain_yy + floor) * c_x - f.cov_xy * c_y) * inverse,
            ((f.plain_xx + floor) * c_y - f.cov_xy * c_x) * inverse};
}

// Projects a splat. What does not draw is culled: not finite, no rotation, nearer than `near`, fainter than
// 1/255, a needle, or wholly outside the image.
template <class T, class S>
SPLAT_FN ScreenSplat<T> project_splat(const Camera<S>& camera, const Splat<T>& splat,
                                      bool with_slope = false) {
    const Footprint<T> f = footprint(camera, splat);
    const T inverse_determinant = T(1) / f.determinant;

    T opacity = sigmoid(splat.opacity_logit);
    if (camera.antialiased) {
        // The dilated Gaussian covers more pixels by the factor sqrt(det Sigma'_d / det Sigma'); dimmed by as
        // much, the splat keeps its energy however small it gets.
        const T ratio = larger(f.plain_determinant * inverse_determinant, T(COMPENSATION_MIN));
        opacity = opacity * square_root(ratio);
    }
    // o exp(-r^2/2) = 1/255 at r = sqrt(2 ln(255 o)) standard deviations. The axis-aligned box around that
    // ellipse has half sides r sqrt(Sigma'_xx), r sqrt(Sigma'_yy).
    const T squared_extent = logarithm(opacity * T(1.0 / ALPHA_MIN)) * T(2);
    ScreenSplat<T> out;
    out.radius_x = square_root(squared_extent * f.cov_xx);
    out.radius_y = square_root(squared_extent * f.cov_yy);
    out.mean_x = f.jacobian.offset_x + camera.center_x;
    out.mean_y = f.jacobian.offset_y + camera.center_y;
    out.depth = f.point.z;
    out.conic_xx = f.cov_yy * inverse_determinant;
    out.conic_xy = -f.cov_xy * inverse_determinant;
    out.conic_yy = f.cov_xx * inverse_determinant;
    out.opacity = opacity;
    out.normal = times_column(f.rotation, normal_axis(camera, splat, f));

    const Quaternion<T>& q = splat.quaternion;
    const T squared_norm = q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z;
    const T half_trace = T(0.5) * (f.cov_xx + f.cov_yy);
    const T bad = poison(splat.mean.x + splat.mean.y + splat.mean.z) + poison(splat.opacity_logit) +
                  poison(squared_norm) + poison(splat.log_scale.x) + poison(splat.log_scale.y) +
                  poison(splat.log_scale.z) + poison(out.mean_x) + poison(out.mean_y) + poison(out.conic_xx) +
                  poison(out.conic_xy) + poison(out.conic_yy) + poison(out.radius_x) + poison(out.radius_y);
    const auto sound = (bad == T(0)) & (f.point.z >= T(camera.near_depth)) &
                       (squared_norm > T(QUATERNION_NORM_MIN * QUATERNION_NORM_MIN)) &
                       (f.determinant > T(DETERMINANT_MIN)) &
                       (f.determinant > half_trace * half_trace * T(CONDITION_MIN)) & (squared_extent > T(0));
    const auto inside = (out.mean_x + out.radius_x > T(0)) & (out.mean_x - out.radius_x < T(camera.width)) &
                        (out.mean_y + out.radius_y > T(0)) & (out.mean_y - out.radius_y < T(camera.height));
    const auto visible = sound & inside;
    const DepthSlope<T> slope = with_slope ? depth_slope(camera, f) : DepthSlope<T>{T(0), T(0)};
    return {where(visible, out.mean_x),   where(visible, out.mean_y),   where(visible, out.depth),
            where(visible, out.conic_xx), where(visible, out.conic_xy), where(visible, out.conic_yy),
            where(visible, out.opacity),  where(visible, out.normal),   where(visible, out.radius_x),
            where(visible, out.radius_y), where(visible, slope.x),      where(visible, slope.y)};
}

// -----------------------------------------------------------------------------------------------------------
// Backward

// Gradients of one splat's part of the loss with respect to the camera; the kernels sum them over splats.
template <class T>
struct CameraGradient {
    Vector3<T> rotation[3];  // v_W, rows
    Vector3<T> translation;  // v_t
    T focal_x, focal_y, center_x, center_y;
};

// v_R -> v_q for the quaternion before it was normalised.
//
// With u = q/|q|, every entry of R is quadratic in u (rotation_matrix above). Collecting the terms, with V =
// v_R:
//   v_w = 2 ( x (V21 - V12) + y (V02 - V20) + z (V10 - V01) )
//   v_x = 2 ( w (V21 - V12) + y (V01 + V10) + z (V02 + V20) - 2 x (V11 + V22) );  y, z by cyclic exchange.
// Through the normalisation, du/dq = (I - u u^T)/|q|: the part of v_u along u is dropped, the rest divided by
// the norm.
template <class T>
SPLAT_FN Quaternion<T> quaternion_gradient(const Quaternion<T>& u, T inverse_norm,
                                           const Matrix3<T>& v_rotation) {
    const auto& v = v_rotation.m;
    const T skew_x = v[2][1] - v[1][2], skew_y = v[0][2] - v[2][0], skew_z = v[1][0] - v[0][1];
    const T sum_xy = v[0][1] + v[1][0], sum_xz = v[0][2] + v[2][0], sum_yz = v[1][2] + v[2][1];
    const T two_x = u.x + u.x, two_y = u.y + u.y, two_z = u.z + u.z;
    // half of v_u; the factor 2 is in `factor`
    const T w = u.x * skew_x + u.y * skew_y + u.z * skew_z;
    const T x = u.w * skew_x + u.y * sum_xy + u.z * sum_xz - two_x * (v[1][1] + v[2][2]);
    const T y = u.w * skew_y + u.x * sum_xy + u.z * sum_yz - two_y * (v[0][0] + v[2][2]);
    const T z = u.w * skew_z + u.x * sum_xz + u.y * sum_yz - two_z * (v[0][0] + v[1][1]);
    const T along = u.w * w + u.x * x + u.y * y + u.z * z;
    const T factor = inverse_norm + inverse_norm;
    return {(w - u.w * along) * factor, (x - u.x * along) * factor, (y - u.y * along) * factor,
            (z - u.z * along) * factor};
}

// A symmetric 2x2 gradient; xy is each of the two off-diagonal entries (half the derivative by the shared
// number).
template <class T>
struct SymmetricGradient {
    T xx, xy, yy;
};

// v_Q -> v_Sigma'. From Q Sigma'_d = I:  dQ = -Q dSigma' Q,  so  v_Sigma' = -Q V Q  with V = [ v_xx  v_xy/2 ;
// v_xy/2  v_yy ]. The dilation is a constant and passes the gradient on unchanged.
template <class T>
SPLAT_FN SymmetricGradient<T> covariance_gradient(T q_xx, T q_xy, T q_yy, T v_xx, T v_xy, T v_yy) {
    const T half = T(0.5) * v_xy;
    // V Q, then Q (V Q)
    const T r00 = v_xx * q_xx + half * q_xy, r01 = v_xx * q_xy + half * q_yy;
    const T r10 = half * q_xx + v_yy * q_xy, r11 = half * q_xy + v_yy * q_yy;
    return {-(q_xx * r00 + q_xy * r10), -(q_xx * r01 + q_xy * r11), -(q_xy * r01 + q_yy * r11)};
}

// Backward of the compensation sqrt(rho), rho = det Sigma' / det Sigma'_d, for a given v_rho. With Sigma' = [
// a b ; b c ], det Sigma' = a c - b^2 and det Sigma'_d = (a + d)(c + d) - b^2:
//   drho/da = (c - rho (c + d)) / det_d = (c (1 - rho) - rho d) / det_d,   drho/dc likewise with a,
//   drho/db = -2 b (1 - rho) / det_d (for the shared number; each entry gets half).
// 1 - rho = d (a + c + d) / det_d is formed without cancellation.
template <class T>
SPLAT_FN SymmetricGradient<T> compensation_gradient(const Footprint<T>& f, T dilation, T v_rho) {
    const T inverse = T(1) / f.determinant;
    const T a = f.plain_xx, c = f.plain_yy;
    const T rest = dilation * (f.cov_xx + c) * inverse;
    const T rho_d = f.plain_determinant * inverse * dilation;
    const T factor = v_rho * inverse;
    return {factor * (c * rest - rho_d), -factor * f.cov_xy * rest, factor * (a * rest - rho_d)};
}

// Everything upstream of J:  v_J and v_(mean on the screen) -> v_p and the intrinsics.
//
//   mean_x = offset_x + c_x,  xx = f_x/z,  xz = -clamped_x/z,  offset_x = f_x x/z
//   v_clamped = -v_xz/z. Where the offset is not clamped this goes on to the offset. Where it is, the limit
//   is (constant - c_x), so it goes to -c_x and not to the centre.
//   v_z = -v_offset offset/z (from the offset) - v_xx xx/z - v_xz xz/z (from J: xz = -clamped/z)
template <class T, class S>
SPLAT_FN Vector3<T> point_gradient(const Camera<S>& camera, const Footprint<T>& f, const Jacobian<T>& v_j,
                                   T v_mean_x, T v_mean_y, T v_depth, CameraGradient<T>& v_camera) {
    const Jacobian<T>& j = f.jacobian;
    if (camera.orthographic) {
        v_camera.focal_x = v_mean_x * f.point.x + v_j.xx;
        v_camera.focal_y = v_mean_y * f.point.y + v_j.yy;
        v_camera.center_x = v_mean_x;
        v_camera.center_y = v_mean_y;
        return {v_mean_x * camera.focal_x, v_mean_y * camera.focal_y, v_depth};
    }
    const T iz = j.inverse_depth;
    const auto free_x = j.offset_x == j.clamped_offset_x, free_y = j.offset_y == j.clamped_offset_y;
    const T v_clamped_x = -v_j.xz * iz, v_clamped_y = -v_j.yz * iz;
    const T v_offset_x = v_mean_x + where(free_x, v_clamped_x),
            v_offset_y = v_mean_y + where(free_y, v_clamped_y);
    v_camera.focal_x = (v_offset_x * f.point.x + v_j.xx) * iz;
    v_camera.focal_y = (v_offset_y * f.point.y + v_j.yy) * iz;
    v_camera.center_x = v_mean_x - select(free_x, T(0), v_clamped_x);
    v_camera.center_y = v_mean_y - select(free_y, T(0), v_clamped_y);
    const T toward = v_offset_x * j.offset_x + v_offset_y * j.offset_y + v_j.xx * j.xx + v_j.yy * j.yy +
                     v_j.xz * j.xz + v_j.yz * j.yz;
    return {v_offset_x * j.xx, v_offset_y * j.yy, v_depth - toward * iz};
}

// Gradients of one splat, given those of its screen splat (v_screen.radius_* are ignored). Repeats the
// forward's arithmetic from the inputs. Lanes of culled splats may come out as anything: the caller drops
// them. Set with_normal where v_screen.normal is to be used.
//
//   Sigma' = A A^T      v_A = 2 G A, with G = v_Sigma'
//   A = (J W R) S       v_s_k = sum_r v_A_rk (J W R)_rk, and s = exp(log s): v_(log s)_k = sum_r v_A_rk A_rk
//                       v_(J W R)_rk = v_A_rk s_k
//   J W R = (J W) R     v_R = (J W)^T v_(J W R),   v_(J W) = v_(J W R) R^T
//   J W                 v_J = v_(J W) W^T,         v_W = J^T v_(J W)
//   p = W m + t         v_m = W^T v_p,             v_W += v_p m^T,    v_t = v_p
template <class T, class S>
SPLAT_FN Splat<T> project_splat_gradient(const Camera<S>& camera, const Splat<T>& splat,
                                         const ScreenSplat<T>& v_screen, bool with_normal,
                                         CameraGradient<T>& v_camera) {
    const Footprint<T> f = footprint(camera, splat);
    const T inverse_determinant = T(1) / f.determinant;
    SymmetricGradient<T> g = covariance_gradient(
        f.cov_yy * inverse_determinant, -f.cov_xy * inverse_determinant, f.cov_xx * inverse_determinant,
        v_screen.conic_xx, v_screen.conic_xy, v_screen.conic_yy);

    Splat<T> v;
    const T alpha = sigmoid(splat.opacity_logit);  // before the compensation
    T v_alpha = v_screen.opacity;
    if (camera.antialiased) {
        // o = alpha sqrt(rho). The guard on rho is never active for a visible splat (constants.h).
        const T root = square_root(f.plain_determinant * inverse_determinant);
        const SymmetricGradient<T> more =
            compensation_gradient(f, T(camera.dilation), v_screen.opacity * alpha * T(0.5) / root);
        g = {g.xx + more.xx, g.xy + more.xy, g.yy + more.yy};
        v_alpha = v_screen.opacity * root;
    }
    v.opacity_logit = v_alpha * alpha * (T(1) - alpha);

    const Vector3<T> v_a_x = blended(f.a_x, g.xx + g.xx, f.a_y, g.xy + g.xy);
    const Vector3<T> v_a_y = blended(f.a_x, g.xy + g.xy, f.a_y, g.yy + g.yy);
    v.log_scale = {v_a_x.x * f.a_x.x + v_a_y.x * f.a_y.x, v_a_x.y * f.a_x.y + v_a_y.y * f.a_y.y,
                   v_a_x.z * f.a_x.z + v_a_y.z * f.a_y.z};
    const Vector3<T> v_jwr_x = multiplied(v_a_x, f.scale), v_jwr_y = multiplied(v_a_y, f.scale);

    Matrix3<T> v_rotation;
    const T jw[2][3] = {{f.jw_x.x, f.jw_x.y, f.jw_x.z}, {f.jw_y.x, f.jw_y.y, f.jw_y.z}};
    for (int i = 0; i < 3; ++i) {
        v_rotation.m[i][0] = jw[0][i] * v_jwr_x.x + jw[1][i] * v_jwr_y.x;
        v_rotation.m[i][1] = jw[0][i] * v_jwr_x.y + jw[1][i] * v_jwr_y.y;
        v_rotation.m[i][2] = jw[0][i] * v_jwr_x.z + jw[1][i] * v_jwr_y.z;
    }
    if (with_normal) {  // normal = R axis
        const Vector3<T> axis = normal_axis(camera, splat, f);
        const T v_normal[3] = {v_screen.normal.x, v_screen.normal.y, v_screen.normal.z};
        for (int i = 0; i < 3; ++i) {
            v_rotation.m[i][0] = v_rotation.m[i][0] + v_normal[i] * axis.x;
            v_rotation.m[i][1] = v_rotation.m[i][1] + v_normal[i] * axis.y;
            v_rotation.m[i][2] = v_rotation.m[i][2] + v_normal[i] * axis.z;
        }
    }
    v.quaternion = quaternion_gradient(f.unit, f.inverse_norm, v_rotation);

    const Vector3<T> v_jw_x = times_column(f.rotation, v_jwr_x), v_jw_y = times_column(f.rotation, v_jwr_y);
    const Vector3<T> in_camera_x = times_column(camera.rotation, v_jw_x);  // row of v_J
    const Vector3<T> in_camera_y = times_column(camera.rotation, v_jw_y);
    Jacobian<T> v_j;
    v_j.xx = in_camera_x.x;
    v_j.xz = in_camera_x.z;
    v_j.yy = in_camera_y.y;
    v_j.yz = in_camera_y.z;
    const Vector3<T> v_point =
        point_gradient(camera, f, v_j, v_screen.mean_x, v_screen.mean_y, v_screen.depth, v_camera);

    v.mean = row_times(v_point, camera.rotation);
    v_camera.translation = v_point;
    v_camera.rotation[0] = blended(v_jw_x, f.jacobian.xx, splat.mean, v_point.x);
    v_camera.rotation[1] = blended(v_jw_y, f.jacobian.yy, splat.mean, v_point.y);
    const Vector3<T> through_j = blended(v_jw_x, f.jacobian.xz, v_jw_y, f.jacobian.yz);
    v_camera.rotation[2] = blended(through_j, T(1), splat.mean, v_point.z);
    return v;
}

SPLAT_END_ISA
