"""The op ``adam_step``: against torch.optim.Adam, masks, odd sizes."""

from __future__ import annotations

import pytest
import torch
from gradient_check import relative_l2
from splat_scenes import threads
from torch import Tensor

from splat_engine.ops.adam import adam_step

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_backends = pytest.mark.parametrize("backend", ["cpu", "reference"])


def gradients(shape: tuple[int, ...], steps: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) * 10.0 ** (-i)
        for i in range(steps)
    ]


def fresh(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(9)
    return (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype),
        torch.zeros(shape, dtype=dtype),
        torch.zeros(shape, dtype=dtype),
    )


@both_types
@both_backends
@pytest.mark.parametrize("shape", [(7,), (33, 3), (1001, 16, 3), (5, 0)])
def test_equals_torch_optim_adam(dtype: torch.dtype, backend: str, shape: tuple[int, ...]) -> None:
    """Several steps with shrinking gradients leave the parameters and moments that torch.optim.Adam leaves."""
    param, exp_avg, exp_avg_sq = fresh(shape, dtype)
    expected = param.clone().requires_grad_()
    optimizer = torch.optim.Adam([expected], lr=0.02, betas=(0.9, 0.999), eps=1e-15)
    for step, gradient in enumerate(gradients(shape, 6, dtype), start=1):
        expected.grad = gradient.clone()
        optimizer.step()
        adam_step(param, gradient, exp_avg, exp_avg_sq, lr=0.02, step=step, backend=backend)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    assert relative_l2(param, expected.detach()) < tolerance
    state = optimizer.state[expected]
    assert relative_l2(exp_avg, state["exp_avg"]) < tolerance
    assert relative_l2(exp_avg_sq, state["exp_avg_sq"]) < tolerance


@both_types
@both_backends
def test_other_betas_and_eps(dtype: torch.dtype, backend: str) -> None:
    """beta1, beta2 and eps mean what they mean to torch.optim.Adam."""
    param, exp_avg, exp_avg_sq = fresh((50, 4), dtype)
    expected = param.clone().requires_grad_()
    optimizer = torch.optim.Adam([expected], lr=0.3, betas=(0.5, 0.8), eps=1e-2)
    for step, gradient in enumerate(gradients((50, 4), 4, dtype), start=1):
        expected.grad = gradient.clone()
        optimizer.step()
        adam_step(
            param,
            gradient,
            exp_avg,
            exp_avg_sq,
            lr=0.3,
            step=step,
            beta1=0.5,
            beta2=0.8,
            eps=1e-2,
            backend=backend,
        )
    assert relative_l2(param, expected.detach()) < (1e-6 if dtype == torch.float32 else 1e-14)


@both_types
@both_backends
def test_rows_that_are_not_visible_stay(dtype: torch.dtype, backend: str) -> None:
    """With a mask, hidden rows keep every bit of parameter and moments; visible rows change as without a mask."""
    shape = (301, 5)
    visible = torch.rand(301, generator=torch.Generator().manual_seed(4)) < 0.4
    gradient = gradients(shape, 1, dtype)[0]
    masked, whole = fresh(shape, dtype), fresh(shape, dtype)
    for state in (masked, whole):
        state[1].fill_(0.3)
        state[2].fill_(0.2)
    before = [tensor.clone() for tensor in masked]
    adam_step(masked[0], gradient, *masked[1:], lr=0.1, step=3, visible=visible, backend=backend)
    adam_step(whole[0], gradient, *whole[1:], lr=0.1, step=3, backend=backend)
    for was, now, unmasked in zip(before, masked, whole, strict=True):
        assert torch.equal(now[~visible], was[~visible])
        assert torch.allclose(now[visible], unmasked[visible], rtol=1e-6)
        assert not torch.equal(now[visible], was[visible])


@both_backends
def test_zero_gradient_from_the_start_moves_nothing(backend: str) -> None:
    """0 / (0 + eps) is 0: a parameter that has never had a gradient stays where it is."""
    param, exp_avg, exp_avg_sq = fresh((20, 3), torch.float32)
    before = param.clone()
    adam_step(param, torch.zeros(20, 3), exp_avg, exp_avg_sq, lr=1.0, step=1, backend=backend)
    assert torch.equal(param, before)


@both_backends
def test_no_rows(backend: str) -> None:
    """N = 0 is legal, with and without a mask."""
    empty = [torch.zeros(0, 3) for _ in range(4)]
    for visible in (None, torch.zeros(0, dtype=torch.bool)):
        adam_step(empty[0], empty[1], empty[2], empty[3], lr=0.1, step=1, visible=visible, backend=backend)
        assert empty[0].shape == (0, 3)


def test_threads_do_not_change_a_bit() -> None:
    """The update is the same for 1, 2 and 3 threads."""
    gradient = gradients((9001, 7), 1, torch.float32)[0]
    results = []
    for count in (1, 2, 3):
        state = fresh((9001, 7), torch.float32)
        with threads(count):
            adam_step(state[0], gradient, *state[1:], lr=0.1, step=1)
        results.append(state)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_parameter_that_requires_a_gradient() -> None:
    """A leaf with its .grad is updated in place, as an optimiser does it."""
    param = torch.ones(4, 3, requires_grad=True)
    (param**2).sum().backward()
    moments = torch.zeros(4, 3), torch.zeros(4, 3)
    adam_step(param, param.grad, *moments, lr=0.1, step=1)
    assert torch.allclose(param.detach(), torch.full((4, 3), 0.9))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grad": torch.zeros(4, 2)}, "grad: expected shape"),
        ({"exp_avg": torch.zeros(4, 3, dtype=torch.float64)}, "exp_avg: expected torch.float32"),
        ({"exp_avg_sq": torch.zeros(3, 4).T}, "exp_avg_sq: expected a contiguous tensor"),
        ({"visible": torch.zeros(3, dtype=torch.bool)}, "visible: expected shape"),
        ({"visible": torch.zeros(4)}, "visible: expected bool"),
        ({"step": 0}, "step: expected 1 or more"),
        ({"beta1": 1.0}, "beta1, beta2"),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, object], message: str) -> None:
    """A wrong shape, type or number raises a ValueError, and nothing is changed."""
    tensors = {name: torch.zeros(4, 3) for name in ("param", "grad", "exp_avg", "exp_avg_sq")}
    with pytest.raises(ValueError, match=message):
        adam_step(**{**tensors, "lr": 0.1, "step": 1, **change})
