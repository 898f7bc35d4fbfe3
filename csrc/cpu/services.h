// What the baseline translation units share with each other (not with kernels): export macro, held thread count.
#pragma once

#if defined(_WIN32)
#define SPLAT_EXPORT extern "C" __declspec(dllexport)
#else
#define SPLAT_EXPORT extern "C" __attribute__((visibility("default")))
#endif

#ifndef SPLAT_BUILD_ID
#define SPLAT_BUILD_ID ""
#endif

namespace splat {

// While one lives, thread_count() gives its thread one and the same number, whatever other threads set: kernels size
// memory by the count and split work by it later.
class HeldThreadCount {
  public:
    HeldThreadCount();
    ~HeldThreadCount();
    HeldThreadCount(const HeldThreadCount&) = delete;
    HeldThreadCount& operator=(const HeldThreadCount&) = delete;
};

}  // namespace splat
