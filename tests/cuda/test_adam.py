"""The kernel of ``adam_step``, emulated: equal to the CPU's and to the reference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from splat_engine.ops._cuda.launch import emulated_by
from splat_engine.ops.adam import adam_step
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def random_state(shape: tuple[int, ...], dtype: torch.dtype) -> Iterator[Tensor]:
    """Parameter, gradient and the two moments; the second is positive."""
    generator = torch.Generator().manual_seed(3)
    for positive in (False, False, False, True):
        numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
        yield (numbers.abs() if positive else numbers).to(dtype)


def updated(shape: tuple[int, ...], dtype: torch.dtype, backend: str, sparse: bool) -> list[Tensor]:
    """Parameter and moments after three steps."""
    param, gradient, exp_avg, exp_avg_sq = random_state(shape, dtype)
    visible = torch.arange(shape[0]) % 3 != 1 if sparse else None
    for step in (1, 2, 3):
        adam_step(
            param,
            gradient / step,
            exp_avg,
            exp_avg_sq,
            lr=0.01,
            step=step,
            visible=visible,
            backend=backend,
        )
    return [param, exp_avg, exp_avg_sq]


@both_types
@every_order
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("other", ["cpu", "reference"])
@pytest.mark.parametrize("shape", [(1,), (33, 3), (257, 2, 3)])
def test_equals_the_other_backends(
    emulated: EmulatedLauncher, dtype: torch.dtype, sparse: bool, other: str, shape: tuple[int, ...]
) -> None:
    """Parameter and both moments, after several steps, with rows left out and without."""
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    before = next(random_state(shape, dtype))
    got = updated(shape, dtype, "cuda", sparse)
    assert emulated.launches.total() == 3
    assert not torch.equal(got[0], before)
    for one, two in zip(got, updated(shape, dtype, other, sparse), strict=True):
        torch.testing.assert_close(one, two, rtol=tolerance, atol=tolerance)


@both_types
def test_rows_that_are_not_visible_stay(emulated: EmulatedLauncher, dtype: torch.dtype) -> None:
    """Bit for bit, moments included."""
    before = random_state((33, 3), dtype)
    for one, other in zip(
        updated((33, 3), dtype, "cuda", True), [next(before), *list(before)[1:]], strict=True
    ):
        assert torch.equal(one[1::3], other[1::3])
        assert not torch.equal(one[0::3], other[0::3])


@both_types
@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_nothing_to_update(emulated: EmulatedLauncher, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """No rows, or rows of no numbers, launch nothing."""
    for tensor in updated(shape, dtype, "cuda", False):
        assert tensor.shape == shape
    assert not emulated.launches


def test_tensors_must_lie_on_a_card() -> None:
    """Without emulation, a tensor on the CPU is refused in words."""
    with pytest.raises(ValueError, match='backend "cuda" needs tensors on a CUDA device'):
        updated((3, 2), torch.float32, "cuda", False)


def test_emulation_ends() -> None:
    """After the block, backend "cuda" means a card again."""
    with emulated_by(EmulatedLauncher()):
        updated((3, 2), torch.float32, "cuda", False)
    with pytest.raises(ValueError, match="CUDA device"):
        updated((3, 2), torch.float32, "cuda", False)
