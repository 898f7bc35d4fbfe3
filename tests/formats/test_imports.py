"""The contract loads inside Blender: numpy and the standard library are all it needs."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import splat_engine.formats

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import importlib, json, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        allowed = sys.stdlib_module_names | {"numpy", "splat_engine"}
        if name.partition(".")[0] not in allowed:
            raise ImportError(f"{name} is not the standard library, numpy or splat_engine")

sys.meta_path.insert(0, Blocker())
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
ours = sorted(name for name in sys.modules if name.startswith("splat_engine"))
print(json.dumps({"ours": ours, "threads": __import__("threading").active_count()}))
"""


def load_alone(*names: str) -> dict[str, object]:
    """Imports modules in a fresh Python that refuses all but numpy and the standard library."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", PROBE, *names], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert not result.stderr, "importing wrote to stderr"
    lines = result.stdout.splitlines()
    assert len(lines) == 1, "importing wrote to stdout"
    answer: dict[str, object] = json.loads(lines[0])
    return answer


def test_every_module_loads_with_numpy_and_the_standard_library_alone() -> None:
    """No torch, no bpy, no package of a test environment; and nothing is printed or started."""
    names = [
        f"splat_engine.formats.{item.name}" for item in pkgutil.iter_modules(splat_engine.formats.__path__)
    ]
    assert len(names) >= 12
    answer = load_alone(*names)
    assert answer["threads"] == 1
    loaded = answer["ours"]
    assert isinstance(loaded, list)
    # The engine's other parts are not drawn in.
    assert all(name == "splat_engine" or name.startswith("splat_engine.formats") for name in loaded)


def test_the_packages_load_without_torch() -> None:
    """splat_engine and splat_engine.native are imported by the add-on."""
    load_alone("splat_engine", "splat_engine.formats", "splat_engine.native")
