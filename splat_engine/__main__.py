"""``python -m splat_engine`` is the command ``splat-engine``."""

import sys

from splat_engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
