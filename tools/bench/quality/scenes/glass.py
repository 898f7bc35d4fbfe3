"""Glass: a goblet, a tinted bottle and a solid ball on a patterned board that is seen through them."""

from __future__ import annotations

import bpy

from . import parts

GOBLET = (
    *((0.0, 0.0), (0.27, 0.0), (0.27, 0.02), (0.05, 0.07), (0.035, 0.12), (0.035, 0.4), (0.06, 0.46)),
    *((0.2, 0.55), (0.27, 0.7), (0.28, 0.85), (0.25, 1.02), (0.235, 1.02), (0.26, 0.85), (0.25, 0.7)),
    *((0.18, 0.57), (0.05, 0.5), (0.0, 0.49)),
)
BOTTLE = (
    *((0.0, 0.0), (0.2, 0.0), (0.23, 0.03), (0.23, 0.5), (0.2, 0.62), (0.08, 0.74), (0.07, 0.95)),
    *(
        (0.09, 0.96),
        (0.09, 1.0),
        (0.05, 1.0),
        (0.05, 0.75),
        (0.17, 0.6),
        (0.2, 0.5),
        (0.2, 0.06),
        (0.0, 0.05),
    ),
)


def _glass(name: str, color: parts.Color, roughness: float = 0.0) -> bpy.types.Material:
    return parts.principled(name, color, Roughness=roughness, Transmission_Weight=1.0, IOR=1.45)


def build() -> None:
    """Fills the scene."""
    pieces = (
        parts.add_lathe("Goblet", _glass("Clear", (1, 1, 1)), GOBLET, (0.05, 0.38, 0.0)),
        parts.add_lathe("Bottle", _glass("Green", (0.45, 0.85, 0.5)), BOTTLE, (-0.5, -0.15, 0.0)),
        parts.add_ball("Ball", _glass("Rose", (1.0, 0.75, 0.75)), (0.45, -0.3, 0.27), 0.27),
        parts.add_ball("Marble", _glass("Frosted", (0.7, 0.85, 1.0), 0.25), (-0.02, -0.62, 0.14), 0.14),
    )
    for piece in pieces:
        piece.visible_shadow = piece.visible_diffuse = False  # caustics would need far more samples
    board = parts.matte("Board", (0.5, 0.5, 0.5))
    parts.add_checker(board, 5.0, (0.06, 0.16, 0.26), (0.82, 0.78, 0.7))
    parts.add_plinth(board, 1.0)
    parts.set_sky((0.55, 0.7, 0.95), (1.0, 0.95, 0.88), (0.2, 0.18, 0.16))
    parts.add_area_light("Key", (2.2, -2.2, 3.4), (1.0, 0.92, 0.82), 90, 2.4)
    parts.light_paths(total=8, diffuse=1, glossy=3, transmission=8)
