// Blocks of splats between memory and the formulas of sh.h and color.h, forward and backward.
#pragma once

#include "../include/color.h"
#include "../include/sh.h"
#include "camera_arrays.h"
#include "wide.h"

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

template <class S>
SPLAT_FN Vector3<Wide<S>> directions(const ViewPoint<S>& view, const S* means, int count,
                                     Wide<S>& inverse_length) {
    using T = Wide<S>;
    if (view.orthographic) {
        inverse_length = T(0);
        return {T(view.forward.x), T(view.forward.y), T(view.forward.z)};
    }
    T mean[3];
    load_rows<3>(means, 3, count, mean);
    return unit_direction(
        Vector3<T>{mean[0] - view.center.x, mean[1] - view.center.y, mean[2] - view.center.z},
        inverse_length);
}

// 0.5 + sum_k Y_k c_k for one channel, and whether it counts: what is not finite or not above zero is black.
template <int COUNT, class T>
SPLAT_FN T encoded_color(const T* basis, const T* coefficients, int channel) {
    T sum = T(0.5);
    for (int k = 0; k < COUNT; ++k) sum = sum + basis[k] * coefficients[3 * k + channel];
    return sum;
}
template <class T>
SPLAT_FN auto counts(T encoded) {
    return is_finite(encoded) & (encoded > T(0));
}

// v_colors -> v_encoded, through the decoding and the clamp at zero.
template <class S>
SPLAT_FN void encoded_gradient(bool decode, const Wide<S>& encoded, Wide<S>& v_color) {
    using T = Wide<S>;
    if (decode) {
        T linear, derivative;
        linear_from_srgb(where(counts(encoded), encoded), linear, derivative);
        v_color = v_color * derivative;
    }
    v_color = where(counts(encoded), v_color);
}

// v_c_k = Y_k v_e, the outer product over the channels.
template <int COUNT, class T>
SPLAT_FN void coefficient_gradient(const T* basis, const T* v_encoded, T* v_coefficients) {
    for (int k = 0; k < COUNT; ++k)
        for (int channel = 0; channel < 3; ++channel)
            v_coefficients[3 * k + channel] = basis[k] * v_encoded[channel];
}

// v_d = sum_k (sum_channel v_e c_k) grad Y_k(d), and from it the gradient to the splat's offset from the camera
// (perspective) or to the direction itself (orthographic).
template <int DEGREE, class S>
SPLAT_FN Vector3<Wide<S>> offset_gradient(const ViewPoint<S>& view, const Vector3<Wide<S>>& direction,
                                          Wide<S> inverse_length, const Wide<S>* coefficients,
                                          const Wide<S>* v_encoded) {
    using T = Wide<S>;
    constexpr int COUNT = (DEGREE + 1) * (DEGREE + 1);
    T weights[COUNT];
    for (int k = 0; k < COUNT; ++k)
        weights[k] = v_encoded[0] * coefficients[3 * k] + v_encoded[1] * coefficients[3 * k + 1] +
                     v_encoded[2] * coefficients[3 * k + 2];
    Vector3<T> v_direction = sh_basis_gradient<DEGREE>(direction, weights);
    if (!view.orthographic) v_direction = direction_gradient(direction, inverse_length, v_direction);
    const auto sound = is_finite(v_direction.x + v_direction.y + v_direction.z);
    return where(sound, v_direction);  // a coefficient that is not finite: its colour is black
}

SPLAT_END_ISA
