// The table of this instruction set's kernels; dispatch.cpp picks one of them when the library is first used.
#include "kernels.h"

SPLAT_BEGIN_ISA

#define SPLAT_TEXT_OF(name) #name
#define SPLAT_TEXT(name) SPLAT_TEXT_OF(name)

extern const KernelTable kernel_table;
const KernelTable kernel_table = {SPLAT_TEXT(SPLAT_ISA),
#define X(op, Args) op, op,
                                  SPLAT_KERNELS(X)
#undef X
};

SPLAT_END_ISA
