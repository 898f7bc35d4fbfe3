"""The fixture that stands in for a card, and what its launches have cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from splat_engine.ops._cuda.launch import emulated_by
from tests.cuda.emulation.launcher import EmulatedLauncher

TIMES_VARIABLE = "SPLAT_EMULATION_TIMES"
"""Environment variable: if set, the summary has a line for each kernel."""

_launches: Counter[str] = Counter()
_seconds: Counter[str] = Counter()
_tests: set[str] = set()


@pytest.fixture
def emulated(request: pytest.FixtureRequest) -> Iterator[EmulatedLauncher]:
    """Backend "cuda" runs its kernels on the CPU while the test lasts, in the order that `orders.py` has marked it with."""
    launcher = EmulatedLauncher(**getattr(request, "param", {}))
    with emulated_by(launcher):
        yield launcher
    _tests.add(request.node.nodeid)
    _launches.update(launcher.launches)
    _seconds.update(launcher.seconds)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how much was emulated."""
    if not _launches:
        return
    terminalreporter.write_line(
        f"emulated: {_launches.total()} launches of {len(_launches)} entry points by {len(_tests)} tests "
        f"in {_seconds.total():.1f} s"
    )
    if os.environ.get(TIMES_VARIABLE):
        for entry, seconds in _seconds.most_common():
            terminalreporter.write_line(f"emulated: {entry}: {_launches[entry]} launches in {seconds:.3f} s")
