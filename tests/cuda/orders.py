"""Orders of threads and blocks that a test of kernels runs in: ``@every_order`` above a test with the fixture `emulated`."""

from __future__ import annotations

from typing import Any

import pytest

ORDERS: dict[str, dict[str, Any]] = {
    "forward": {"threads": "forward", "blocks": "forward"},
    "reverse": {"threads": "reverse", "blocks": "reverse"},
    "random": {"threads": "random", "blocks": "random", "seed": 1},
    "greedy-warp": {"threads": "greedy-warp", "blocks": "forward", "seed": 0},
    "greedy-warp 1": {"threads": "greedy-warp", "blocks": "random", "seed": 1},
}
"""Name to the launcher's options. The last two let different warps run ahead."""

every_order = pytest.mark.parametrize("emulated", list(ORDERS.values()), ids=list(ORDERS), indirect=True)
"""Runs a test once in each order."""
