"""Glossy and metallic: chrome, brushed copper, car paint and glazed clay under lamps of several colours."""

from __future__ import annotations

import math

import bpy

from . import parts


def build() -> None:
    """Fills the scene."""
    chrome = parts.principled("Chrome", (0.9, 0.9, 0.92), Metallic=1.0, Roughness=0.08)
    copper = parts.principled("Copper", (0.95, 0.5, 0.3), Metallic=1.0, Roughness=0.3, Anisotropic=0.7)
    paint = parts.principled(
        "Car Paint", (0.03, 0.12, 0.5), Metallic=0.6, Roughness=0.35, Coat_Weight=1.0, Coat_Roughness=0.03
    )
    glaze = parts.principled("Glaze", (0.8, 0.7, 0.5), Roughness=0.12)
    parts.add_color_ramp(
        glaze,
        "ShaderNodeTexNoise",
        {"Scale": 5.0, "Detail": 3.0},
        [(0.35, (0.55, 0.05, 0.03)), (0.5, (0.9, 0.8, 0.62)), (0.65, (0.05, 0.25, 0.2))],
    )
    bpy.ops.mesh.primitive_monkey_add(
        size=1.1, location=(0, 0.1, 0.55), rotation=(math.radians(-12), 0, math.radians(15))
    )
    parts.finish(bpy.context.object, paint, "Suzanne", levels=2)
    parts.add_ball("Chrome Ball", chrome, (0.75, -0.5, 0.3), 0.3)
    parts.add_ball("Glazed Ball", glaze, (-0.72, -0.5, 0.24), 0.24)
    bpy.ops.mesh.primitive_torus_add(
        major_radius=0.28, minor_radius=0.1, major_segments=96, minor_segments=32, location=(0.05, -0.82, 0.1)
    )
    parts.finish(bpy.context.object, copper, "Copper Ring")
    floor = parts.principled("Floor", (0.2, 0.2, 0.22), Roughness=0.25)
    parts.add_checker(floor, 4.0, (0.05, 0.05, 0.06), (0.5, 0.48, 0.45))
    parts.add_plinth(floor, 1.25)
    parts.set_sky((0.25, 0.35, 0.6), (0.9, 0.8, 0.65), (0.12, 0.1, 0.1))
    parts.add_area_light("Key", (2.5, -2.5, 3.0), (1.0, 0.85, 0.7), 130, 1.6)
    parts.add_area_light("Rim", (-3.0, 2.0, 2.0), (0.4, 0.5, 1.0), 110, 1.4)
    parts.light_paths(total=4, diffuse=1, glossy=3, transmission=1)
