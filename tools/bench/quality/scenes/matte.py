"""A matte object with fine texture: woven cloth over a monkey, on a plinth of small bricks."""

from __future__ import annotations

import math

import bpy

from . import parts


def _cloth() -> bpy.types.Material:
    """A weave: two fine waves across each other, over a print of larger spots."""
    material = parts.matte("Cloth", (0.5, 0.5, 0.5))
    tree, shader = parts.nodes_of(material)
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    threads = []
    for direction, scale in (("X", 9.0), ("Z", 9.0)):
        wave = tree.nodes.new("ShaderNodeTexWave")
        wave.bands_direction = direction
        wave.inputs["Scale"].default_value, wave.inputs["Distortion"].default_value = scale, 1.5
        tree.links.new(coordinates.outputs["Object"], wave.inputs["Vector"])
        threads.append(wave.outputs["Fac" if "Fac" in wave.outputs else "Factor"])
    weave = tree.nodes.new("ShaderNodeMath")
    weave.operation = "MULTIPLY"
    tree.links.new(threads[0], weave.inputs[0])
    tree.links.new(threads[1], weave.inputs[1])
    spots = tree.nodes.new("ShaderNodeTexVoronoi")
    spots.inputs["Scale"].default_value = 5.0
    tree.links.new(coordinates.outputs["Object"], spots.inputs["Vector"])
    print_color = tree.nodes.new("ShaderNodeValToRGB")
    ramp = print_color.color_ramp
    ramp.interpolation = "CONSTANT"
    ramp.elements[0].color, ramp.elements[1].color = (0.75, 0.12, 0.05, 1), (0.05, 0.16, 0.30, 1)
    ramp.elements[1].position = 0.45
    ramp.elements.new(0.3).color = (0.85, 0.65, 0.2, 1)
    tree.links.new(spots.outputs["Distance"], print_color.inputs[0])
    mix = tree.nodes.new("ShaderNodeMix")
    mix.data_type = "RGBA"
    mix.inputs["B"].default_value = (0.9, 0.86, 0.75, 1)
    colors = [socket for socket in mix.inputs if socket.type == "RGBA"]
    colors[1].default_value = (0.9, 0.86, 0.75, 1)
    tree.links.new(weave.outputs[0], mix.inputs[0])
    tree.links.new(print_color.outputs[0], colors[0])
    result = next(socket for socket in mix.outputs if socket.type == "RGBA")
    tree.links.new(result, shader.inputs["Base Color"])
    return material


def build() -> None:
    """Fills the scene."""
    bpy.ops.mesh.primitive_monkey_add(
        size=1.5, location=(0, 0, 0.66), rotation=(math.radians(-12), 0, math.radians(20))
    )
    parts.finish(bpy.context.object, _cloth(), "Suzanne", levels=2)
    bricks = parts.matte("Bricks", (0.5, 0.3, 0.2))
    parts.add_bricks(bricks, 3.5, (0.45, 0.16, 0.09), (0.62, 0.33, 0.16), (0.75, 0.72, 0.66))
    parts.add_plinth(bricks, 1.1)
    parts.set_sky((0.5, 0.6, 0.8), (0.9, 0.85, 0.8), (0.25, 0.22, 0.2))
    parts.add_area_light("Key", (2.5, -2.5, 3.5), (1.0, 0.9, 0.8), 160, 2.0)
    parts.light_paths(total=2, diffuse=2, glossy=1, transmission=1)
