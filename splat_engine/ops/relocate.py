"""``relocate``: what the copies of a splat must look like so that together they draw what it drew."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.ops.backends import call
from splat_engine.ops.checks import check_backend, check_tensor, scalar_name
from splat_engine.ops.memory import address, check_place
from splat_engine.ops.reference import relocate as reference
from splat_engine.ops.reference.relocate import COUNT_MAX

__all__ = ["COUNT_MAX", "relocate"]


def relocate(
    opacities: Tensor, scales: Tensor, counts: Tensor, *, backend: str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Gives the opacity and the scales of each of a splat's copies, all at its place: blended they have its opacity, and
    along every line through its centre the integral of what they draw is the one of what it drew. No gradients.

    Args:
        opacities: [N] of 0 to 1, taken as at least 1e-6 and at most 1 - 2^-23. N may be 0.
        scales: [N, 3] standard deviations (not their logarithms), scene units.
        counts: [N] int32 or int64: how many copies there will be, the splat itself included. Taken as 1 to COUNT_MAX; 1
            changes nothing.
        backend: "cpu", "cuda" or "reference".

    Returns:
        Opacities [N] and scales [N, 3] of the copies.

    Raises:
        ValueError: a shape, type or name is not as above.

    Source: Kheradmand et al. 2024, 3D Gaussian Splatting as Markov Chain Monte Carlo, equation 9;
    csrc/include/relocation.h.
    """
    check_backend(backend)
    scalar_name(opacities.dtype)
    check_tensor("opacities", opacities, (None,))
    check_tensor("scales", scales, (len(opacities), 3), opacities)
    check_tensor("counts", counts, (len(opacities),))
    if counts.dtype not in (torch.int32, torch.int64) or counts.device != opacities.device:
        raise ValueError(
            f"counts: expected int32 or int64 on {opacities.device}, got {counts.dtype} on {counts.device}"
        )
    opacities, scales = opacities.detach().contiguous(), scales.detach().contiguous()
    if backend == "reference":
        return reference.relocate(opacities, scales, counts)
    check_place(backend, opacities)
    new_opacities, new_scales = torch.empty_like(opacities), torch.empty_like(scales)
    copies = counts.clamp(1, COUNT_MAX).to(torch.int32).contiguous()
    call(
        backend,
        "relocate",
        opacities,
        count=len(opacities),
        opacities=address(opacities),
        scales=address(scales),
        counts=address(copies),
        new_opacities=address(new_opacities),
        new_scales=address(new_scales),
    )
    return new_opacities, new_scales
