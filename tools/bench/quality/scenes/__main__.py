"""Builds one scene of the quality benchmark: ``python -m tools.bench.quality.scenes NAME OUT.blend``, Blender's Python."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import bpy

from tools.bench.quality.scenes import emitter, foliage, glass, glossy, hair, interior, matte

SCENES: dict[str, Callable[..., None]] = {
    "matte": matte.build,
    "hair": hair.build,
    "glass": glass.build,
    "glossy": glossy.build,
    "interior": interior.build,
    "foliage": foliage.build,
    "emitter": emitter.build,
}


def make_scene(name: str, **cameras: int) -> None:
    """Builds a scene in an empty file; ``cameras`` goes to a room's ``build``."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.render.resolution_x = scene.render.resolution_y = 256
    SCENES[name](**cameras)


def save_scene(name: str, path: Path) -> None:
    """Builds a scene and saves it."""
    make_scene(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(path.resolve()))


def main(words: list[str] | None = None) -> int:
    """Reads the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SCENES)
    parser.add_argument("blend", type=Path, help="the .blend to write")
    options = parser.parse_args(words)
    save_scene(options.name, options.blend)
    return 0


if __name__ == "__main__":
    sys.exit(main())
