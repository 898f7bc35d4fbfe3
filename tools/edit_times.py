"""Seconds of CPU time that each edit of splats takes, at 10 k, 100 k and 300 k splats: the figures of docs/editing.md.

PYTHONPATH=. .venv/blender/bin/python tools/edit_times.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import bpy
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from addon import registration
from addon.scene import splat_object
from splat_engine.formats.splats import Splats

COUNTS = (10_000, 100_000, 300_000)
EDITS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("apply_transform", {}),
    ("crop", {}),
    ("crop", {"whole": True}),
    ("crop", {"as_box": True}),
    ("filter", {"opacity_min": 0.3}),
    ("remove_floaters", {}),
    ("remove_floaters", {"with_objects": False}),
    ("select_by_source", {"object": "Suzanne"}),
    ("delete_selected", {}),
    ("separate_selected", {}),
)


def main() -> None:
    """Prints a line for each edit."""
    registration.register()
    print(f"Blender {bpy.app.version_string}, splats: {', '.join(f'{count:,}' for count in COUNTS)}")
    for name, options in EDITS:
        seconds = [f"{measure(name, options, count):6.2f}" for count in COUNTS]
        print(f"{name} {options or ''}:", *seconds)


def measure(name: str, options: dict[str, Any], count: int) -> float:
    """Returns the CPU seconds of one edit of fresh splats."""
    prepare(count)
    if name.endswith("_selected"):
        bpy.ops.splatfit.select_by_source(object="Suzanne")
    since_s = time.process_time()
    getattr(bpy.ops.splatfit, name)(**options)
    return time.process_time() - since_s


def prepare(count: int) -> None:
    """Fills an empty file with a hidden Suzanne of 63 000 triangles, splats on her, 1 % off, and a torus to crop by."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.mesh.primitive_monkey_add(size=4)
    bpy.context.object.modifiers.new("Subdivision", "SUBSURF").levels = 3
    mesh = bpy.context.object.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    vertices = np.empty((len(mesh.vertices), 3), np.float32)
    mesh.vertices.foreach_get("co", vertices.reshape(-1))
    bpy.context.object.hide_set(True)
    splats = splat_object.add_splats(splats_on(vertices, count), bpy.context.scene).object
    splats.location, splats.rotation_euler = (0.1, 0.2, 0), (0.3, 0, 0)
    bpy.ops.mesh.primitive_torus_add(major_radius=1.5, minor_radius=0.9)
    bpy.context.view_layer.objects.active = splats
    bpy.context.view_layer.update()


def splats_on(vertices: np.ndarray, count: int) -> Splats:
    """Returns splats of degree 3 at some of the vertices [V, 3]."""
    rng = np.random.default_rng(0)
    means = vertices[rng.integers(0, len(vertices), count)] + rng.normal(scale=0.01, size=(count, 3))
    means[rng.random(count) < 0.01] *= 2
    return Splats(
        means=means,
        log_scales=rng.normal(-4.5, 0.4, (count, 3)),
        quats_wxyz=rng.normal(size=(count, 4)),
        opacity_logits=rng.normal(1, 2, count),
        sh=rng.normal(scale=0.2, size=(count, 16, 3)),
        object_indices=rng.integers(0, 3, count),
        object_names=("Suzanne", "Floor"),
    )


if __name__ == "__main__":
    main()
