"""An HDR-bright emitter in a dark room: a neon knot a hundred times as bright as the walls it lights."""

from __future__ import annotations

import math

import bpy

from . import parts

HALF, HEIGHT = 2.0, 2.4
CAMERAS = 96
NEON_RADIANCE = 40.0


def _neon() -> None:
    """A trefoil of glass tube, and a small cold lamp of higher radiance."""
    curve = bpy.data.curves.new("Neon", "CURVE")
    curve.dimensions, curve.bevel_depth, curve.bevel_resolution = "3D", 0.028, 1
    spline = curve.splines.new("POLY")
    spline.points.add(89)
    spline.use_cyclic_u = True
    for index, point in enumerate(spline.points):
        angle = 2 * math.pi * index / 90
        radius = 0.17 * (2 + math.cos(3 * angle))
        point.co = (radius * math.cos(2 * angle), radius * math.sin(2 * angle), 0.17 * math.sin(3 * angle), 1)
    curve.materials.append(parts.emission("Neon", (1.0, 0.28, 0.08), NEON_RADIANCE))
    obj = bpy.data.objects.new("Neon", curve)
    obj.location, obj.rotation_euler = (0, 0, 1.15), (math.radians(70), 0, math.radians(30))
    bpy.context.scene.collection.objects.link(obj)
    parts.add_ball("Lamp", parts.emission("Cold", (0.45, 0.65, 1.0), 60.0), (-1.1, 0.9, 0.55), 0.06)


def _shell() -> None:
    """A closed room of dark plaster and a tiled floor."""
    dark = parts.matte("Plaster", (0.16, 0.15, 0.17))
    parts.add_color_ramp(
        dark,
        "ShaderNodeTexNoise",
        {"Scale": 3.0, "Detail": 5.0},
        [(0.35, (0.08, 0.08, 0.10)), (0.65, (0.28, 0.25, 0.24))],
    )
    tiles = parts.principled("Tiles", (0.2, 0.2, 0.2), Roughness=0.35)
    parts.add_checker(tiles, 2.5, (0.07, 0.08, 0.1), (0.35, 0.33, 0.3))
    h, z, thick = HALF, HEIGHT, 0.1
    parts.add_box("Floor", tiles, (0, 0, -thick / 2), (2 * h, 2 * h, thick))
    parts.add_box("Ceiling", dark, (0, 0, z + thick / 2), (2 * h, 2 * h, thick))
    for side in (-1, 1):
        parts.add_box("Wall", dark, (0, side * (h + thick / 2), z / 2), (2 * h, thick, z))
        parts.add_box("Wall", dark, (side * (h + thick / 2), 0, z / 2), (thick, 2 * h + 2 * thick, z))


def build(cameras: int = CAMERAS, first: int = 0) -> None:
    """Fills the scene, with cameras of the numbers from ``first`` on."""
    _shell()
    _neon()
    bricks = parts.matte("Bricks", (0.4, 0.3, 0.2))
    parts.add_bricks(bricks, 7.0, (0.42, 0.15, 0.09), (0.55, 0.28, 0.16), (0.5, 0.48, 0.45))
    parts.add_box("Pedestal", bricks, (0, 0, 0.28), (0.5, 0.5, 0.56), 20)
    bpy.ops.mesh.primitive_monkey_add(
        size=0.7, location=(-0.9, -0.7, 0.3), rotation=(math.radians(-20), 0, math.radians(130))
    )
    parts.finish(bpy.context.object, parts.matte("Clay", (0.6, 0.55, 0.5)), "Suzanne", levels=2)
    parts.add_ball(
        "Metal",
        parts.principled("Steel", (0.8, 0.8, 0.85), Metallic=1.0, Roughness=0.3),
        (0.95, -0.6, 0.3),
        0.3,
    )
    parts.add_box("Crate", parts.matte("Teal", (0.1, 0.45, 0.4)), (0.9, 0.9, 0.25), (0.5, 0.5, 0.5), 35)
    parts.set_sky((0, 0, 0), (0, 0, 0), (0, 0, 0), 0.0)
    parts.add_room_cameras(range(first, first + cameras), (1.65, 1.65), (0.7, 1.8), 24)
    parts.light_paths(total=3, diffuse=2, glossy=2, transmission=1)
