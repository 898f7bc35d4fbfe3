// Rasterizer entry points. (The kernels follow in the next commit; until then the op says that it is missing.)
#include "kernels.h"

SPLAT_BEGIN_ISA

int rasterize_fwd(const RasterizeFwdArgs<float>&) { return fail(STATUS_UNSUPPORTED, "rasterize is not built yet"); }
int rasterize_fwd(const RasterizeFwdArgs<double>&) { return fail(STATUS_UNSUPPORTED, "rasterize is not built yet"); }
int rasterize_bwd(const RasterizeBwdArgs<float>&) { return fail(STATUS_UNSUPPORTED, "rasterize is not built yet"); }
int rasterize_bwd(const RasterizeBwdArgs<double>&) { return fail(STATUS_UNSUPPORTED, "rasterize is not built yet"); }

SPLAT_END_ISA
