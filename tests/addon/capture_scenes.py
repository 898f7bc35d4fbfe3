"""Small scenes that the capture's tests render."""

from __future__ import annotations

from typing import Any

import bpy

from splat_engine.formats.settings import CaptureSettings


def settings(**values: Any) -> CaptureSettings:
    """Returns settings that render in a fraction of a second."""
    quick: dict[str, Any] = {
        "rig": "sphere",
        "views": 4,
        "resolution": 32,
        "samples": 1,
        "points": 200,
        "hold_out": 4,
        "denoise": False,
    }
    return CaptureSettings(**{**quick, **values})


def material(name: str, color: tuple[float, float, float], strength: float = 1.0) -> bpy.types.Material:
    """Returns a material that glows."""
    made = bpy.data.materials.new(name)
    if made.node_tree is None:
        made.use_nodes = True
    tree = made.node_tree
    tree.nodes.clear()
    emission, output = tree.nodes.new("ShaderNodeEmission"), tree.nodes.new("ShaderNodeOutputMaterial")
    emission.inputs["Color"].default_value, emission.inputs["Strength"].default_value = (
        (*color, 1.0),
        strength,
    )
    tree.links.new(emission.outputs[0], output.inputs["Surface"])
    return made


def cube(
    name: str = "Cube",
    location: tuple[float, float, float] = (0, 0, 0),
    size: float = 2.0,
    color: tuple = (0.8, 0.4, 0.1),
) -> bpy.types.Object:
    """Adds a glowing cube."""
    bpy.ops.mesh.primitive_cube_add(size=size, location=location)
    obj = bpy.context.object
    obj.name = name
    obj.data.materials.append(material(name, color))
    return obj


def camera(name: str = "Camera", location: tuple[float, float, float] = (0, -8, 0)) -> bpy.types.Object:
    """Adds a camera that looks along +Y."""
    obj = bpy.data.objects.new(name, bpy.data.cameras.new(name))
    obj.location, obj.rotation_euler = location, (1.5707964, 0, 0)
    bpy.context.scene.collection.objects.link(obj)
    return obj
