"""addon.runs.following: a session goes on whatever happens to scene and file, and never outlives them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import registration
from addon.runs import following, running
from addon.runs.session import Session, State
from addon.scene import splat_object
from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.clouds import cloud
from tests.addon.test_engine_process import FAKE
from tests.addon.test_session import ScriptedEngine


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path / "run")
    write_splat_ply(made.splats, cloud(9))
    return made


def started(run: RunDirectory, script: list[list[events.Event]], **facts: Any) -> running.Running:
    """Starts a fit with a scripted engine."""
    session = Session(run, lambda: ScriptedEngine(script))
    job = following.job_of(session, bpy.context.scene, **facts)
    following.begin(job)
    return job


FITTED: list[list[events.Event]] = [[events.Started(steps=9)], [events.Finished(step=9)]]


def to_the_end() -> None:
    while following._tick() is not None:
        pass


def test_result_comes_into_its_scene(run):
    """However the scene is called by then, and whichever is shown."""
    own = bpy.context.scene
    job = started(run, [*FITTED, []])
    own.name = "Renamed"
    other = bpy.data.scenes.new("Scene")
    to_the_end()
    assert job.session.state is State.FINISHED and job.result_name in own.objects
    assert not other.objects


def test_scene_that_is_gone_is_told(run):
    """The scene was deleted during the fit: the result is not lost, and the error says where it is."""
    doomed = bpy.data.scenes.new("Doomed")
    session = Session(run, lambda: ScriptedEngine([*FITTED, []]))
    job = following.job_of(session, doomed)
    following.begin(job)
    bpy.data.scenes.remove(doomed)
    to_the_end()
    assert job.session.error is not None and str(run.splats) in job.session.error.headline
    assert run.splats.is_file()


def test_deleted_splats_come_back_with_the_result(run):
    """The object of an earlier fit is deleted during the fit: the result is a new one."""
    from addon.runs import workflow

    earlier = workflow.import_run(bpy.context.scene, run).object
    job = started(run, [*FITTED, []])
    bpy.data.objects.remove(earlier)
    to_the_end()
    assert splat_object.is_splat_object(bpy.context.scene.objects[job.result_name])


def test_capture_alone_brings_nothing(run):
    """After a capture there is nothing to import."""
    job = started(run, [*FITTED, []], brings_splats=False)
    to_the_end()
    assert job.session.state is State.FINISHED and not bpy.context.scene.objects


def test_result_that_cannot_be_drawn_is_an_error(run):
    """A damaged result fails the session in words."""
    run.splats.write_bytes(b"nonsense")
    job = started(run, [*FITTED, []])
    to_the_end()
    assert job.session.state is State.FAILED and job.session.error is not None


def test_another_file_ends_the_session(run, tmp_path):
    """Opening a file ends engine and capture with a checkpoint; nothing of the session is left in the new file."""
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "other.blend"))
    engine = ScriptedEngine([[], []])
    session = Session(run, lambda: engine)
    following.begin(following.job_of(session, bpy.context.scene))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "other.blend"))
    assert session.state is State.CANCELLED and engine.closed == 1 and running.current() is None


def test_unregistering_leaves_no_timer_and_no_handler(run):
    """Blender 4.5 hangs at its end if one is left."""
    job = started(run, [[], []])
    following.follow()
    assert bpy.app.timers.is_registered(following._tick)
    registration.unregister()
    assert job.session.state is State.CANCELLED and not bpy.app.timers.is_registered(following._tick)
    assert following._before_another_file not in bpy.app.handlers.load_pre
    registration.register()


def test_undo_during_the_fit(run):
    """Undo makes Blender's references void: the session goes on, and the result comes into the same scene."""
    bpy.ops.ed.undo_push(message="before")
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.ed.undo_push(message="cube")
    job = started(run, [*FITTED, []])
    following._tick()
    bpy.ops.ed.undo()
    assert "Cube" not in bpy.data.objects, "nothing was undone"
    to_the_end()
    assert job.session.error is None and job.result_name in bpy.context.scene.objects


def test_listeners_hear_every_tick(run):
    """A live preview is told of each tick, the last one included."""
    heard: list[State] = []
    listener = lambda job: heard.append(job.session.state)  # noqa: E731
    following.listeners.append(listener)
    try:
        started(run, [*FITTED, []])
        to_the_end()
    finally:
        following.listeners.remove(listener)
    assert heard[0] is State.FITTING and heard[-1] is State.FINISHED


def test_result_waits_for_the_end_of_a_render(run, monkeypatch):
    """A renderer reads the scene meanwhile: the result comes after it."""
    answers = iter([True, True, False])
    monkeypatch.setattr(following, "is_rendering", lambda: next(answers))
    job = started(run, [*FITTED, []])
    waits = []
    while (wait := following._tick()) is not None:
        waits.append(wait)
    assert waits[-2:] == [following._RENDER_S] * 2 and job.result_name in bpy.context.scene.objects


QUIT = """
import sys
import bpy
from addon.runs import following
from addon import registration
from addon.engine.engine_process import EngineProcess
from addon.runs.session import Session
from splat_engine.formats.run import RunDirectory
registration.register()
run = RunDirectory.create(sys.argv[2])
command = [sys.executable, sys.argv[1], "good", "--out", str(run.root)]
session = Session(run, lambda: EngineProcess(command, run))
following.begin(following.job_of(session, bpy.context.scene))
following.follow()
while session.report.step < 5:
    session.poll(20)
"""


def test_end_of_blender_ends_the_session(tmp_path):
    """Blender is left in the middle of a fit: the engine is closed with a checkpoint, and Blender does end."""
    command = [sys.executable, "-c", QUIT, str(FAKE), str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == b"saved"


def test_failing_listener_does_not_end_the_fit(run):
    """A bug in the preview is told as a warning and costs no fit."""
    calls: list[object] = []

    def listener(job: running.Running) -> None:
        calls.append(job)
        raise ZeroDivisionError("no pixels")

    following.listeners.append(listener)
    job = started(run, [*FITTED, []])
    to_the_end()
    assert job.session.state is State.FINISHED and len(calls) == 1 and listener not in following.listeners
    assert any("no pixels" in warning for warning in job.session.report.warnings)


def test_failure_of_ours_ends_the_session(run, monkeypatch):
    """A bug in the import leaves no session running, and no timer."""
    shown: list[BaseException] = []
    monkeypatch.setattr(following, "_show_failure", shown.append)
    monkeypatch.setattr(following, "bring_home", lambda job: 1 / 0)
    started(run, [*FITTED, []])
    to_the_end()
    assert isinstance(shown[0], ZeroDivisionError) and not running.is_busy()


def test_error_of_the_first_step_is_raised(run):
    """``begin`` tells at once what fails at once."""
    session = Session(run, None, failing())
    with pytest.raises(UserError, match="No space"):
        following.begin(following.job_of(session, bpy.context.scene))


def failing() -> Iterator[tuple[int, int]]:
    raise UserError("No space.", "Make some.")
    yield 1, 2
