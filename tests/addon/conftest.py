"""Every add-on test runs in real Blender (the bpy wheel) and starts from an empty file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import bpy  # noqa: E402


@pytest.fixture(autouse=True)
def empty_file() -> Iterator[None]:
    """Starts each test from a file without objects."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    yield


_exit_code = 0


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remembers how the session ended."""
    global _exit_code
    _exit_code = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leaves at once: Blender 4.5 can hang while Python shuts down around it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_exit_code)
