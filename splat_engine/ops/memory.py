"""How tensors cross to the native library: addresses of contiguous CPU memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from splat_engine.ops._cuda.launch import is_emulated


def address(tensor: Tensor | None) -> int:
    """Address of a contiguous tensor's first number; 0 (null) for None. The caller keeps the tensor alive."""
    return 0 if tensor is None else tensor.data_ptr()


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """The tensor itself or a contiguous copy: a gradient may arrive broadcast (``sum().backward()`` makes such)."""
    return None if tensor is None else tensor.contiguous()


def check_on_cpu(tensor: Tensor) -> None:
    """Raise ValueError unless the tensor lies in the host's memory."""
    if tensor.device.type != "cpu":
        raise ValueError(f'backend "cpu" needs tensors on the CPU, got {tensor.device}')


def check_place(backend: str, tensor: Tensor) -> None:
    """Raise ValueError unless the tensor lies where a backend computes: "cpu", or "cuda" on a card."""
    if backend == "cpu":
        check_on_cpu(tensor)
    elif tensor.device.type != "cuda" and not is_emulated():
        raise ValueError(f'backend "cuda" needs tensors on a CUDA device, got {tensor.device}')


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """``function.apply``, which torch leaves without types: the one place that says so to mypy."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]
