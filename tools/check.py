"""Everything that is checked without running the product: ``make check``.

Each check runs even where one before it failed, so that one call shows all there is to mend.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / ".venv" / "engine" / "bin"


def checks() -> dict[str, list[str]]:
    """Returns name to command."""
    python = str(ENGINE / "python")
    cpp = sorted(
        str(path.relative_to(ROOT))
        for folder in ("csrc", "tests", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in CPP_SUFFIXES
    )
    return {
        "lint": [python, "-m", "ruff", "check", "."],
        "format": [python, "-m", "ruff", "format", "--check", "."],
        "types": [python, "-m", "mypy"],
        "types of tools": [python, "-m", "mypy", *MYPY_OF_TOOLS, *TYPED_TOOLS],
        "types of the benchmark": [python, "-m", "mypy", *BENCH_MODULES],
        "C++ format": [str(ENGINE / "clang-format"), "--dry-run", "--Werror", *cpp],
        "architecture": [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/test_architecture.py",
        ],
    }


CPP_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# They import the others.
BENCH_MODULES = ["-m", "tools.bench.command", "-m", "tools.bench.measure", "-m", "tools.gpu.command"]
BENCH_MODULES += ["-m", "tools.bench.quality.command", "-m", "tools.bench.quality.noise_study"]
MYPY_OF_TOOLS = ["--explicit-package-bases", "--scripts-are-modules"]
TYPED_TOOLS = [
    "tools/setup_env.py",
    "tools/run_tests.py",
    "tools/check.py",
    "tools/library_file.py",
    "tools/wheels.py",
    "tools/cuda_resources.py",
    "tools/smoke.py",
    "tools/build_extension",
    "tools/build_wheels",
    "tools/test_sanitizers",
    "tools/test_wheels",
]


def main() -> int:
    """Runs the checks; returns the exit code."""
    failed = []
    for name, command in checks().items():
        start = time.monotonic()
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        good = result.returncode == 0
        print(f"check: {name} {'ok' if good else 'FAILED'} ({time.monotonic() - start:.1f} s)", flush=True)
        if not good:
            failed.append(name)
            print(f"$ {' '.join(command[:8])}\n{result.stdout}{result.stderr}", flush=True)
    if failed:
        print(f"check: failed: {', '.join(failed)}; `make format` mends what concerns format")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
