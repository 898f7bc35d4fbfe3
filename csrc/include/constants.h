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

}  // namespace splat
