"""``python -m splat_engine`` is the command ``splat-engine``."""

from splat_engine.cli import run

if __name__ == "__main__":
    run()
