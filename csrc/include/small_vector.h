// Three-vectors, quaternions and 3x3 matrices of any number type, and the little algebra that the formulas
// use.
#pragma once

#include "scalar.h"

SPLAT_BEGIN_ISA

template <class T>
struct Vector3 {
    T x, y, z;
};

template <class T>
struct Quaternion {
    T w, x, y, z;
};

// Three rows; m[row][column].
template <class T>
struct Matrix3 {
    T m[3][3];
};

template <class T>
SPLAT_FN T dot(const Vector3<T>& a, const Vector3<T>& b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class T>
SPLAT_FN Vector3<T> cross(const Vector3<T>& a, const Vector3<T>& b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
template <class T>
SPLAT_FN Vector3<T> scaled(const Vector3<T>& a, T factor) {
    return {a.x * factor, a.y * factor, a.z * factor};
}
// a f + b g
template <class T>
SPLAT_FN Vector3<T> blended(const Vector3<T>& a, T f, const Vector3<T>& b, T g) {
    return {a.x * f + b.x * g, a.y * f + b.y * g, a.z * f + b.z * g};
}
template <class T>
SPLAT_FN Vector3<T> multiplied(const Vector3<T>& a, const Vector3<T>& b) {
    return {a.x * b.x, a.y * b.y, a.z * b.z};
}
// Row vector times matrix. The matrix may be of one lane (the camera's) while the vector is wide.
template <class T, class M>
SPLAT_FN Vector3<T> row_times(const Vector3<T>& a, const Matrix3<M>& b) {
    return {a.x * b.m[0][0] + a.y * b.m[1][0] + a.z * b.m[2][0],
            a.x * b.m[0][1] + a.y * b.m[1][1] + a.z * b.m[2][1],
            a.x * b.m[0][2] + a.y * b.m[1][2] + a.z * b.m[2][2]};
}
// Matrix times column vector.
template <class T, class M>
SPLAT_FN Vector3<T> times_column(const Matrix3<M>& a, const Vector3<T>& b) {
    return {b.x * a.m[0][0] + b.y * a.m[0][1] + b.z * a.m[0][2],
            b.x * a.m[1][0] + b.y * a.m[1][1] + b.z * a.m[1][2],
            b.x * a.m[2][0] + b.y * a.m[2][1] + b.z * a.m[2][2]};
}
template <class T, class C>
SPLAT_FN Vector3<T> select(C condition, const Vector3<T>& yes, const Vector3<T>& no) {
    return {select(condition, yes.x, no.x), select(condition, yes.y, no.y), select(condition, yes.z, no.z)};
}
template <class T, class C>
SPLAT_FN Vector3<T> where(C condition, const Vector3<T>& value) {
    return {where(condition, value.x), where(condition, value.y), where(condition, value.z)};
}

SPLAT_END_ISA
