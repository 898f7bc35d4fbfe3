"""An interior seen from inside: a furnished room with cameras of its own, closed on all sides."""

from __future__ import annotations

import math

import bpy

from . import parts

HALF_X, HALF_Y, HEIGHT = 2.2, 1.8, 2.5
CAMERAS = 96


def _shell() -> None:
    """Floor, walls and ceiling, each of its own material."""
    boards = parts.principled("Boards", (0.4, 0.25, 0.12), Roughness=0.5)
    parts.add_bricks(boards, 1.6, (0.33, 0.17, 0.07), (0.46, 0.27, 0.13), (0.12, 0.07, 0.04))
    plaster = parts.matte("Plaster", (0.78, 0.74, 0.66))
    paper = parts.matte("Wallpaper", (0.4, 0.5, 0.5))
    parts.add_color_ramp(
        paper,
        "ShaderNodeTexVoronoi",
        {"Scale": 4.0},
        [(0.15, (0.65, 0.55, 0.3)), (0.25, (0.16, 0.30, 0.32)), (0.8, (0.30, 0.46, 0.46))],
    )
    x, y, z, thick = HALF_X, HALF_Y, HEIGHT, 0.1
    parts.add_box("Floor", boards, (0, 0, -thick / 2), (2 * x, 2 * y, thick))
    parts.add_box(
        "Ceiling", parts.matte("Ceiling", (0.85, 0.85, 0.83)), (0, 0, z + thick / 2), (2 * x, 2 * y, thick)
    )
    parts.add_box("Wall North", paper, (0, y + thick / 2, z / 2), (2 * x, thick, z))
    parts.add_box("Wall South", plaster, (0, -y - thick / 2, z / 2), (2 * x, thick, z))
    parts.add_box("Wall East", plaster, (x + thick / 2, 0, z / 2), (thick, 2 * y + 2 * thick, z))
    parts.add_box("Wall West", paper, (-x - thick / 2, 0, z / 2), (thick, 2 * y + 2 * thick, z))


def _furniture() -> None:
    """A table with a vase, a shelf of books, a sofa, a rug and a picture."""
    wood = parts.principled("Wood", (0.35, 0.18, 0.08), Roughness=0.4)
    parts.add_color_ramp(
        wood,
        "ShaderNodeTexWave",
        {"Scale": 3.0, "Distortion": 4.0, "Detail": 3.0},
        [(0.1, (0.22, 0.1, 0.04)), (0.9, (0.45, 0.26, 0.12))],
    )
    parts.add_box("Table", wood, (0.1, 0.1, 0.7), (1.1, 0.7, 0.05))
    for sx in (-1, 1):
        for sy in (-1, 1):
            parts.add_box("Leg", wood, (0.1 + 0.48 * sx, 0.1 + 0.28 * sy, 0.34), (0.06, 0.06, 0.68))
    vase = parts.principled("Vase", (0.05, 0.2, 0.5), Roughness=0.15)
    profile = (
        (0, 0),
        (0.08, 0),
        (0.13, 0.1),
        (0.09, 0.24),
        (0.06, 0.28),
        (0.08, 0.32),
        (0.07, 0.32),
        (0.0, 0.1),
    )
    parts.add_lathe("Vase", vase, profile, (0.2, 0.12, 0.725))
    parts.add_ball(
        "Orange", parts.principled("Peel", (0.9, 0.35, 0.03), Roughness=0.4), (-0.15, 0.0, 0.775), 0.05
    )
    parts.add_ball(
        "Lemon", parts.principled("Lemon", (0.9, 0.75, 0.1), Roughness=0.4), (-0.04, -0.06, 0.77), 0.045
    )
    cloth = parts.matte("Sofa", (0.45, 0.08, 0.07))
    parts.add_box("Seat", cloth, (0.2, -1.35, 0.22), (1.5, 0.65, 0.44))
    parts.add_box("Back", cloth, (0.2, -1.66, 0.55), (1.5, 0.18, 0.6))
    cushion = parts.matte("Cushion", (0.5, 0.5, 0.5))
    parts.add_checker(cushion, 14.0, (0.85, 0.8, 0.7), (0.1, 0.25, 0.3))
    parts.add_box("Cushion", cushion, (-0.25, -1.45, 0.58), (0.36, 0.14, 0.34), 18)
    rug = parts.matte("Rug", (0.5, 0.4, 0.3))
    parts.add_checker(rug, 7.0, (0.45, 0.12, 0.08), (0.75, 0.66, 0.5))
    parts.add_box("Rug", rug, (0.1, 0.0, 0.01), (1.9, 1.5, 0.02))


def _shelf_and_pictures() -> None:
    """What stands and hangs at the walls."""
    white = parts.matte("White", (0.75, 0.75, 0.72))
    random = parts.noise_generator(5)
    for level in range(4):
        parts.add_box("Board", white, (-2.0, 0.3, 0.35 + 0.42 * level), (0.36, 1.4, 0.03))
    for side in (-1, 1):
        parts.add_box("Side", white, (-2.0, 0.3 + 0.7 * side, 0.85), (0.36, 0.03, 1.7))
    for level in range(3):
        y = -0.33
        while y < 0.85:
            width, height = 0.035 + 0.035 * random.random(), 0.22 + 0.12 * random.random()
            book = parts.principled("Book", tuple(0.05 + 0.7 * random.random(3) ** 2), Roughness=0.6)
            parts.add_box(
                "Book", book, (-2.0, y + width / 2, 0.365 + 0.42 * level + height / 2), (0.22, width, height)
            )
            y += width + 0.004
    frame = parts.principled("Frame", (0.8, 0.6, 0.2), Metallic=1.0, Roughness=0.35)
    painting = parts.matte("Painting", (0.5, 0.5, 0.5))
    parts.add_color_ramp(
        painting,
        "ShaderNodeTexNoise",
        {"Scale": 3.0, "Detail": 4.0, "Distortion": 2.0},
        [
            (0.3, (0.02, 0.08, 0.3)),
            (0.45, (0.1, 0.4, 0.5)),
            (0.55, (0.9, 0.75, 0.3)),
            (0.7, (0.7, 0.15, 0.05)),
        ],
    )
    parts.add_box("Frame", frame, (0.5, HALF_Y - 0.02, 1.5), (1.1, 0.04, 0.8))
    parts.add_box("Canvas", painting, (0.5, HALF_Y - 0.045, 1.5), (1.0, 0.02, 0.7))
    parts.add_box(
        "Door",
        parts.principled("Door", (0.3, 0.42, 0.38), Roughness=0.4),
        (HALF_X - 0.02, 0.5, 1.0),
        (0.04, 0.85, 2.0),
    )
    parts.add_ball("Knob", frame, (HALF_X - 0.07, 0.2, 1.0), 0.04)


def build(cameras: int = CAMERAS, first: int = 0) -> None:
    """Fills the scene, with cameras of the numbers from ``first`` on."""
    _shell()
    _furniture()
    _shelf_and_pictures()
    light = bpy.data.lights.new("Lamp", "AREA")
    light.energy, light.color, light.size = 75, (1.0, 0.93, 0.82), 1.2
    lamp = bpy.data.objects.new("Lamp", light)
    lamp.location = (0, 0, HEIGHT - 0.03)
    bpy.context.scene.collection.objects.link(lamp)
    window = bpy.data.lights.new("Window", "AREA")
    window.shape, window.energy, window.color, window.size, window.size_y = (
        "RECTANGLE",
        35,
        (0.75, 0.88, 1.0),
        1.2,
        1.1,
    )
    pane = bpy.data.objects.new("Window", window)
    pane.location, pane.rotation_euler = (HALF_X - 0.03, -0.8, 1.5), (0, math.radians(90), 0)
    bpy.context.scene.collection.objects.link(pane)
    parts.set_sky((0, 0, 0), (0, 0, 0), (0, 0, 0), 0.0)
    parts.add_room_cameras(range(first, first + cameras), (1.75, 1.35), (1.0, 1.9), 22)
    parts.light_paths(total=4, diffuse=3, glossy=2, transmission=1)
