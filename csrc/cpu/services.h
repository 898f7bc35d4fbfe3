// What the baseline translation units share with each other (not with kernels): export macro.
#pragma once

#if defined(_WIN32)
#define SPLAT_EXPORT extern "C" __declspec(dllexport)
#else
#define SPLAT_EXPORT extern "C" __attribute__((visibility("default")))
#endif

#ifndef SPLAT_BUILD_ID
#define SPLAT_BUILD_ID ""
#endif
