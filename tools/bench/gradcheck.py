"""Prints the worst relative error of every gradient: ``.venv/engine/bin/python tools/bench/gradcheck.py [--json FILE]``.

The gradients of the CPU kernels in float64 against central differences of fourth order, for each input of each op and of
the whole chain; the cases are those of tests/engine/test_chain.py. The error of an entry is relative to itself, or to a
thousandth of the largest entry where it is smaller than that.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "engine")]

from chain_scenes import gradient_cases  # noqa: E402
from gradient_check import worst_relative_errors  # noqa: E402


def main() -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    table = {}
    for case in gradient_cases():
        errors = worst_relative_errors(case.loss, case.inputs)
        table[case.name] = errors
        worst = "  ".join(f"{name} {error:.0e}" for name, error in errors.items())
        print(f"{case.name:44s} {max(errors.values()):.1e}   {worst}")
    print(f"{'worst':44s} {max(max(errors.values()) for errors in table.values()):.1e}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
