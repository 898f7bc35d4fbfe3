"""A fit from the first click to the splats: captured, watched, paused, gone on with, stopped, and kept."""

import os
from importlib import import_module
from pathlib import Path

import bpy
from monkey import MODULE, build_scene, click, hide_others, picture, show_splats, splats

_FOLDER = Path(__file__).with_name("Größe 2")
"""A blank and letters beyond ASCII, as artists' folders have."""


def _choose_settings(window):
    bpy.context.preferences.addons[MODULE].preferences.engine_python = window.engine_python
    chosen = bpy.context.scene.splatfit
    chosen.capture.rig, chosen.capture.views, chosen.capture.resolution = "dome", 24, 128
    chosen.capture.samples = 8
    chosen.fit.steps, chosen.start.start_splats, chosen.fit.threads = 500_000, 12_000, 1


def scenario(window):
    """Presses Fit, Pause, Go On and Stop, and looks at the splats."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    build_scene(_FOLDER)
    _choose_settings(window)
    window.look_from((2.6, -4.6, 2.2), (0, 0, 0))
    show_splats(window, False)
    running = import_module(f"{MODULE}.runs.running")
    state = import_module(f"{MODULE}.runs.session").State
    yield from window.open_tab()
    yield from picture(window, "before")

    yield from window.click("splatfit.fit(")
    job = running.current()
    assert job is not None, "Fit has started nothing"
    yield from window.wait_until(lambda: job.session.report.step > 5, "the first views")
    yield from window.picture("capturing")  # as wires, for it does not take long
    yield from window.wait_until(
        lambda: job.session.state is not state.CAPTURING, "the end of the capture", 6000
    )
    yield from window.wait_until(
        lambda: job.session.report.step > 100 or job.session.state.is_over, "the first steps"
    )
    assert job.session.error is None, str(job.session.error)
    yield from window.wait_until(splats, "splats in the viewport")
    hide_others()
    yield from picture(window, "fitting")
    yield from click(window, "splatfit.pause(")
    yield from window.wait_until(lambda: job.session.state is state.PAUSED, "the pause")
    at_pause = job.session.report.step
    yield from window.settle(40)
    assert job.session.report.step == at_pause, "it goes on though it is paused"
    yield from picture(window, "paused")
    yield from click(window, "splatfit.pause(")
    yield from window.wait_until(lambda: job.session.report.step > at_pause + 200, "the fit after the pause")
    yield from picture(window, "sharper")
    yield from click(window, "splatfit.stop(")
    yield from window.wait_until(lambda: job.session.state.is_over, "the end after Stop")
    assert job.session.error is None, str(job.session.error)
    yield from window.settle(40)
    assert splats() is not None and len(splats().data.points) > 1000, "there are no splats"
    yield from picture(window, "result")
