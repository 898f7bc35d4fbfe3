// From spherical harmonics to a splat's colour as a camera sees it, forward and backward (sh.h has the basis, color.h the
// sRGB curve).
//
//   e = 0.5 + sum_k Y_k(d) c_k, black where it is not finite or not above zero; then linear light, if that is asked for.
//   v_c_k = Y_k v_e,   v_d = sum_k (sum_channel v_e c_k) grad Y_k(d)
//
// S is the type of one lane, T of a splat's numbers; they differ where T holds one lane for each of several splats.
#pragma once

#include "camera.h"
#include "color.h"
#include "sh.h"

SPLAT_BEGIN_ISA

// The camera as directions need it.
template <class S>
struct ViewPoint {
    Matrix3<S> rotation;
    Vector3<S> translation;
    Vector3<S> center;   // perspective: camera centre in the world
    Vector3<S> forward;  // orthographic: unit forward axis in the world
    S inverse_length;    // orthographic: 1 / |row 2 of the rotation|
    bool orthographic;
};

template <class S>
SPLAT_FN ViewPoint<S> read_view_point(const S* viewmat, bool orthographic) {
    ViewPoint<S> view;
    read_viewmat(viewmat, view.rotation, view.translation);
    view.center = camera_center(view.rotation, view.translation);
    const auto& row = view.rotation.m[2];
    view.forward = unit_direction(Vector3<S>{row[0], row[1], row[2]}, view.inverse_length);
    view.orthographic = orthographic;
    return view;
}

// The direction in which the camera sees a splat, and 1 / distance (0 for an orthographic camera).
template <class T, class S>
SPLAT_FN Vector3<T> view_direction(const ViewPoint<S>& view, const Vector3<T>& mean, T& inverse_length) {
    if (view.orthographic) {
        inverse_length = T(0);
        return {T(view.forward.x), T(view.forward.y), T(view.forward.z)};
    }
    return unit_direction(Vector3<T>{mean.x - view.center.x, mean.y - view.center.y, mean.z - view.center.z},
                          inverse_length);
}

// e of one channel.
template <int COUNT, class T>
SPLAT_FN T encoded_color(const T* basis, const T* coefficients, int channel) {
    T sum = T(0.5);
    for (int k = 0; k < COUNT; ++k) sum = sum + basis[k] * coefficients[3 * k + channel];
    return sum;
}

// Whether a colour counts: what is not finite or not above zero is black.
template <class T>
SPLAT_FN auto counts(T encoded) {
    return is_finite(encoded) & (encoded > T(0));
}

// e -> colour.
template <class T>
SPLAT_FN T shown_color(bool decode, T encoded) {
    T color = where(counts(encoded), encoded), derivative;
    if (decode) linear_from_srgb(color, color, derivative);
    return color;
}

// v_colour -> v_e, through the decoding and the clamp at zero.
template <class T>
SPLAT_FN void encoded_gradient(bool decode, const T& encoded, T& v_color) {
    if (decode) {
        T linear, derivative;
        linear_from_srgb(where(counts(encoded), encoded), linear, derivative);
        v_color = v_color * derivative;
    }
    v_color = where(counts(encoded), v_color);
}

// v_c_k of one coefficient, and what it has a share in v_d with: sum_channel v_e c_k. The gradient may take the
// coefficient's place.
template <class T>
SPLAT_FN T coefficient_gradient(T basis, const T* coefficient, const T* v_encoded, T* v_coefficient) {
    const T weight =
        v_encoded[0] * coefficient[0] + v_encoded[1] * coefficient[1] + v_encoded[2] * coefficient[2];
    for (int channel = 0; channel < 3; ++channel) v_coefficient[channel] = basis * v_encoded[channel];
    return weight;
}

// v_d of the weights that coefficient_gradient gave, and from it the gradient to the splat's offset from the camera
// (perspective) or to the direction itself (orthographic).
template <int DEGREE, class T, class S>
SPLAT_FN Vector3<T> offset_gradient(const ViewPoint<S>& view, const Vector3<T>& direction, T inverse_length,
                                    const T* weights) {
    Vector3<T> v_direction = sh_basis_gradient<DEGREE>(direction, weights);
    if (!view.orthographic) v_direction = direction_gradient(direction, inverse_length, v_direction);
    const auto sound = is_finite(v_direction.x + v_direction.y + v_direction.z);
    return where(sound, v_direction);  // a coefficient that is not finite: its colour is black
}

// The sum of offset_gradient over the splats as gradient of viewmat, [4,4] with a last row of 0.
//   perspective:   offset = m - centre and centre = -W^T t, so v_centre = -sum v_offset,
//                  v_t = -W v_centre,  v_W_ij = -t_i v_centre_j
//   orthographic:  d = row 2 of W, normalised
template <class S>
SPLAT_FN void write_view_point_gradient(const ViewPoint<S>& view, const double (&sum)[3], S* v_viewmat) {
    for (int i = 0; i < 16; ++i) v_viewmat[i] = S(0);
    const Vector3<S> total = {S(sum[0]), S(sum[1]), S(sum[2])};
    if (view.orthographic) {
        const Vector3<S> v_row = direction_gradient(view.forward, view.inverse_length, total);
        v_viewmat[8] = v_row.x;
        v_viewmat[9] = v_row.y;
        v_viewmat[10] = v_row.z;
        return;
    }
    const Vector3<S> v_translation = times_column(view.rotation, total);
    const S translation[3] = {view.translation.x, view.translation.y, view.translation.z};
    for (int row = 0; row < 3; ++row) {
        v_viewmat[row * 4] = translation[row] * total.x;
        v_viewmat[row * 4 + 1] = translation[row] * total.y;
        v_viewmat[row * 4 + 2] = translation[row] * total.z;
    }
    v_viewmat[3] = v_translation.x;
    v_viewmat[7] = v_translation.y;
    v_viewmat[11] = v_translation.z;
}

SPLAT_END_ISA
