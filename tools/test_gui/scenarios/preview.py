"""Splats that sharpen in the viewport while they are fitted, and the engine's own picture of the same view."""

import math
import os
import time
from importlib import import_module
from pathlib import Path

import bpy

MODULE = "bl_ext.user_default.splatfit"
_FOLDER = Path(__file__).with_name("preview")


def _material(name, color):
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    material.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = (*color, 1)
    return material


def _build_scene():
    """A monkey on a disc in a saved file."""
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.object.delete()
    bpy.ops.mesh.primitive_cylinder_add(vertices=64, radius=1.6, depth=0.1, location=(0, 0, -0.65))
    bpy.context.object.data.materials.append(_material("Disc", (0.1, 0.25, 0.5)))
    bpy.ops.mesh.primitive_monkey_add(location=(0, 0, 0.2), rotation=(math.radians(-35), 0, 0))
    bpy.context.object.data.materials.append(_material("Monkey", (0.8, 0.3, 0.1)))
    bpy.ops.object.light_add(type="SUN", rotation=(0.7, 0.3, 0))
    bpy.context.object.data.energy = 3
    _FOLDER.mkdir()
    bpy.ops.wm.save_as_mainfile(filepath=str(_FOLDER / "monkey.blend"))


def _choose_settings(window):
    bpy.context.preferences.addons[MODULE].preferences.engine_python = window.engine_python
    chosen = bpy.context.scene.splatfit
    chosen.capture.rig, chosen.capture.views, chosen.capture.resolution = "dome", 16, 96
    chosen.capture.samples, chosen.capture.points = 8, 4000
    chosen.fit.steps, chosen.start.start_splats, chosen.fit.threads = 100000, 5000, 1


def _splats():
    return next((item for item in bpy.context.scene.objects if item.type == "POINTCLOUD"), None)


def _hide_others():
    for item in bpy.context.scene.objects:
        if item.type == "MESH":
            item.hide_set(True)


def _picture(window, name):
    """Takes a picture with the splats drawn; between pictures they are not, for a processor draws them slowly."""
    shading, splats = window.area.spaces.active.shading, _splats()
    shading.type, splats.display_type = "MATERIAL", "TEXTURED"
    yield from window.picture(name)
    shading.type, splats.display_type = "WIREFRAME", "BOUNDS"


def scenario(window):
    """Fits, looks at the first splats and at later ones, and has the engine draw the view, running and at rest."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    _build_scene()
    _choose_settings(window)
    window.look_from((2.6, -4.6, 2.2), (0, 0, 0))
    window.area.spaces.active.shading.type = "WIREFRAME"
    running, preview = import_module(f"{MODULE}.running"), import_module(f"{MODULE}.preview")
    state = import_module(f"{MODULE}.session").State
    yield from window.open_tab()
    yield from window.click("splatfit.fit(")
    job = running.current()
    assert job is not None, "Fit has started nothing"
    yield from window.wait_until(
        lambda: job.session.state is not state.CAPTURING, "the end of the capture", 6000
    )
    since_s = time.monotonic()
    yield from window.wait_until(lambda: _splats() is not None or job.session.state.is_over, "the points")
    assert job.session.error is None, str(job.session.error)
    print(f"first look {time.monotonic() - since_s:.2f} s after the capture", flush=True)
    _hide_others()
    _splats().display_type = "BOUNDS"
    yield from _picture(window, "first-look")
    live = preview.current()
    yield from window.wait_until(lambda: live.shown_step >= 0, "the engine's first splats", 6000)
    print(f"engine's splats {time.monotonic() - since_s:.2f} s after the capture", flush=True)
    yield from _picture(window, "first-splats")
    yield from window.wait_until(lambda: live.shown_step >= 300, "later splats", 6000)
    print(f"update {1e3 * live.cost_s:.1f} ms, step {live.shown_step}", flush=True)
    yield from _picture(window, "later-splats")

    yield from window.click("splatfit.render_engine_view(")
    yield from window.wait_until(
        lambda: any(image.get("splatfit_preview") for image in bpy.data.images), "the engine's picture"
    )
    yield from window.picture("engine-view")
    pictures = job.session.report.previews
    bpy.context.scene.splatfit.follow_view = True
    yield from window.wait_until(
        lambda: job.session.report.previews > pictures, "a picture of the followed view"
    )
    bpy.context.scene.splatfit.follow_view = False
    yield from window.click("splatfit.open_engine_view(")
    yield from window.settle(20)
    assert len(bpy.context.window_manager.windows) == 2, "no window has opened"
    yield from window.picture("engine-window")
    yield from window.click("splatfit.stop(")
    yield from window.wait_until(lambda: job.session.state.is_over, "the end after Stop")
    assert job.session.error is None, str(job.session.error)
    yield from window.settle(20)
    assert len([item for item in bpy.data.objects if item.type == "POINTCLOUD"]) == 1, "splats pile up"
    bpy.context.view_layer.objects.active = _splats()
    yield from _picture(window, "result")
