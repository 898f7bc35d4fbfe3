"""The op ``relocate``: the copies of a splat together draw what it drew."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from splat_scenes import threads
from torch import Tensor

from splat_engine.ops.relocate import COUNT_MAX, relocate

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_backends = pytest.mark.parametrize("backend", ["cpu", "reference"])


def splats(count: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Opacities from 0.001 to 0.999, scales, and 1 to COUNT_MAX copies."""
    generator = torch.Generator().manual_seed(1)
    opacities = 0.001 + 0.998 * torch.rand(count, generator=generator, dtype=torch.float64)
    scales = 0.01 + torch.rand((count, 3), generator=generator, dtype=torch.float64)
    return opacities.to(dtype), scales.to(dtype), torch.arange(count) % COUNT_MAX + 1


@both_types
def test_cpu_equals_reference(dtype: torch.dtype) -> None:
    """The one sum of the kernel is the double sum of the paper."""
    inputs = splats(701, dtype)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-9
    for one, two in zip(relocate(*inputs), relocate(*inputs, backend="reference"), strict=True):
        torch.testing.assert_close(one, two, rtol=tolerance, atol=0)


@both_backends
def test_copies_blend_to_the_old_opacity(backend: str) -> None:
    """1 - (1 - o_new)^n = o."""
    opacities, scales, counts = splats(500)
    new, _ = relocate(opacities, scales, counts, backend=backend)
    assert torch.allclose(1 - (1 - new) ** counts, opacities, rtol=1e-9)
    assert (new[counts > 1] < opacities[counts > 1]).all()


@both_backends
@pytest.mark.parametrize("copies", [2, 3, 10, COUNT_MAX])
@pytest.mark.parametrize("opacity", [0.02, 0.5, 0.99, 1 - 2**-23])
def test_copies_draw_the_same_integral(backend: str, copies: int, opacity: float) -> None:
    """Along a line through the centre the integral of the blended copies is the one of the splat, by quadrature."""
    scale = 0.7
    new, sizes = relocate(
        torch.tensor([opacity], dtype=torch.float64),
        torch.full((1, 3), scale, dtype=torch.float64),
        torch.tensor([copies]),
        backend=backend,
    )
    x = torch.linspace(-12, 12, 20001, dtype=torch.float64) * scale
    drawn = 1 - (1 - new * torch.exp(-0.5 * (x / sizes[0, 0]) ** 2)) ** copies
    assert math.isclose(
        float(torch.trapezoid(drawn, x)), opacity * scale * math.sqrt(2 * math.pi), rel_tol=1e-7
    )


@both_backends
@both_types
def test_one_copy_is_the_splat(backend: str, dtype: torch.dtype) -> None:
    """Bit for bit, opacities of 0 and 1 included; a count below 1 is taken as 1."""
    opacities, scales, _ = splats(50, dtype)
    opacities[:2] = torch.tensor([0.0, 1.0])
    for counts in (torch.ones(50, dtype=torch.int32), torch.arange(-50, 0)):
        new, sizes = relocate(opacities, scales, counts, backend=backend)
        assert torch.equal(new, opacities) and torch.equal(sizes, scales)


@both_backends
@both_types
def test_extremes(backend: str, dtype: torch.dtype) -> None:
    """Opacities of 0 and 1 and any count give finite copies; more than COUNT_MAX of them are as COUNT_MAX."""
    opacities = torch.tensor([0.0, 1e-9, 0.3, 1.0], dtype=dtype)
    scales = torch.ones(4, 3, dtype=dtype)
    at_most = relocate(opacities, scales, torch.full((4,), COUNT_MAX), backend=backend)
    for count in (COUNT_MAX + 1, 2**31 - 1):
        above = relocate(opacities, scales, torch.full((4,), count), backend=backend)
        assert all(torch.equal(a, b) for a, b in zip(above, at_most, strict=True))
    new, sizes = at_most
    assert torch.isfinite(new).all() and (new >= 0).all() and (new < 1).all()
    assert torch.isfinite(sizes).all() and (sizes > 0).all()


@both_backends
def test_no_splats(backend: str) -> None:
    """N = 0 gives nothing."""
    new, sizes = relocate(*splats(0), backend=backend)
    assert new.shape == (0,) and sizes.shape == (0, 3)


def test_threads_do_not_change_a_bit() -> None:
    """1, 2 and 3 threads give the same copies."""
    results = []
    for count in (1, 2, 3):
        with threads(count):
            results.append(relocate(*splats(3001, torch.float32)))
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"opacities": torch.zeros(3, 1)}, "opacities: expected shape"),
        ({"scales": torch.zeros(3)}, "scales: expected shape"),
        ({"scales": torch.zeros(3, 3, dtype=torch.float64)}, "scales: expected torch.float32"),
        ({"counts": torch.zeros(2, dtype=torch.int64)}, "counts: expected shape"),
        ({"counts": torch.zeros(3)}, "counts: expected int32 or int64"),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    """A wrong shape, type or name raises a ValueError that says what was expected."""
    good = {
        "opacities": torch.zeros(3),
        "scales": torch.zeros(3, 3),
        "counts": torch.ones(3, dtype=torch.int64),
    }
    with pytest.raises(ValueError, match=message):
        relocate(**{**good, **change})
