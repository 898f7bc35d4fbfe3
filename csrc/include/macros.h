// Macros that let one source serve several compilers: host C++ (once for each instruction set) and CUDA.
#pragma once

// SPLAT_FN marks every function of csrc/include: always inlined, callable on host and device.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SPLAT_FN __host__ __device__ __forceinline__
#else
#define SPLAT_FN inline __attribute__((always_inline))
#endif

// All code of csrc/include, csrc/cpu/vec.h and the *_kernel.cpp files lives between SPLAT_BEGIN_ISA and
// SPLAT_END_ISA. The build compiles it once for each instruction set with -DSPLAT_ISA=<name>; a namespace for
// each keeps the linker from merging an inline function built for AVX-512 with one that a baseline CPU will run.
#ifndef SPLAT_ISA
#define SPLAT_ISA isa_host
#endif
#define SPLAT_BEGIN_ISA \
    namespace splat {   \
    namespace SPLAT_ISA {
#define SPLAT_END_ISA \
    }                 \
    }
