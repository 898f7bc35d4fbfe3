"""Foliage: a young tree of some three thousand instanced leaves, and grass of instanced blades."""

from __future__ import annotations

import math
from typing import Any

import bpy
import numpy as np

from . import parts

LEAVES, BLADES = 2600, 900


def _leaf_material(name: str, stops: list[tuple[float, parts.Color]]) -> bpy.types.Material:
    """A green that differs from instance to instance, and lets light through."""
    material = parts.principled(name, (0.2, 0.4, 0.1), Roughness=0.45)
    tree, shader = parts.nodes_of(material)
    info, ramp = tree.nodes.new("ShaderNodeObjectInfo"), tree.nodes.new("ShaderNodeValToRGB")
    elements = ramp.color_ramp.elements
    elements[0].color, elements[1].color = (*stops[0][1], 1), (*stops[-1][1], 1)
    for position, color in stops[1:-1]:
        elements.new(position).color = (*color, 1)
    tree.links.new(info.outputs["Random"], ramp.inputs[0])
    tree.links.new(ramp.outputs[0], shader.inputs["Base Color"])
    return material


def _mesh(name: str, vertices: Any, faces: Any, material: bpy.types.Material) -> Any:
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata([tuple(map(float, v)) for v in vertices], [], faces)
    mesh.materials.append(material)
    obj = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def _leaf(material: bpy.types.Material) -> Any:
    """A leaf folded along its rib, 1 long along y."""
    ribs = [(0.0, 0.0), (0.25, 0.2), (0.5, 0.26), (0.75, 0.17), (1.0, 0.0)]
    vertices = [(side * width, y, abs(side) * 0.35 * width) for y, width in ribs for side in (-1, 0, 1)]
    faces = [
        (3 * i + s, 3 * i + s + 1, 3 * i + s + 4, 3 * i + s + 3) for i in range(len(ribs) - 1) for s in (0, 1)
    ]
    return _mesh("Leaf", vertices, faces, material)


def _blade(material: bpy.types.Material) -> Any:
    """A bent blade of grass, 1 high."""
    rings = [(0.05 * (1 - h) + 0.003, 0.3 * h * h, h) for h in (0.0, 0.25, 0.5, 0.75, 1.0)]
    vertices = [(side * width, bend, height) for width, bend, height in rings for side in (-1, 1)]
    faces = [(2 * i, 2 * i + 1, 2 * i + 3, 2 * i + 2) for i in range(len(rings) - 1)]
    return _mesh("Blade", vertices, faces, material)


def _scatter(name: str, child: Any, places: Any, forward: Any, normals: Any, sizes: Any) -> None:
    """Instances an object on small faces: y along ``forward``, z along ``normals``, scaled by ``sizes``."""
    side = np.cross(forward, normals)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    ahead = np.cross(normals, side)
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    half = 0.5 * sizes[:, None]
    corners = np.stack(
        [places + half * (a * side + b * ahead) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))], 1
    )
    faces = [(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3) for i in range(len(places))]
    carrier = _mesh(name, corners.reshape(-1, 3), faces, child.data.materials[0])
    carrier.instance_type, carrier.use_instance_faces_scale = "FACES", True
    carrier.show_instancer_for_render = carrier.show_instancer_for_viewport = False
    child.parent = carrier


def _twigs(random: np.random.Generator) -> list[tuple[Any, Any, float, float]]:
    """Returns trunk and branches as (from, to, thickness at both ends)."""
    trunk = np.array([[0, 0, 0], [0.05, 0.0, 0.4], [0.0, 0.06, 0.8], [0.03, 0.02, 1.25]], float)
    twigs = [(trunk[i], trunk[i + 1], 0.075 - 0.018 * i, 0.057 - 0.018 * i) for i in range(3)]
    for number in range(26):
        height = 0.42 + 0.83 * (number + 0.5) / 26
        root = np.array([np.interp(height, trunk[:, 2], trunk[:, k]) for k in range(3)])
        angle, reach = 2.4 * number, 0.52 * math.sin(math.pi * (0.2 + 0.72 * (height - 0.42) / 0.83)) + 0.08
        tip = root + np.array(
            [reach * math.cos(angle), reach * math.sin(angle), 0.24 + 0.1 * random.random()]
        )
        twigs.append((root, tip, 0.02, 0.006))
    return twigs


def _wood(twigs: list[tuple[Any, Any, float, float]]) -> None:
    curve: Any = bpy.data.curves.new("Wood", "CURVE")
    curve.dimensions, curve.bevel_depth, curve.bevel_resolution = "3D", 1.0, 2
    for start, end, thick, thin in twigs:
        spline = curve.splines.new("POLY")
        spline.points.add(1)
        for point, place, radius in zip(spline.points, (start, end), (thick, thin), strict=True):
            point.co, point.radius = (*map(float, place), 1.0), radius
    bark = parts.matte("Bark", (0.16, 0.09, 0.05))
    parts.add_color_ramp(
        bark,
        "ShaderNodeTexNoise",
        {"Scale": 14.0, "Detail": 4.0},
        [(0.35, (0.06, 0.03, 0.015)), (0.65, (0.34, 0.22, 0.13))],
    )
    curve.materials.append(bark)
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Wood", curve))


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def build() -> None:
    """Fills the scene."""
    random = parts.noise_generator(23)
    twigs = _twigs(random)
    _wood(twigs)
    starts, ends = (np.array([twig[k] for twig in twigs[3:]]) for k in (0, 1))
    which, along = random.integers(0, len(starts), LEAVES), 0.25 + 0.8 * random.random((LEAVES, 1))
    places = starts[which] * (1 - along) + ends[which] * along + random.normal(0, 0.055, (LEAVES, 3))
    forward = _unit((ends - starts)[which] + random.normal(0, 0.3, (LEAVES, 3)) * [1, 1, 0.6])
    normals = _unit(random.normal(0, 0.5, (LEAVES, 3)) + [0, 0, 1])
    green = _leaf_material(
        "Leaf", [(0, (0.03, 0.13, 0.02)), (0.6, (0.16, 0.34, 0.04)), (1, (0.42, 0.42, 0.06))]
    )
    _scatter("Crown", _leaf(green), places, forward, normals, 0.09 + 0.05 * random.random(LEAVES))
    radius, angle = 0.62 * np.sqrt(random.random(BLADES)), 6.2832 * random.random(BLADES)
    roots = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.zeros(BLADES)], -1)
    lean = _unit(random.normal(0, 0.18, (BLADES, 3)) * [1, 1, 0] + [0, 0, 1])
    lawn = _leaf_material("Grass", [(0, (0.04, 0.16, 0.02)), (1, (0.3, 0.4, 0.06))])
    facing = _unit(random.normal(0, 1, (BLADES, 3)) * [1, 1, 0] + [0.01, 0, 0])
    _scatter("Lawn", _blade(lawn), roots, facing, lean, 0.13 + 0.12 * random.random(BLADES))
    parts.add_plinth(parts.matte("Soil", (0.09, 0.055, 0.035)), 0.68)
    parts.set_sky((0.45, 0.6, 0.9), (0.9, 0.9, 0.88), (0.2, 0.18, 0.14))
    parts.add_area_light("Sun", (2.4, -2.0, 3.6), (1.0, 0.9, 0.72), 170, 1.2)
    parts.light_paths(total=3, diffuse=2, glossy=1, transmission=1)
