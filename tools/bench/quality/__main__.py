"""``python -m tools.bench.quality --help``, or ``python tools/bench/quality``, with the engine's Python."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.bench.quality.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
