"""Checks of the arguments of ops, and the names that the native library has for torch's types."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_SCALARS = {torch.float32: "f32", torch.float64: "f64"}
BACKENDS = ("cpu", "cuda", "reference")


def scalar_name(dtype: torch.dtype) -> str:
    """ "f32" or "f64", as ``splat_engine.native.call`` wants it.

    Raises:
        ValueError: any other type.
    """
    if dtype not in _SCALARS:
        raise ValueError(f"expected float32 or float64 tensors, got {dtype}")
    return _SCALARS[dtype]


def check_backend(backend: str) -> None:
    """Raise ValueError unless the backend is a known one."""
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; known are {', '.join(BACKENDS)}")


def check_tensor(name: str, tensor: Tensor, shape: Sequence[int | None], like: Tensor | None = None) -> None:
    """Raise ValueError unless a tensor has the shape, and the type and device of another.

    Args:
        name: the argument's name, for the message.
        tensor: what was given.
        shape: the expected shape; None stands for any size.
        like: a tensor whose dtype and device it must share.
    """
    got = tensor.shape
    if got != tuple(shape):  # a training step makes some fifty of these checks: the plain case comes first
        fits = len(got) == len(shape) and all(
            want is None or want == size for want, size in zip(shape, got, strict=True)
        )
        if not fits:
            expected = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"{name}: expected shape [{expected}], got {list(got)}")
    if like is None or tensor is like:
        return
    if tensor.dtype != like.dtype or tensor.device != like.device:
        raise ValueError(
            f"{name}: expected {like.dtype} on {like.device}, got {tensor.dtype} on {tensor.device}"
        )
