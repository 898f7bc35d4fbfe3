// The sRGB transfer curve and its derivative, both ways (IEC 61966-2-1), as Blender applies it to splats: no
// upper clamp.
#pragma once

#include "scalar.h"

SPLAT_BEGIN_ISA

constexpr double SRGB_KNEE = 0.04045;       // encoded value where the straight part ends
constexpr double SRGB_SLOPE = 1.0 / 12.92;  // of the straight part
constexpr double SRGB_OFFSET = 0.055;       // linear = ((encoded + offset) / (1 + offset))^2.4 above the knee

// Linear light of an encoded value of 0 or more, and its derivative.
template <class T>
SPLAT_FN void linear_from_srgb(T encoded, T& linear, T& derivative) {
    const auto low = encoded <= T(SRGB_KNEE);
    const T base = (encoded + T(SRGB_OFFSET)) * T(1.0 / (1.0 + SRGB_OFFSET));  // at least 0.052
    // base^2.4 = base^2 base^0.4, base^1.4 = base base^0.4: one power for both
    const T power = base * positive_power(base, 0.4);
    linear = select(low, encoded * T(SRGB_SLOPE), base * power);
    derivative = select(low, T(SRGB_SLOPE), power * T(2.4 / (1.0 + SRGB_OFFSET)));
}

constexpr double SRGB_LINEAR_KNEE = 0.0031308;  // linear value where the straight part ends

// Encoded value of linear light; negative light stays on the straight part. What is not finite gives NaN.
template <class T>
SPLAT_FN T srgb_from_linear(T linear) {
    const T base = larger(linear, T(SRGB_LINEAR_KNEE));
    const T curved = positive_power(base, 1.0 / 2.4) * T(1.0 + SRGB_OFFSET) - T(SRGB_OFFSET) + poison(linear);
    return select(linear <= T(SRGB_LINEAR_KNEE), linear * T(1.0 / SRGB_SLOPE), curved);
}

// Its derivative, from the value itself: (1 + offset) / 2.4 linear^(1 / 2.4 - 1) = (encoded + offset) / (2.4 linear).
template <class T>
SPLAT_FN T srgb_from_linear_gradient(T linear, T encoded) {
    const T curved = (encoded + T(SRGB_OFFSET)) / (larger(linear, T(SRGB_LINEAR_KNEE)) * T(2.4));
    return select(linear <= T(SRGB_LINEAR_KNEE), T(1.0 / SRGB_SLOPE), curved);
}

// How photometric_loss compares a number of a picture. `encode`: it is given as linear light, else as an sRGB value.
//
// `linear` false: sRGB values are compared. `linear` true: linear light x, against a wanted y, by s(x) (x - y), where s is the
// slope of the curve at the drawn value and counts as a constant. Near y that is the difference of the encoded values, so
// dark and bright parts weigh as they do to the eye. But y stands in it to the first power only: if y is noisy, the gradient
// of the squared difference, s^2 (x - y), has a mean of 0 where x is the mean of y. Encoded noisy values have another mean, since
// the curve is bent; so has what 1 / s(y)^2 weighs, or what minimises |x - y|.
//
// Source: Mildenhall et al. 2022, "NeRF in the Dark" (RawNeRF), eq. 3 to 5; Lehtinen et al. 2018, "Noise2Noise", section 3.3.
template <class T>
SPLAT_FN T compared_value(T given, bool encode, bool linear) {
    if (encode == linear) return given;
    if (encode) return srgb_from_linear(given);
    T light, derivative;
    linear_from_srgb(given, light, derivative);
    return light;
}

// s(x) for the comparison of linear light, else 1.
template <class T>
SPLAT_FN T comparison_slope(T drawn, bool linear) {
    return linear ? srgb_from_linear_gradient(drawn, srgb_from_linear(drawn)) : T(1);
}

SPLAT_END_ISA
