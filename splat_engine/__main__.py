"""``python -m splat_engine`` is the command ``splat-engine``."""

from __future__ import annotations

import os
from typing import NoReturn


def main() -> NoReturn:
    """Runs the command line as a process; torch and numpy are imported after this.

    On import numpy and scipy start the threads of their OpenBLAS, which spin for a while on the core where views are
    decoded: 0.25 s of a fit's start on two cores. Nothing here multiplies matrices that are large.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from splat_engine.cli import run

    run()


if __name__ == "__main__":
    main()
