"""The kernel of ``relocate``, emulated: equal to the CPU's and to the reference."""

from __future__ import annotations

import pytest
import torch

from splat_engine.ops import relocate
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order


@every_order
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 127, 300])
@pytest.mark.parametrize("other", ["cpu", "reference"])
def test_equals_the_other_backends(
    emulated: EmulatedLauncher, dtype: torch.dtype, count: int, other: str
) -> None:
    """Opacities from 0 to 1, counts below, within and above the limits."""
    generator = torch.Generator().manual_seed(count)
    opacities = (1.2 * torch.rand(count, generator=generator, dtype=torch.float64) - 0.1).clamp(0, 1)
    scales = torch.rand((count, 3), generator=generator, dtype=torch.float64)
    copies = torch.randint(-2, 70, (count,), generator=generator)
    got = relocate(opacities.to(dtype), scales.to(dtype), copies, backend="cuda")
    want = relocate(opacities.to(dtype), scales.to(dtype), copies, backend=other)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-9
    for one, two in zip(got, want, strict=True):
        torch.testing.assert_close(one, two, rtol=tolerance, atol=tolerance)
    assert emulated.launches.total() == (count > 0)
