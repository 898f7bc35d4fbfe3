"""A fit from the first click to the splats: captured, watched, paused, gone on with, stopped, and kept."""

import math
import os
from importlib import import_module
from pathlib import Path

import bpy

MODULE = "bl_ext.user_default.splatfit"
_FOLDER = Path(__file__).with_name("Größe 2")
"""A blank and letters beyond ASCII, as artists' folders have."""


def _material(name, color, metallic=0.0):
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    shader = material.node_tree.nodes["Principled BSDF"]
    shader.inputs["Base Color"].default_value = (*color, 1)
    shader.inputs["Metallic"].default_value = metallic
    return material


def _build_scene():
    """A monkey on a disc, lit from two sides, in a saved file."""
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.object.delete()
    bpy.ops.mesh.primitive_cylinder_add(vertices=64, radius=1.6, depth=0.1, location=(0, 0, -0.65))
    bpy.context.object.data.materials.append(_material("Disc", (0.1, 0.25, 0.5)))
    bpy.ops.mesh.primitive_monkey_add(location=(0, 0, 0.2), rotation=(math.radians(-35), 0, 0))
    bpy.context.object.data.materials.append(_material("Monkey", (0.8, 0.3, 0.1)))
    bpy.ops.object.shade_smooth()
    for place, energy in (((3, -3, 4), 400), ((-4, -1, 3), 150)):
        bpy.ops.object.light_add(type="AREA", location=place)
        bpy.context.object.data.energy, bpy.context.object.data.size = energy, 3
        bpy.context.object.rotation_euler = bpy.context.object.location.to_track_quat("Z", "Y").to_euler()
    _FOLDER.mkdir()
    bpy.ops.wm.save_as_mainfile(filepath=str(_FOLDER / "monkey.blend"))


def _choose_settings(window):
    bpy.context.preferences.addons[MODULE].preferences.engine_python = window.engine_python
    chosen = bpy.context.scene.splatfit
    chosen.capture.rig, chosen.capture.views, chosen.capture.resolution = "dome", 24, 128
    chosen.capture.samples = 8
    chosen.fit.steps, chosen.start.start_splats, chosen.fit.threads = 500_000, 12_000, 1


def _first_splats():
    return next((item for item in bpy.context.scene.objects if item.type == "POINTCLOUD"), None)


def scenario(window):
    """Presses Fit, Pause, Go On and Stop, and looks at the splats."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    _build_scene()
    _choose_settings(window)
    window.look_from((2.6, -4.6, 2.2), (0, 0, 0))
    window.area.spaces.active.shading.type = "MATERIAL"
    running = import_module(f"{MODULE}.running")
    state = import_module(f"{MODULE}.session").State
    yield from window.open_tab()
    yield from window.picture("before")

    yield from window.click("splatfit.fit(")
    job = running.current()
    assert job is not None, "Fit has started nothing"
    yield from window.wait_until(lambda: job.session.report.step > 5, "the first views")
    yield from window.picture("capturing")
    yield from window.wait_until(
        lambda: job.session.state is not state.CAPTURING, "the end of the capture", 6000
    )
    yield from window.wait_until(
        lambda: job.session.report.step > 100 or job.session.state.is_over, "the first steps"
    )
    assert job.session.error is None, str(job.session.error)
    yield from window.picture("fitting")
    yield from window.click("splatfit.pause(")
    yield from window.wait_until(lambda: job.session.state is state.PAUSED, "the pause")
    at_pause = job.session.report.step
    yield from window.settle(40)
    assert job.session.report.step == at_pause, "it goes on though it is paused"
    yield from window.picture("paused")
    yield from window.click("splatfit.pause(")
    yield from window.wait_until(lambda: job.session.report.step > at_pause + 200, "the fit after the pause")
    yield from window.picture("sharper")
    yield from window.click("splatfit.stop(")
    yield from window.wait_until(lambda: job.session.state.is_over, "the end after Stop")
    assert job.session.error is None, str(job.session.error)
    yield from window.settle(40)
    splats = _first_splats()
    assert splats is not None and len(splats.data.points) > 1000, "there are no splats"
    yield from window.picture("result")
