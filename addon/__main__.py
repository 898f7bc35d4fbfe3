"""``python -m addon``: Splatfit without a window, by the bpy module."""

import sys

from .commands.headless import main

if __name__ == "__main__":
    sys.exit(main())
