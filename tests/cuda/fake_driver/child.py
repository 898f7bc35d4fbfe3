"""The child process that has the stand-in for NVIDIA's driver: runs what it reads, one JSON line after the other.

A line has ``body``, statements, and ``settings``, the stand-in's environment variables. Each starts without a card opened.
Its torch is the CPU's, so what ``card.py`` asks of torch, the current stream and the current card, is put in its place: the
stream of card i is 0x5000 + i.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import types
from typing import Any

import torch

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import card, driver
from splat_engine.ops._cuda.launch import launch

torch.cuda.current_stream = lambda device: types.SimpleNamespace(cuda_stream=0x5000 + device.index)  # type: ignore
torch.cuda.current_device = lambda: 0


def adam(device: str, grid: tuple[int, int] = (3, 2), block: int = 256, shared_bytes: int = 0) -> None:
    """Launches a kernel with a few of its fields; test_card.py knows them."""
    fields = {
        "rows": 7,
        "row_size": 3,
        "rate1": 0.5,
        "eps": 1e-15,
        "gradient": 0x1234567890,
        "parameter": 0xABC,
    }
    launch(
        "adam_step",
        "f32",
        torch.device(device),
        grid=grid,
        block=block,
        shared_bytes=shared_bytes,
        **fields,
    )


def run(body: str, settings: dict[str, str]) -> dict[str, Any]:
    """Runs statements; returns what they printed, and the words of a UserError of theirs."""
    for name in [name for name in os.environ if name.startswith("FAKE_CUDA_")]:
        del os.environ[name]
    os.environ |= settings
    driver._loaded = None
    card._cards.clear()
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(body, {"adam": adam, "torch": torch})
        except UserError as raised:
            error = raised.as_dict()
    return {"printed": printed.getvalue().strip(), "error": error}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
