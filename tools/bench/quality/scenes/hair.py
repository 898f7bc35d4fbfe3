"""Hair: a ball with long combed fur of several thousand strands, and a tuft on top."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from . import parts

STRANDS, POINTS, RADIUS = 6000, 7, 0.5
CENTER_Z = 0.55


def _strands() -> Any:
    """Returns [STRANDS, POINTS, 3] places: roots spread evenly on the ball, bent down by their own weight."""
    random = parts.noise_generator(11)
    number = np.arange(STRANDS) + 0.5
    z, angle = 1 - 2 * number / STRANDS, np.pi * (1 + 5**0.5) * number
    flat = np.sqrt(1 - z * z)
    outward = np.stack([flat * np.cos(angle), flat * np.sin(angle), z], -1)
    tuft = np.clip((z - 0.75) / 0.25, 0, 1)
    length = (0.24 + 0.08 * random.random(STRANDS) + 0.35 * tuft)[:, None, None]
    along = np.linspace(0, 1, POINTS)[None, :, None]
    comb = np.stack([-outward[:, 1], outward[:, 0], np.zeros(STRANDS)], -1)
    wild = random.normal(0, 0.16, (STRANDS, 3))
    direction = outward + 0.5 * comb + wild
    curl = 0.018 * np.sin(along * 14 + random.random((STRANDS, 1, 1)) * 6.3) * comb[:, None]
    fall = np.array([0, 0, -0.9]) * (along**2)
    places = outward[:, None] * RADIUS + length * (direction[:, None] * along + fall) + curl * along
    return places + np.array([0, 0, CENTER_Z])


def _fur() -> bpy.types.Material:
    """Two browns and a white, in patches that the strands take from their place."""
    material = parts.principled("Fur", (0.3, 0.15, 0.05), Roughness=0.45)
    parts.add_color_ramp(
        material,
        "ShaderNodeTexNoise",
        {"Scale": 2.6, "Detail": 1.0},
        [
            (0.4, (0.05, 0.025, 0.012)),
            (0.47, (0.5, 0.2, 0.05)),
            (0.56, (0.55, 0.28, 0.08)),
            (0.62, (0.85, 0.8, 0.7)),
        ],
    )
    return material


def build() -> None:
    """Fills the scene."""
    hair = bpy.data.hair_curves.new("Fur")
    hair.add_curves([POINTS] * STRANDS)
    hair.attributes["position"].data.foreach_set("vector", _strands().astype(np.float32).ravel())
    radius = hair.attributes.new("radius", "FLOAT", "POINT")
    taper = np.tile(np.linspace(0.004, 0.0012, POINTS), STRANDS)
    radius.data.foreach_set("value", taper.astype(np.float32))
    material = _fur()
    hair.materials.append(material)
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Fur", hair))
    skin = parts.matte("Skin", (0.06, 0.03, 0.02))
    parts.add_ball("Body", skin, (0, 0, CENTER_Z), RADIUS)
    eyes = parts.principled("Eyes", (0.01, 0.01, 0.01), Roughness=0.1)
    for side in (-1, 1):
        parts.add_ball(f"Eye {side}", eyes, (0.2 * side, -0.68, 0.66), 0.085)
    floor = parts.matte("Floor", (0.5, 0.5, 0.5))
    parts.add_checker(floor, 3.0, (0.10, 0.22, 0.22), (0.55, 0.6, 0.52))
    parts.add_plinth(floor, 0.95, top=-0.36)
    parts.set_sky((0.5, 0.6, 0.8), (0.9, 0.88, 0.85), (0.25, 0.24, 0.22))
    parts.add_area_light("Key", (2.2, -2.4, 3.2), (1.0, 0.9, 0.78), 130, 1.6)
    bpy.context.scene.cycles_curves.shape = "RIBBONS"
    parts.light_paths(total=3, diffuse=2, glossy=1, transmission=1)
