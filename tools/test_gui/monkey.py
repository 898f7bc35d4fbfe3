"""What scenarios of a fit share: a monkey on a disc in a saved file, and pictures that show the splats.

Runs inside Blender, beside window.py.
"""

import math
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import bpy
import numpy as np

MODULE = "bl_ext.user_default.splatfit"
_COMPILE_S = 20


def material(name: str, color: tuple[float, float, float]) -> Any:
    """Makes a plain material."""
    made: Any = bpy.data.materials.new(name)
    made.use_nodes = True
    made.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = (*color, 1)
    return made


def build_scene(folder: Path) -> None:
    """Fills the scene, lights it from two sides, and saves it as monkey.blend in a new folder."""
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.object.delete()
    bpy.ops.mesh.primitive_cylinder_add(vertices=64, radius=1.6, depth=0.1, location=(0, 0, -0.65))
    bpy.context.object.data.materials.append(material("Disc", (0.1, 0.25, 0.5)))
    bpy.ops.mesh.primitive_monkey_add(location=(0, 0, 0.2), rotation=(math.radians(-35), 0, 0))
    bpy.context.object.data.materials.append(material("Monkey", (0.8, 0.3, 0.1)))
    bpy.ops.object.shade_smooth()
    for place, energy in (((3, -3, 4), 400), ((-4, -1, 3), 150)):
        bpy.ops.object.light_add(type="AREA", location=place)
        lamp: Any = bpy.context.object
        lamp.data.energy, lamp.data.size = energy, 3
        lamp.rotation_euler = lamp.location.to_track_quat("Z", "Y").to_euler()
    folder.mkdir()
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "monkey.blend"))


def splats() -> Any:
    """Returns the splat object; None before there is one."""
    return next((item for item in bpy.context.scene.objects if item.type == "POINTCLOUD"), None)


def hide_others() -> None:
    """Closes the eyes of the meshes, so that only splats are seen."""
    for item in bpy.context.scene.objects:
        if item.type == "MESH":
            item.hide_set(True)


def show_splats(window: Any, are_shown: bool) -> None:
    """Lets the viewport draw the splats, or not: between pictures a processor would draw their ellipsoids too slowly."""
    window.area.spaces.active.shading.type = "MATERIAL" if are_shown else "WIREFRAME"
    for modifier in splats().modifiers if splats() is not None else ():
        modifier.show_viewport = are_shown


def compile_shaders(window: Any) -> Iterator[None]:
    """Draws one splat for as long as EEVEE needs to compile its shaders: Blender has no word for when it is done."""
    splat_object = import_module(f"{MODULE}.scene.splat_object")
    splats_of = import_module("splat_engine.formats.splats").Splats
    one = [np.zeros((1, columns), np.float32) for columns in (3, 3, 4)]
    one[2][:, 0] = 1
    cloud = splats_of(*one, np.ones(1, np.float32), np.zeros((1, 1, 3), np.float32))
    made = splat_object.add_splats(cloud, bpy.context.scene, name="One").object
    show_splats(window, True)
    until_s = time.monotonic() + _COMPILE_S
    while time.monotonic() < until_s:
        yield from window.settle()
    bpy.data.objects.remove(made)
    show_splats(window, False)


def click(window: Any, wanted: str) -> Iterator[None]:
    """Clicks a button while the live preview rests, for at each of its updates a processor draws the viewport anew."""
    chosen: Any = bpy.context.scene.splatfit
    chosen.live_preview = False
    yield from window.click(wanted)
    chosen.live_preview = True


def picture(window: Any, name: str) -> Iterator[None]:
    """Takes a picture with the splats drawn."""
    show_splats(window, True)
    yield from window.picture(name)
    show_splats(window, False)
