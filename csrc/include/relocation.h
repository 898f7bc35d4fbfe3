// A splat replaced by n copies of itself at one place that together draw what it drew (relocation in MCMC densification).
//
//   o' = 1 - (1 - o)^(1/n)                                          n copies of it blend to o again
//   s' = s o / S,   S = sum_{i=1}^n sum_{k=0}^{i-1} C(i-1, k) (-1)^k o'^(k+1) / sqrt(k+1)
//
// so that along every line through the centre the integral of what is drawn stays what it was.
//
// The two sums are one: sum_{i=k+1}^n C(i-1, k) = C(n, k+1) (the hockey stick), so
//   S = sum_{j=1}^n C(n, j) (-1)^(j-1) o'^j / sqrt(j),
// whose terms follow from one another. They alternate in sign and grow up to (1 + o')^n: with n at most 51 and o at most
// 1 - 2^-23 that is 2e5 times the result, so the sum is formed in double whatever the splats' type is.
//
// Source: Kheradmand et al. 2024, "3D Gaussian Splatting as Markov Chain Monte Carlo", equation 9.
#pragma once

#include "scalar.h"

SPLAT_BEGIN_ISA

constexpr int RELOCATION_COUNT_MAX = 51;
constexpr double RELOCATION_OPACITY_MIN = 1e-6;  // of which the copies draw nothing, whatever their size
constexpr double RELOCATION_OPACITY_MAX =
    1.0 - 1.0 / (1 << 23);  // an opacity of 1 has no root; the float next to it has

// o' and s'/s. The count is taken as 1 to RELOCATION_COUNT_MAX, the opacity as lying between the limits above; 1 copy is
// the splat itself.
SPLAT_FN void relocation(double opacity, int count, double& new_opacity, double& scale_ratio) {
    new_opacity = opacity;
    scale_ratio = 1.0;
    if (count < 2) return;
    const int copies = count < RELOCATION_COUNT_MAX ? count : RELOCATION_COUNT_MAX;
    const double held = smaller(larger(opacity, RELOCATION_OPACITY_MIN), RELOCATION_OPACITY_MAX);
    new_opacity = 1.0 - positive_power(1.0 - held, 1.0 / copies);
    double term = -1.0, sum = 0.0;  // term = -C(n, j) (-o')^j
    for (int j = 1; j <= copies; ++j) {
        term = term * -new_opacity * (double(copies - j + 1) / double(j));
        sum = sum + term / square_root(double(j));
    }
    scale_ratio = held / sum;
}

SPLAT_END_ISA
