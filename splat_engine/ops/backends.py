"""Calls an op of csrc, on the CPU or on a card, with the same fields: the argument structures of the two are the same."""

from __future__ import annotations

from torch import Tensor

from splat_engine import native
from splat_engine.ops._cuda import calls
from splat_engine.ops.checks import scalar_name


def call(backend: str, op: str, like: Tensor, /, **fields: object) -> None:
    """Calls an op of csrc/include/op_args.h.

    Args:
        backend: "cpu" or "cuda".
        op: its name.
        like: one of its tensors, which tells the scalar type and the device.
        **fields: the fields of the op's argument structure; see ``native.call``.

    Raises:
        UserError: the op refused its arguments, ran out of memory, or cannot be had for this card.
    """
    scalar = scalar_name(like.dtype)
    if backend == "cpu":
        native.call(op, scalar, **fields)
    else:
        calls.CALLS[op](scalar, like.device, **fields)
