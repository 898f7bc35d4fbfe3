"""A fit that life gets in the way of: undo, another file, a killed engine, and a person who does not want it after all."""

import os
import signal
from importlib import import_module
from pathlib import Path

import bpy

MODULE = "bl_ext.user_default.splatfit"
_FOLDER = Path(__file__).with_name("Größe 2")


def _build_scene(window):
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.object.delete()
    bpy.ops.mesh.primitive_monkey_add()
    bpy.ops.object.light_add(type="SUN", rotation=(0.6, 0.3, 0))
    bpy.context.object.data.energy = 3
    _FOLDER.mkdir()
    chosen = bpy.context.scene.splatfit
    chosen.capture.views, chosen.capture.resolution, chosen.capture.samples = 24, 128, 8
    chosen.fit.steps, chosen.start.start_splats, chosen.fit.threads = 100000, 5000, 1
    bpy.ops.wm.save_as_mainfile(filepath=str(_FOLDER / "other.blend"))
    bpy.ops.wm.save_as_mainfile(filepath=str(_FOLDER / "monkey.blend"))
    bpy.context.preferences.addons[MODULE].preferences.engine_python = window.engine_python


def _is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _open(name):
    bpy.ops.wm.open_mainfile(filepath=str(_FOLDER / name))


def scenario(window):
    """Presses Fit, goes on modelling, undoes it, opens another file and comes back; resumes, and discards."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    _build_scene(window)
    running = import_module(f"{MODULE}.runs.running")
    state = import_module(f"{MODULE}.runs.session").State
    run = _FOLDER / "monkey.splatfit" / "run"
    yield from window.open_tab()
    yield from window.click("splatfit.fit(")
    yield from window.wait_until(running.current, "a fit")
    job = running.current()
    assert job.session.state is state.CAPTURING, f"{job.session.state}: {job.session.error}"

    bpy.ops.ed.undo_push(message="before")
    bpy.data.objects["Suzanne"].location.x = 3
    bpy.ops.ed.undo_push(message="moved")
    yield from window.wait_until(
        lambda: job.session.report.step > 3 or job.session.state.is_over, "the first views"
    )
    assert job.session.error is None, str(job.session.error)
    yield from window.picture("capturing-in-the-background")
    bpy.ops.ed.undo()
    assert bpy.data.objects["Suzanne"].location.x == 0, "nothing was undone"
    child = job.session._capture._process.pid
    yield from window.wait_until(
        lambda: job.session.state is not state.CAPTURING, "the end of the capture", 6000
    )
    assert not _is_alive(child), "the Blender in the background goes on"
    assert not list((_FOLDER / "monkey.splatfit" / "capture").glob("source*")), "the copy was left behind"
    yield from window.wait_until(
        lambda: job.session.report.step > 50 or job.session.state.is_over, "the first steps"
    )
    assert job.session.error is None, str(job.session.error)

    engine = job.session._engine.pid
    _open("other.blend")
    yield from window.settle(20)
    assert not _is_alive(engine), "the engine goes on without its file"
    assert (run / "checkpoint.pt").is_file() and running.current() is None
    _open("monkey.blend")
    yield from window.settle(20)  # a sidebar that was never drawn has no tabs
    yield from window.open_tab()
    yield from window.picture("found-again")

    yield from window.click("splatfit.resume_run(")
    yield from window.wait_until(running.is_busy, "the fit that goes on")
    job = running.current()
    yield from window.wait_until(
        lambda: job.session.report.step > 100 or job.session.state.is_over, "more steps"
    )
    assert job.session.error is None, str(job.session.error)
    yield from window.picture("resumed")
    os.kill(job.session._engine.pid, signal.SIGKILL)
    yield from window.wait_until(lambda: job.session.state is state.FAILED, "the failure")
    yield from window.settle(20)
    yield from window.picture("engine-killed")

    yield from window.settle(60)
    yield from window.click("splatfit.resume_run(")
    yield from window.wait_until(running.is_busy, "the fit that goes on")
    job = running.current()
    yield from window.wait_until(
        lambda: job.session.report.step > 100 or job.session.state.is_over, "more steps"
    )
    assert job.session.error is None, str(job.session.error)
    bpy.ops.splatfit.discard()
    yield from window.settle(20)
    assert not run.exists() and running.current() is None
    assert [item.type for item in bpy.context.scene.objects if item.type == "POINTCLOUD"] == []
    assert len(list((_FOLDER / "monkey.splatfit" / "capture" / "views").glob("*.exr"))) == 24, (
        "the views are gone"
    )
    yield from window.picture("discarded")
