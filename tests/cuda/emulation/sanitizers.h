// What the sanitizers must be told about stacks that change and about the order that barriers make; nothing in a plain
// build. The build defines EMULATION_ADDRESS or EMULATION_THREAD.
#pragma once

#include <cstddef>

#if defined(EMULATION_ADDRESS)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(EMULATION_THREAD)
#include <sanitizer/tsan_interface.h>
// Of report_hook.cpp, where a process has it.
extern "C" __attribute__((weak, visibility("default"))) int emulation_reports;
#endif

namespace emulation {

// One stack, as the sanitizers know it.
struct FiberMark {
    const void* bottom = nullptr;  // address sanitizer
    size_t size = 0;
    void* fake_stack = nullptr;
    void* fiber = nullptr;  // thread sanitizer
};

// The caller's own stack.
inline void enter_scheduler(FiberMark& mark) {
#if defined(EMULATION_THREAD)
    mark.fiber = __tsan_get_current_fiber();
#else
    (void)mark;
#endif
}

// A stack on which nothing runs yet.
inline void new_fiber(FiberMark& mark, const void* bottom, size_t size) {
    mark = {bottom, size, nullptr, mark.fiber};
#if defined(EMULATION_THREAD)
    if (mark.fiber) __tsan_destroy_fiber(mark.fiber);
    mark.fiber = __tsan_create_fiber(0);
#endif
}

// Before the stack is changed. The change itself orders nothing.
inline void leave_fiber(FiberMark& from, FiberMark& to) {
#if defined(EMULATION_ADDRESS)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.size);
#elif defined(EMULATION_THREAD)
    (void)from;
    __tsan_switch_to_fiber(to.fiber, __tsan_switch_to_fiber_no_sync);
#else
    (void)from, (void)to;
#endif
}

// After it, on the new stack, whose fake stack this was; learns the bounds of the one that was left.
inline void arrive_in_fiber(void* fake_stack, FiberMark& left) {
#if defined(EMULATION_ADDRESS)
    __sanitizer_finish_switch_fiber(fake_stack, &left.bottom, &left.size);
#else
    (void)fake_stack, (void)left;
#endif
}

inline void unpoison(const void* memory, size_t size) {
#if defined(EMULATION_ADDRESS)
    __asan_unpoison_memory_region(memory, size);
#else
    (void)memory, (void)size;
#endif
}

// How many races have been reported, in a process that counts them.
inline int reports() {
#if defined(EMULATION_THREAD)
    return &emulation_reports ? *const_cast<volatile int*>(&emulation_reports) : 0;
#else
    return 0;
#endif
}

// Everything that this thread did so far comes before what follows another's acquire.
inline void release(void* object) {
#if defined(EMULATION_THREAD)
    __tsan_release(object);
#else
    (void)object;
#endif
}

inline void acquire(void* object) {
#if defined(EMULATION_THREAD)
    __tsan_acquire(object);
#else
    (void)object;
#endif
}

}  // namespace emulation
