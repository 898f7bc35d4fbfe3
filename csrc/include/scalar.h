// What the formulas of csrc/include need from a number type, for float and double.
//
// The formulas are templates over T. On CUDA T is float or double. On the CPU T may also be Wide<float> or
// Wide<double> (csrc/cpu/wide.h): one lane for each of several splats. So the formulas have no branch that
// depends on a splat's values: they compute both sides and `select`. A comparison of two T gives a truth
// value for each lane; combine those with & and |, never with && and ||. Literals are written T(0.5), or a
// float would become a double.
#pragma once

#include "macros.h"

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SPLAT_MATH(name) ::name
#else
#define SPLAT_MATH(name) __builtin_##name
#endif

SPLAT_BEGIN_ISA

SPLAT_FN float square_root(float x) { return SPLAT_MATH(sqrtf)(x); }
SPLAT_FN double square_root(double x) { return SPLAT_MATH(sqrt)(x); }
SPLAT_FN float exponential(float x) { return SPLAT_MATH(expf)(x); }
SPLAT_FN double exponential(double x) { return SPLAT_MATH(exp)(x); }
SPLAT_FN float logarithm(float x) { return SPLAT_MATH(logf)(x); }
SPLAT_FN double logarithm(double x) { return SPLAT_MATH(log)(x); }

// x^exponent where x and the result are positive normal numbers: what lies outside need not be looked after.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
// A tenth of the instructions of powf. __log2f is at most 2 units in the last place off (CUDA C++ Programming Guide,
// "Intrinsic Functions"; 2^-22 from 0.5 to 2), exp2f 2: for x from 0.003 to 256 and the exponents of color.h 8e-7 relative.
SPLAT_FN float positive_power(float x, double exponent) { return ::exp2f(::__log2f(x) * float(exponent)); }
#else
SPLAT_FN float positive_power(float x, double exponent) { return SPLAT_MATH(powf)(x, float(exponent)); }
#endif
SPLAT_FN double positive_power(double x, double exponent) { return SPLAT_MATH(pow)(x, exponent); }

SPLAT_FN float select(bool condition, float yes, float no) { return condition ? yes : no; }
SPLAT_FN double select(bool condition, double yes, double no) { return condition ? yes : no; }

template <class T>
SPLAT_FN T smaller(T a, T b) {
    return select(b < a, b, a);
}
template <class T>
SPLAT_FN T larger(T a, T b) {
    return select(a < b, b, a);
}

// 0 for a finite number, NaN for NaN and infinities: sums of it find a bad value among many. It relies on
// IEEE arithmetic (no -ffast-math).
template <class T>
SPLAT_FN T poison(T x) {
    return x - x;
}
template <class T>
SPLAT_FN auto is_finite(T x) {
    return poison(x) == T(0);
}

// Zero in the lanes where the condition fails, whatever (NaN, infinity) stands there.
template <class T, class C>
SPLAT_FN T where(C condition, T value) {
    return select(condition, value, T(0));
}

SPLAT_END_ISA
