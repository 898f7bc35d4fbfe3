"""Splats that sharpen in the viewport while they are fitted, and the engine's own picture of the same view."""

import os
import time
from importlib import import_module
from pathlib import Path

import bpy
from monkey import MODULE, build_scene, click, compile_shaders, hide_others, picture, splats

_FOLDER = Path(__file__).with_name("preview")


def _choose_settings(window):
    bpy.context.preferences.addons[MODULE].preferences.engine_python = window.engine_python
    chosen = bpy.context.scene.splatfit
    chosen.capture.rig, chosen.capture.views, chosen.capture.resolution = "dome", 16, 96
    chosen.capture.samples, chosen.capture.points = 8, 4000
    chosen.fit.steps, chosen.start.start_splats, chosen.fit.threads = 100000, 5000, 1


def scenario(window):
    """Fits, looks at the first splats and at later ones, and has the engine draw the view, running and at rest."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    build_scene(_FOLDER)
    _choose_settings(window)
    window.look_from((2.6, -4.6, 2.2), (0, 0, 0))
    yield from compile_shaders(window)
    running, preview = import_module(f"{MODULE}.runs.running"), import_module(f"{MODULE}.display.preview")
    state = import_module(f"{MODULE}.runs.session").State
    yield from window.open_tab()
    yield from window.click("splatfit.fit(")
    job = running.current()
    assert job is not None, "Fit has started nothing"
    yield from window.wait_until(
        lambda: job.session.state is not state.CAPTURING, "the end of the capture", 6000
    )
    since_s = time.monotonic()
    yield from window.wait_until(lambda: splats() is not None or job.session.state.is_over, "the points")
    assert job.session.error is None, str(job.session.error)
    print(f"first look {time.monotonic() - since_s:.2f} s after the capture", flush=True)
    hide_others()
    yield from picture(window, "first-look")
    live = preview.current()
    yield from window.wait_until(lambda: live.shown_step >= 0, "the engine's first splats", 6000)
    print(f"engine's splats {time.monotonic() - since_s:.2f} s after the capture", flush=True)
    yield from picture(window, "first-splats")
    yield from window.wait_until(lambda: live.shown_step >= 300, "later splats", 6000)
    print(f"update {1e3 * live.cost_s:.1f} ms, step {live.shown_step}", flush=True)
    yield from picture(window, "later-splats")

    yield from click(window, "splatfit.render_engine_view(")
    yield from window.wait_until(
        lambda: any(image.get("splatfit_preview") for image in bpy.data.images), "the engine's picture"
    )
    yield from picture(window, "engine-view")
    pictures = job.session.report.previews
    bpy.context.scene.splatfit.follow_view = True
    yield from window.wait_until(
        lambda: job.session.report.previews > pictures, "a picture of the followed view"
    )
    bpy.context.scene.splatfit.follow_view = False
    yield from click(window, "splatfit.open_engine_view(")
    yield from window.settle(20)
    assert len(bpy.context.window_manager.windows) == 2, "no window has opened"
    yield from window.picture("engine-window")
    with bpy.context.temp_override(window=bpy.context.window_manager.windows[1]):
        bpy.ops.wm.window_close()
    yield from window.settle()
    yield from click(window, "splatfit.stop(")
    yield from window.wait_until(lambda: job.session.state.is_over, "the end after Stop")
    assert job.session.error is None, str(job.session.error)
    yield from window.settle(20)
    assert len([item for item in bpy.data.objects if item.type == "POINTCLOUD"]) == 1, "splats pile up"
    bpy.context.view_layer.objects.active = splats()
    yield from picture(window, "result")
