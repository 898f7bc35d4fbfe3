// The numeric contract of all backends (DESIGN.md, "Conventions"). One home for each constant, with its derivation.
#pragma once

#include "macros.h"

namespace splat {

// Largest alpha of one splat. Keeps 1 - alpha away from 0, so that what lies behind still gets a gradient. 3DGS.
constexpr double ALPHA_MAX = 0.99;
// Smallest alpha that is blended: half a step of an 8-bit image would be 1/510; 3DGS chose one whole step.
constexpr double ALPHA_MIN = 1.0 / 255.0;
// A splat that would bring the transmittance to this value or less is not blended, and the ray ends there.
constexpr double TRANSMITTANCE_STOP = 1e-4;

// Projection. The Jacobian is taken at most this fraction of the image's size outside the image (see projection.h):
// half a field of view is half the image, and 3DGS allows 1.3 of it, so 0.3/2.
constexpr double FRUSTUM_MARGIN = 0.15;
// A quaternion shorter than this has no direction: the splat is culled.
constexpr double QUATERNION_NORM_MIN = 1e-12;
// Least determinant of a covariance on the screen, px^4: a standard deviation of 1e-4 px both ways. Its whole extent (3.33
// deviations) is a thousandth of the distance between pixel centres; a smaller one has no conic that can be told from
// infinity in sums.
constexpr double DETERMINANT_MIN = 1e-16;
// Least determinant over the square of half the trace: a needle 1000 times as long as it is wide. The conic of a thinner one
// is positive definite only by digits that a float does not have.
constexpr double CONDITION_MIN = 1e-6;
// Guards the square root of the antialiasing compensation. A visible splat never reaches it: its opacity would be 1e-6.
constexpr double COMPENSATION_MIN = 1e-12;
// Variance on the screen, px^2, that bounds how steeply the depth of a splat grows across it: a hundredth of a pixel, squared.
constexpr double SLOPE_VARIANCE = 1e-4;

// Spherical harmonics. A splat nearer to the camera's centre than this (scene units) has no direction.
constexpr double DISTANCE_MIN = 1e-12;

}  // namespace splat
