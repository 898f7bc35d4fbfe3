// Error text and memory behind the C ABI.
#include "abi.h"

#include <cstdarg>
#include <cstdio>
#include <new>

#include "kernels.h"
#include "services.h"

namespace splat {

namespace {
thread_local char last_error[512] = "";
constexpr std::align_val_t ALIGNMENT{64};  // one cache line, one AVX-512 register
}  // namespace

int fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

void* allocate(size_t bytes) { return ::operator new(bytes, ALIGNMENT, std::nothrow); }

void deallocate(void* memory) {
    if (memory) ::operator delete(memory, ALIGNMENT);
}

}  // namespace splat

SPLAT_EXPORT const char* splat_last_error() { return splat::last_error; }
