// Picks the kernels for this CPU, and exports the C entry points. Compiled for the oldest CPU of the architecture.
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "kernels.h"
#include "services.h"

#if defined(__x86_64__) || defined(_M_X64)
#define SPLAT_X86 1
#include <cpuid.h>
#endif

namespace splat {

#ifdef SPLAT_X86
namespace isa_v2 {
extern const KernelTable kernel_table;
}
namespace isa_v3 {
extern const KernelTable kernel_table;
}
namespace isa_v4 {
extern const KernelTable kernel_table;
}
#else
namespace isa_base {
extern const KernelTable kernel_table;
}
#endif

namespace {

#ifdef SPLAT_X86

// Which register files the operating system saves (XCR0); `xgetbv` is only legal where OSXSAVE is set.
uint64_t saved_registers() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t(high) << 32) | low;
}

bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

// Newest x86-64 level (psABI: 2, 3 or 4) that the CPU and the operating system support; 1 for an older CPU.
// Own code because __builtin_cpu_supports answers no under zig (KERNELS.md, section 2).
int supported_level() {
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 1;
    const uint32_t features = c;
    // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
    if (!has(features, 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23)) return 1;
    // FMA, MOVBE, OSXSAVE, AVX, F16C; then XMM and YMM state
    if (!has(features, 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)) return 2;
    const uint64_t saved = saved_registers();
    if ((saved & 0x6) != 0x6) return 2;
    uint32_t extended_c = 0;
    if (!__get_cpuid(0x80000001u, &a, &b, &extended_c, &d) || !has(extended_c, 1u << 5)) return 2;  // LZCNT
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
    if (!has(b, 1u << 3 | 1u << 5 | 1u << 8)) return 2;  // BMI1, AVX2, BMI2
    // opmask and both halves of ZMM state; AVX-512 F, DQ, CD, BW, VL
    if ((saved & 0xe6) != 0xe6) return 3;
    if (!has(b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)) return 3;
    return 4;
}

const KernelTable* choose_table() {
    int level = supported_level();
    const char* wanted = std::getenv("SPLAT_ISA");
    if (wanted && wanted[0] == 'v' && wanted[1] >= '2' && wanted[1] <= '4' && wanted[2] == 0) {
        const int asked = wanted[1] - '0';
        if (asked < level) level = asked;  // only downwards: a higher level would crash
    }
    return level == 4   ? &isa_v4::kernel_table
           : level == 3 ? &isa_v3::kernel_table
           : level == 2 ? &isa_v2::kernel_table
                        : nullptr;
}

#else

const KernelTable* choose_table() { return &isa_base::kernel_table; }

#endif

const KernelTable* table() {
    static const KernelTable* const chosen = choose_table();
    return chosen;
}

template <class Args>
int run(int (*KernelTable::*entry)(const Args&), const Args* args) {
    if (!args) return fail(STATUS_BAD_ARGUMENT, "the argument structure is null");
    if (!table()) return fail(STATUS_UNSUPPORTED, "this CPU is older than x86-64-v2 (SSE 4.2)");
    const HeldThreadCount one_count;
    return (table()->*entry)(*args);
}

}  // namespace
}  // namespace splat

#define X(op, Args)                                                      \
    SPLAT_EXPORT int splat_##op##_f32(const splat::Args<float>* args) {  \
        return splat::run(&splat::KernelTable::op##_f32, args);          \
    }                                                                    \
    SPLAT_EXPORT int splat_##op##_f64(const splat::Args<double>* args) { \
        return splat::run(&splat::KernelTable::op##_f64, args);          \
    }
SPLAT_KERNELS(X)
#undef X

SPLAT_EXPORT int32_t splat_abi_version() { return splat::ABI_VERSION; }

SPLAT_EXPORT const char* splat_isa() { return splat::table() ? splat::table()->name : "unsupported"; }

// Size of an op's float argument structure in bytes, -1 for an unknown op: lets Python check its mirror on loading.
SPLAT_EXPORT int64_t splat_args_size(const char* op) {
#define X(name, Args) \
    if (!std::strcmp(op, #name)) return int64_t(sizeof(splat::Args<float>));
    SPLAT_KERNELS(X)
#undef X
    return -1;
}

// Fingerprint of the sources that this library was built from (see splat_engine/native/build.py).
SPLAT_EXPORT const char* splat_build_id() { return SPLAT_BUILD_ID; }
