// SSIM: its window and constants, the value at a pixel, and the gradient there.
//
// Sources: Wang, Bovik, Sheikh, Simoncelli 2004, "Image Quality Assessment: From Error Visibility to
// Structural Similarity", eq. 13 to 16; the gradient is derived below.
#pragma once

#include "scalar.h"

SPLAT_BEGIN_ISA

constexpr int WINDOW_RADIUS = 5;  // 11 taps
// exp(-k^2 / (2 1.5^2)) / sum, k = 0 to 5: the window is symmetric, so six numbers serve eleven taps.
constexpr double WINDOW_TAPS[WINDOW_RADIUS + 1] = {0.26601172486179436, 0.21300553771125369,
                                                   0.10936068950970002, 0.03600077212843083,
                                                   0.00759875813523919, 0.00102838008447911};
constexpr double SSIM_K1 = 0.01, SSIM_K2 = 0.03;

// Blurred with the window G: G x, G y, G (x^2 + y^2), G (x y). The two squares are never needed apart.
template <class T>
struct SsimMoments {
    T mean_x, mean_y, squares, product;
};

// dSSIM/d(G x), dSSIM/d(G (x^2 + y^2)), dSSIM/d(G (x y)) at one pixel; mean_y and y belong to the target: no
// gradient.
template <class T>
struct SsimGradient {
    T mean, squares, product;
};

// SSIM at a pixel. With mu_x = G x, mu_y = G y:
//   A1 = 2 mu_x mu_y + C1        A2 = 2 (G(xy) - mu_x mu_y) + C2
//   B1 = mu_x^2 + mu_y^2 + C1    B2 = G(x^2 + y^2) - mu_x^2 - mu_y^2 + C2        SSIM = A1 A2 / (B1 B2)
// Gradient:
//   d/dG(xy)        = 2 A1 / (B1 B2)
//   d/dG(x^2 + y^2) = -SSIM / B2
//   d/dmu_x         = 2 mu_y (A2 - A1) / (B1 B2) - 2 mu_x SSIM (1/B1 - 1/B2)
template <class T>
SPLAT_FN T ssim_at(const SsimMoments<T>& m, T c1, T c2, SsimGradient<T>& gradient) {
    const T cross = m.mean_x * m.mean_y;
    const T powers = m.mean_x * m.mean_x + m.mean_y * m.mean_y;
    const T a1 = cross + cross + c1;
    const T a2 = T(2) * (m.product - cross) + c2;
    const T b1 = powers + c1, b2 = m.squares - powers + c2;
    const T inverse = T(1) / (b1 * b2);
    const T value = a1 * a2 * inverse;
    const T inverse_b2 = b1 * inverse;
    gradient.product = T(2) * a1 * inverse;
    gradient.squares = -value * inverse_b2;
    gradient.mean = T(2) * (m.mean_y * (a2 - a1) * inverse - m.mean_x * value * (b2 * inverse - inverse_b2));
    return value;
}

// v_x at a pixel, from the three gradient maps blurred with the same (symmetric) window: the adjoint of x ->
// G x, G x^2, G x y.
template <class T>
SPLAT_FN T ssim_image_gradient(T x, T y, const SsimGradient<T>& blurred) {
    return blurred.mean + T(2) * x * blurred.squares + y * blurred.product;
}

SPLAT_END_ISA
