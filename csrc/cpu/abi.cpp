// Error text and memory behind the C ABI.
#include "abi.h"

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "kernels.h"
#include "services.h"

namespace splat {

namespace {
thread_local char last_error[512] = "";
constexpr size_t ALIGNMENT = 64;  // one cache line, one AVX-512 register
}  // namespace

int fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#if defined(__linux__)

// Large blocks ask for huge pages: splats are visited in an order that has nothing to do with where they lie, and with
// pages of 4 kB most of those visits would miss the table of pages as well as the cache.
void* allocate(size_t bytes) {
    constexpr size_t HUGE_PAGE = size_t(2) << 20;
    const bool large = bytes >= 2 * HUGE_PAGE;
    void* memory = nullptr;
    if (posix_memalign(&memory, large ? HUGE_PAGE : ALIGNMENT, bytes)) return nullptr;
    if (large) madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);  // a hint: it may be refused
    return memory;
}

void deallocate(void* memory) { std::free(memory); }

#else

void* allocate(size_t bytes) { return ::operator new(bytes, std::align_val_t(ALIGNMENT), std::nothrow); }

void deallocate(void* memory) {
    if (memory) ::operator delete(memory, std::align_val_t(ALIGNMENT));
}

#endif

}  // namespace splat

SPLAT_EXPORT const char* splat_last_error() { return splat::last_error; }
