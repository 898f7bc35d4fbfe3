// One parameter's Adam update.
//
// Source: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1.
#pragma once

#include "scalar.h"

SPLAT_BEGIN_ISA

// What is the same for all parameters of a step. `Size` may be a vector: a step size for each lane.
template <class S, class Size = S>
struct AdamStep {
    S rate1;  // 1 - beta1; formed in double, since the float nearest to 0.999 would be off by 1e-5 of 0.001
    S beta2, rate2;  // beta2 and 1 - beta2
    S eps;
    Size step_size;  // learning rate / (1 - beta1^t)
    S inverse_root;  // 1 / sqrt(1 - beta2^t)
};

template <class T, class S, class Size>
SPLAT_FN void adam_update(const AdamStep<S, Size>& step, T gradient, T& parameter, T& first, T& second) {
    first = first + (gradient - first) * step.rate1;
    second = second * step.beta2 + gradient * gradient * step.rate2;
    parameter = parameter - first * step.step_size / (square_root(second) * step.inverse_root + step.eps);
}

SPLAT_END_ISA
