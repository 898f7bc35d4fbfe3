"""What the benchmark's scenes are put together from: textures, lamps, a sky, cameras in a room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import bpy
import numpy as np
from mathutils import Vector

from tools.demo_scene import add_area_light, add_color_ramp, finish, principled

__all__ = ["add_area_light", "add_color_ramp", "finish", "principled"]

Color = tuple[float, float, float]
Place = tuple[float, float, float]


def nodes_of(material: Any) -> tuple[Any, Any]:
    """Returns a material's (or world's) node tree and its Principled BSDF, None where it has none."""
    tree = material.node_tree
    return tree, tree.nodes.get("Principled BSDF")


def emission(name: str, color: Color, strength: float) -> bpy.types.Material:
    """Makes a material that only shines; ``strength`` is its radiance where ``color`` is 1."""
    material = principled(name, (0.0, 0.0, 0.0), Roughness=1.0, Specular_IOR_Level=0.0)
    _, shader = nodes_of(material)
    shader.inputs["Emission Color"].default_value = (*color, 1.0)
    shader.inputs["Emission Strength"].default_value = strength
    return material


def matte(name: str, color: Color) -> bpy.types.Material:
    """Makes a material that scatters evenly and does not shine."""
    return principled(name, color, Roughness=1.0, Specular_IOR_Level=0.0)


def add_checker(material: bpy.types.Material, scale: float, dark: Color, light: Color) -> None:
    """Feeds the base colour from a checkerboard in object coordinates, ``scale`` fields a scene unit."""
    tree, shader = nodes_of(material)
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    checker = tree.nodes.new("ShaderNodeTexChecker")
    checker.inputs["Scale"].default_value = scale
    checker.inputs["Color1"].default_value, checker.inputs["Color2"].default_value = (*dark, 1), (*light, 1)
    tree.links.new(coordinates.outputs["Object"], checker.inputs["Vector"])
    tree.links.new(checker.outputs["Color"], shader.inputs["Base Color"])


def add_bricks(
    material: bpy.types.Material, scale: float, first: Color, second: Color, mortar: Color
) -> None:
    """Feeds the base colour from a wall of bricks in object coordinates."""
    tree, shader = nodes_of(material)
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    bricks = tree.nodes.new("ShaderNodeTexBrick")
    bricks.inputs["Scale"].default_value = scale
    for socket, color in (("Color1", first), ("Color2", second), ("Mortar", mortar)):
        bricks.inputs[socket].default_value = (*color, 1)
    tree.links.new(coordinates.outputs["Object"], bricks.inputs["Vector"])
    tree.links.new(bricks.outputs[0], shader.inputs["Base Color"])


def set_sky(zenith: Color, horizon: Color, ground: Color, strength: float = 1.0) -> None:
    """Makes a world that goes from the ground over the horizon to the zenith."""
    world = bpy.data.worlds.new("World")
    world.use_nodes = True
    tree = world.node_tree
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    split = tree.nodes.new("ShaderNodeSeparateXYZ")
    shift = tree.nodes.new("ShaderNodeMath")
    shift.operation = "MULTIPLY_ADD"
    shift.inputs[1].default_value = shift.inputs[2].default_value = 0.5
    ramp = tree.nodes.new("ShaderNodeValToRGB")
    elements = ramp.color_ramp.elements
    elements[0].position, elements[0].color = 0.42, (*ground, 1)
    elements[1].position, elements[1].color = 1.0, (*zenith, 1)
    elements.new(0.52).color = (*horizon, 1)
    tree.links.new(coordinates.outputs["Generated"], split.inputs[0])
    tree.links.new(split.outputs["Z"], shift.inputs[0])
    tree.links.new(shift.outputs[0], ramp.inputs[0])
    tree.links.new(ramp.outputs[0], tree.nodes["Background"].inputs["Color"])
    tree.nodes["Background"].inputs["Strength"].default_value = strength
    bpy.context.scene.world = world


def add_plinth(material: bpy.types.Material, radius: float, height: float = 0.12, top: float = 0.0) -> Any:
    """Adds a round plinth with a bevelled rim whose upper side lies at ``top``."""
    bpy.ops.mesh.primitive_cylinder_add(
        vertices=96, radius=radius, depth=height, location=(0, 0, top - height / 2)
    )
    plinth = bpy.context.object
    bevel = plinth.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments, bevel.angle_limit = 0.03, 3, math.radians(40)
    return finish(plinth, material, "Plinth")


def add_box(
    name: str, material: bpy.types.Material, center: Place, size: Place, turn_deg: float = 0.0
) -> Any:
    """Adds a box of edge lengths ``size``, turned about the vertical."""
    bpy.ops.mesh.primitive_cube_add(size=1, location=center, rotation=(0, 0, math.radians(turn_deg)))
    box = bpy.context.object
    box.scale = size
    bpy.ops.object.transform_apply(location=False, rotation=False, scale=True)
    box.name = name
    box.data.materials.append(material)
    return box


def add_ball(name: str, material: bpy.types.Material, center: Place, radius: float) -> Any:
    """Adds a smooth ball."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=64, ring_count=32, radius=radius, location=center)
    return finish(bpy.context.object, material, name)


def add_lathe(
    name: str, material: bpy.types.Material, profile: Sequence[tuple[float, float]], place: Place
) -> Any:
    """Adds what a profile of (radius, height) points, from bottom to top, sweeps about the vertical; smooth.

    A profile that begins and ends at radius 0 makes a closed body.
    """
    turns = 64
    angles = [2 * math.pi * turn / turns for turn in range(turns)]
    vertices = [(r * math.cos(a), r * math.sin(a), z) for r, z in profile for a in angles]
    faces = [
        (
            ring * turns + i,
            ring * turns + (i + 1) % turns,
            (ring + 1) * turns + (i + 1) % turns,
            (ring + 1) * turns + i,
        )
        for ring in range(len(profile) - 1)
        for i in range(turns)
    ]
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices, [], faces)
    obj = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(obj)
    obj.location = place
    weld = obj.modifiers.new("Weld", "WELD")
    weld.merge_threshold = 1e-5
    return finish(obj, material, name, levels=1)


def add_camera(name: str, place: Place, aim: Place, lens_mm: float) -> None:
    """Adds a camera that looks from a place to another."""
    data = bpy.data.cameras.new(name)
    data.lens, data.clip_start = lens_mm, 0.02
    obj = bpy.data.objects.new(name, data)
    obj.location = place
    obj.rotation_euler = (Vector(aim) - Vector(place)).to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.collection.objects.link(obj)
    bpy.context.scene.camera = obj


def add_room_cameras(
    numbers: range, half: tuple[float, float], heights: tuple[float, float], lens_mm: float
) -> None:
    """Adds cameras inside a room about the origin that look across it, up and down too, places and aims spread evenly.

    Args:
        numbers: One camera each; any stretch of consecutive numbers is spread evenly.
        half: They stand on the ellipse of these half axes, and up to a third inside of it.
        heights: Least and greatest.
        lens_mm: Focal length on 36 mm.
    """
    for number in numbers:
        around, inward, up, aside, down = (math.modf((number + 0.5) * step)[0] for step in R5_STEPS)
        angle, share = 2 * math.pi * around, 1 - 0.33 * inward
        place = (
            half[0] * share * math.cos(angle),
            half[1] * share * math.sin(angle),
            heights[0] + up * (heights[1] - heights[0]),
        )
        toward = angle + math.pi + math.radians(70) * (aside - 0.5)
        aim = (place[0] + math.cos(toward), place[1] + math.sin(toward), place[2] + 0.6 - 1.3 * down)
        add_camera(f"Inside {number:04d}", place, aim, lens_mm)


_R5_ROOT = 1.1673039782614187  # of x^6 = x + 1
R5_STEPS = tuple(float(_R5_ROOT**-power) for power in range(1, 6))
"""Steps of the R sequence in five dimensions. Source: Roberts 2018, The unreasonable effectiveness of quasirandom sequences."""


def noise_generator(seed: int) -> np.random.Generator:
    """Returns the random numbers of a scene, the same on every machine."""
    return np.random.Generator(np.random.PCG64(seed))


def light_paths(*, total: int, diffuse: int, glossy: int, transmission: int) -> None:
    """Limits the light's bounces: as short as the subject allows."""
    cycles: Any = bpy.context.scene.cycles
    cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = total, diffuse, glossy
    cycles.transmission_bounces, cycles.transparent_max_bounces, cycles.volume_bounces = transmission, 4, 0
    cycles.caustics_reflective = cycles.caustics_refractive = False
