"""Launches kernels of csrc/cuda: on the card that holds the tensors, or, in tests, on whatever stands in for a card.

The host code of the CUDA backend only ever calls ``launch``. So the same host code runs in tests without a card: inside
``emulated_by(launcher)`` tensors lie on the CPU and the launcher runs the kernels there (tests/cuda/emulation).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch

from splat_engine.ops._cuda.structs import structure

Grid = int | tuple[int, int]
"""Blocks: along x, or along x and y."""


class Launcher(Protocol):
    """Something that runs kernels by name."""

    def launch(
        self, entry: str, arguments: ctypes.Structure, *, grid: tuple[int, int], block: int, shared_bytes: int
    ) -> None:
        """Runs one kernel.

        Args:
            entry: the entry point, such as "adam_step_f32".
            arguments: its one argument; read before the call returns.
            grid: blocks along x and y, none of them 0.
            block: threads of a block, along x.
            shared_bytes: dynamic shared memory of a block.
        """
        ...


_emulator: Launcher | None = None


@contextmanager
def emulated_by(launcher: Launcher) -> Iterator[None]:
    """While it lasts, backend "cuda" takes tensors on the CPU and gives its kernels to a launcher."""
    global _emulator
    before, _emulator = _emulator, launcher
    try:
        yield
    finally:
        _emulator = before


def is_emulated() -> bool:
    """Whether kernels are given to a launcher that stands in for a card."""
    return _emulator is not None


def launch(
    kernel: str,
    scalar: str,
    device: torch.device,
    /,
    *,
    grid: Grid,
    block: int,
    shared_bytes: int = 0,
    **fields: object,
) -> None:
    """Launches a kernel on a device's current stream; a grid without blocks launches nothing.

    Args:
        kernel: its name without the scalar type.
        scalar: "f32" or "f64".
        device: where all tensors of the call lie.
        grid: blocks.
        block: threads of a block.
        shared_bytes: dynamic shared memory of a block.
        **fields: the fields of the kernel's structure; those left out are 0 or null. Addresses are ints, and the caller
            keeps their memory alive until the stream has passed the kernel (torch's allocator sees to that by itself).

    Raises:
        UserError: the kernel cannot be had for this card, or the launch failed.
    """
    blocks = grid if isinstance(grid, tuple) else (grid, 1)
    if 0 in blocks:
        return
    arguments = structure(kernel, scalar)(**fields)
    _launcher_for(device).launch(
        f"{kernel}_{scalar}", arguments, grid=blocks, block=block, shared_bytes=shared_bytes
    )


def check_card(device: torch.device) -> None:
    """Gets ready to launch kernels on a card.

    Raises:
        UserError: a library, the driver or the card itself cannot serve; the hint says what would.
    """
    _launcher_for(device)


def _launcher_for(device: torch.device) -> Launcher:
    if _emulator is not None:
        return _emulator
    from splat_engine.ops._cuda.card import (
        card_launcher,  # not above: it needs libraries that a machine without a card lacks
    )

    return card_launcher(device)


def blocks_for(items: int, block: int) -> int:
    """Number of blocks that give every item a thread."""
    return -(-items // block)
