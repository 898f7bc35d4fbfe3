"""The fixture that stands in for a card."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from splat_engine.ops._cuda.launch import emulated_by
from tests.cuda.emulation.launcher import EmulatedLauncher


@pytest.fixture
def emulated(request: pytest.FixtureRequest) -> Iterator[EmulatedLauncher]:
    """Backend "cuda" runs its kernels on the CPU while the test lasts, in the order that `orders.py` has marked it with."""
    launcher = EmulatedLauncher(**getattr(request, "param", {}))
    with emulated_by(launcher):
        yield launcher
