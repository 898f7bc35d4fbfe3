"""The demo scene, built by script: a still life on a turntable.

Run with Blender's Python: ``python tools/demo_scene.py OUT.blend``. It holds what splats find
hard or easy: curved metal, a thin wire, a fine texture, translucent wax, glass-like gloss, a
tuft of instanced grass, and coloured light.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

import bpy
from mathutils import Euler, Vector

SEED = 7


def principled(name: str, color: tuple[float, float, float], **inputs: float) -> bpy.types.Material:
    """Makes a material of one Principled BSDF; ``inputs`` are its sockets, underscores for spaces."""
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    shader = material.node_tree.nodes["Principled BSDF"]
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    for socket, value in inputs.items():
        shader.inputs[socket.replace("_", " ")].default_value = value
    return material


def add_color_ramp(
    material: bpy.types.Material, texture: str, settings: dict[str, float], stops: list
) -> None:
    """Feeds the base colour from a procedural texture in object coordinates through a colour ramp."""
    tree = material.node_tree
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    node = tree.nodes.new(texture)
    for socket, value in settings.items():
        node.inputs[socket].default_value = value
    ramp = tree.nodes.new("ShaderNodeValToRGB")
    elements = ramp.color_ramp.elements
    elements[0].position, elements[-1].position = stops[0][0], stops[-1][0]
    elements[0].color, elements[-1].color = (*stops[0][1], 1.0), (*stops[-1][1], 1.0)
    for position, color in stops[1:-1]:
        elements.new(position).color = (*color, 1.0)
    tree.links.new(coordinates.outputs["Object"], node.inputs["Vector"])
    factor = node.outputs["Factor"] if "Factor" in node.outputs else node.outputs[-1]
    tree.links.new(factor, ramp.inputs[0])
    tree.links.new(ramp.outputs["Color"], tree.nodes["Principled BSDF"].inputs["Base Color"])


def finish(
    obj: bpy.types.Object, material: bpy.types.Material, name: str, *, levels: int = 0
) -> bpy.types.Object:
    """Names an object, gives it a material, smooth shading and subdivision."""
    obj.name = name
    obj.data.materials.append(material)
    if obj.type == "MESH":
        obj.data.shade_smooth()
    if levels:
        modifier = obj.modifiers.new("Subdivision", "SUBSURF")
        modifier.levels = modifier.render_levels = levels
    return obj


def build_turntable() -> None:
    """A round plinth of veined stone with a thin brass rim."""
    stone = principled("Stone", (0.4, 0.3, 0.25), Roughness=0.55)
    veins = [
        (0.30, (0.035, 0.075, 0.095)),
        (0.5, (0.10, 0.22, 0.25)),
        (0.62, (0.50, 0.52, 0.44)),
        (0.72, (0.12, 0.2, 0.2)),
    ]
    add_color_ramp(
        stone,
        "ShaderNodeTexNoise",
        {"Scale": 2.2, "Detail": 6.0, "Roughness": 0.62, "Distortion": 1.4},
        veins,
    )
    bpy.ops.mesh.primitive_cylinder_add(vertices=96, radius=1.5, depth=0.22, location=(0, 0, -0.11))
    plinth = bpy.context.object
    bevel = plinth.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments, bevel.angle_limit = 0.05, 4, math.radians(40)
    finish(plinth, stone, "Plinth")
    brass = principled("Brass", (0.95, 0.62, 0.22), Metallic=1.0, Roughness=0.28)
    bpy.ops.mesh.primitive_torus_add(
        major_radius=1.5, minor_radius=0.03, major_segments=96, location=(0, 0, -0.11)
    )
    finish(bpy.context.object, brass, "Rim")


def build_suzanne() -> None:
    """The monkey in lacquered red: curved, glossy, with a clear coat."""
    lacquer = principled("Lacquer", (0.55, 0.025, 0.02), Roughness=0.32, Coat_Weight=0.6, Coat_Roughness=0.12)
    bpy.ops.mesh.primitive_monkey_add(
        size=1.35, location=(-0.12, 0.22, 0.62), rotation=(math.radians(-14), 0, math.radians(24))
    )
    finish(bpy.context.object, lacquer, "Suzanne", levels=2)


def build_sphere() -> None:
    """A ball with a fine painted texture."""
    paint = principled("Glaze", (0.8, 0.8, 0.8), Roughness=0.4)
    bands = [
        (0.08, (0.02, 0.10, 0.34)),
        (0.3, (0.86, 0.82, 0.70)),
        (0.7, (0.88, 0.82, 0.68)),
        (0.92, (0.75, 0.24, 0.03)),
    ]
    add_color_ramp(paint, "ShaderNodeTexWave", {"Scale": 3.2, "Distortion": 6.0, "Detail": 2.0}, bands)
    bpy.ops.mesh.primitive_uv_sphere_add(
        segments=64, ring_count=32, radius=0.34, location=(0.86, -0.52, 0.34)
    )
    finish(bpy.context.object, paint, "Painted Ball")


def build_candle() -> None:
    """A candle of translucent wax, and its flame."""
    wax = principled(
        "Wax", (0.93, 0.80, 0.62), Roughness=0.45, Subsurface_Weight=0.0, Transmission_Weight=0.0
    )
    tree = wax.node_tree
    translucent = tree.nodes.new("ShaderNodeBsdfTranslucent")
    translucent.inputs["Color"].default_value = (0.95, 0.62, 0.34, 1.0)
    mix = tree.nodes.new("ShaderNodeMixShader")
    mix.inputs[0].default_value = 0.55
    tree.links.new(tree.nodes["Principled BSDF"].outputs[0], mix.inputs[1])
    tree.links.new(translucent.outputs[0], mix.inputs[2])
    tree.links.new(mix.outputs[0], tree.nodes["Material Output"].inputs["Surface"])
    bpy.ops.mesh.primitive_cylinder_add(vertices=48, radius=0.19, depth=0.72, location=(0.88, 0.62, 0.36))
    candle = bpy.context.object
    bevel = candle.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments = 0.04, 4
    finish(candle, wax, "Candle")
    flame = principled("Flame", (1, 0.5, 0.1), Emission_Strength=2.2)
    flame.node_tree.nodes["Principled BSDF"].inputs["Emission Color"].default_value = (1.0, 0.45, 0.12, 1.0)
    bpy.ops.mesh.primitive_uv_sphere_add(
        segments=32, ring_count=16, radius=0.065, location=(0.88, 0.62, 0.85)
    )
    bpy.context.object.scale = (1, 1, 2.0)
    finish(bpy.context.object, flame, "Flame")


def build_wire() -> None:
    """A thin golden curve: a (2, 3) torus knot."""
    curve = bpy.data.curves.new("Knot", "CURVE")
    curve.dimensions, curve.bevel_depth, curve.bevel_resolution = "3D", 0.022, 3
    spline = curve.splines.new("POLY")
    count = 220
    spline.points.add(count - 1)
    spline.use_cyclic_u = True
    for index, point in enumerate(spline.points):
        angle = 2 * math.pi * index / count
        radius = 0.32 * (2 + math.cos(3 * angle)) / 2.4
        point.co = (radius * math.cos(2 * angle), radius * math.sin(2 * angle), 0.13 * math.sin(3 * angle), 1)
    obj = bpy.data.objects.new("Wire Knot", curve)
    bpy.context.scene.collection.objects.link(obj)
    obj.location, obj.rotation_euler = (-0.12, -0.98, 0.36), (math.radians(68), 0, math.radians(12))
    obj.data.materials.append(principled("Gold", (1.0, 0.71, 0.29), Metallic=1.0, Roughness=0.3))


def blade_mesh() -> bpy.types.Mesh:
    """One bent blade of grass, five quads long."""
    mesh = bpy.data.meshes.new("Blade")
    steps = 6
    rings = [
        (0.022 * (1 - i / steps) + 0.002, 0.16 * (i / steps) ** 2, 0.62 * i / steps) for i in range(steps)
    ]
    vertices = [(side * width, bend, height) for width, bend, height in rings for side in (-1, 1)]
    faces = [(2 * i, 2 * i + 1, 2 * i + 3, 2 * i + 2) for i in range(steps - 1)]
    mesh.from_pydata(vertices, [], faces)
    return mesh


def build_grass() -> None:
    """A tuft of a hundred instances of one blade, in two greens by object colour."""
    random.seed(SEED)
    green = principled("Grass", (0.16, 0.42, 0.06), Roughness=0.5)
    info = green.node_tree.nodes.new("ShaderNodeObjectInfo")
    ramp = green.node_tree.nodes.new("ShaderNodeValToRGB")
    ramp.color_ramp.elements[0].color = (0.05, 0.22, 0.03, 1)
    ramp.color_ramp.elements[1].color = (0.42, 0.55, 0.08, 1)
    green.node_tree.links.new(info.outputs["Random"], ramp.inputs[0])
    green.node_tree.links.new(ramp.outputs[0], green.node_tree.nodes["Principled BSDF"].inputs["Base Color"])
    mesh = blade_mesh()
    mesh.materials.append(green)
    collection = bpy.data.collections.new("Grass")
    bpy.context.scene.collection.children.link(collection)
    for number in range(110):
        angle, radius = random.uniform(0, 2 * math.pi), 0.27 * math.sqrt(random.random())
        blade = bpy.data.objects.new(f"Blade {number:03d}", mesh)
        blade.location = Vector((-0.95 + radius * math.cos(angle), -0.12 + radius * math.sin(angle), 0.0))
        lean = random.uniform(-0.2, 0.35)
        blade.rotation_euler = Euler((lean, 0, angle - math.pi / 2 + random.uniform(-0.7, 0.7)))
        blade.scale = (1.2, 1.0, random.uniform(0.7, 1.25))
        collection.objects.link(blade)


def add_area_light(name: str, location: tuple, color: tuple, power_w: float, size: float) -> None:
    """Adds an area light that looks at the still life."""
    light = bpy.data.lights.new(name, "AREA")
    light.energy, light.color, light.size = power_w, color, size
    obj = bpy.data.objects.new(name, light)
    obj.location = location
    obj.rotation_euler = (Vector((0, 0, 0.3)) - Vector(location)).to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.collection.objects.link(obj)


def build_light() -> None:
    """A warm key, a violet rim and a soft blue sky."""
    add_area_light("Key", (3.2, -3.0, 4.2), (1.0, 0.83, 0.62), 190, 2.0)
    add_area_light("Rim", (-3.6, 2.6, 2.6), (0.52, 0.36, 1.0), 200, 1.5)
    add_area_light("Fill", (-2.8, -3.6, 2.2), (0.55, 0.85, 1.0), 30, 3.0)
    world = bpy.data.worlds.new("World")
    world.use_nodes = True
    background = world.node_tree.nodes["Background"]
    background.inputs["Color"].default_value, background.inputs["Strength"].default_value = (
        (0.30, 0.40, 0.55, 1),
        0.35,
    )
    bpy.context.scene.world = world


def build_camera() -> None:
    """The artist's own camera, for the beauty shot."""
    camera = bpy.data.cameras.new("Camera")
    camera.lens = 50
    obj = bpy.data.objects.new("Camera", camera)
    obj.location = (2.9, -4.2, 2.6)
    obj.rotation_euler = (Vector((0, 0, 0.3)) - obj.location).to_track_quat("-Z", "Y").to_euler()
    bpy.context.scene.collection.objects.link(obj)
    bpy.context.scene.camera = obj


def build(path: Path) -> None:
    """Builds the scene in an empty file and saves it."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    for part in (
        build_turntable,
        build_suzanne,
        build_sphere,
        build_candle,
        build_wire,
        build_grass,
        build_light,
        build_camera,
    ):
        part()
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.render.resolution_x = scene.render.resolution_y = 512
    path.parent.mkdir(parents=True, exist_ok=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(path.resolve()))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("blend", type=Path, help="the .blend to write")
    build(parser.parse_args().blend)


if __name__ == "__main__":
    main()
