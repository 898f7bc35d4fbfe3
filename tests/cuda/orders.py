"""Orders of threads and blocks that a test of kernels runs in: ``@every_order`` above a test with the fixture `emulated`."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.cuda.emulation.build import SANITIZER_VARIABLE

ORDERS: dict[str, dict[str, Any]] = {
    "forward": {"threads": "forward", "blocks": "forward"},
    "reverse": {"threads": "reverse", "blocks": "reverse"},
    "random": {"threads": "random", "blocks": "random", "seed": 1},
    "greedy-warp": {"threads": "greedy-warp", "blocks": "forward", "seed": 0},
    "greedy-warp 1": {"threads": "greedy-warp", "blocks": "random", "seed": 1},
}
"""Name to the launcher's options. The last two let different warps run ahead."""

_CHOSEN = {"random": ORDERS["random"]} if os.environ.get(SANITIZER_VARIABLE) else ORDERS
every_order = pytest.mark.parametrize("emulated", list(_CHOSEN.values()), ids=list(_CHOSEN), indirect=True)
"""Runs a test once in each order; under a sanitizer, which looks at accesses and not at values, in one."""
