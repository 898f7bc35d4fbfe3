"""What goes wrong around a fit with the real engine: what a person is told, and that they can go on.

The views are a handful of small ones, rendered once; each test fits to them for as long as it needs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import registration
from addon.engine import engine_process
from addon.engine.engine_process import EngineProcess
from addon.runs import background, earlier_runs, workflow
from addon.runs.earlier_runs import RunState
from addon.runs.run_follower import RunFollower
from addon.runs.session import Session, State
from addon.scene import results
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import FitSettings, RunSettings, StartSettings
from tests.addon.capture_scenes import cube, settings

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals and mounts"),
    pytest.mark.skipif(engine_process.checkout() is None, reason="the engine's Python is the checkout's"),
]
FOLDER = "Größe 2"
"""As artists name theirs: a blank, and letters beyond ASCII."""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of a cube, in such a folder."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    cube()
    root = tmp_path_factory.mktemp("faults") / FOLDER / "capture"
    asked = workflow.FitRequest(bpy.context.scene, root, root, capture=settings(views=8, points=500))
    session = workflow.capture_session(asked)
    session.start()
    while session.poll():
        pass
    assert session.state is State.FINISHED, session.error
    return root


@pytest.fixture
def engines() -> Iterator[list[EngineProcess]]:
    """Engines that a test has started; none outlives it."""
    started: list[EngineProcess] = []
    yield started
    for engine in started:
        engine.kill()


def fit(
    views: Path, run: RunDirectory, engines: list[EngineProcess], *, resume: bool = False, **values: Any
) -> Session:
    """Returns a started session with the real engine, that would fit for very long."""
    fit_settings = FitSettings(**{"steps": 100000, "max_splats": 600, "threads": 1, "sh_degree": 0, **values})
    asked = RunSettings(fit=fit_settings, start=StartSettings(start_splats=300))
    python = engine_process.find_python()
    command = engine_process.train_command(python, views, run, None if resume else asked, resume=resume)

    def start() -> EngineProcess:
        engines.append(EngineProcess(command, run))
        return engines[-1]

    session = Session(run, start)
    session.start()
    return session


def until(session: Session, condition: Callable[[], bool], wait_s: float = 60) -> None:
    while not (has_come := condition()) and session.poll(wait_s):
        pass
    assert has_come or condition(), session.error  # what has come may have gone again


def to_the_end(session: Session) -> None:
    while session.poll(60):
        pass


def kill(session: Session, engines: list[EngineProcess]) -> str:
    """Kills the engine as the system does when memory runs out; returns what the session tells."""
    os.kill(engines[-1].pid, signal.SIGKILL)
    to_the_end(session)
    assert session.state is State.FAILED and session.error is not None
    assert "The splat engine was killed (SIGKILL" in session.error.headline
    assert str(session.run.log) in session.error.hint
    return session.error.headline


def test_killed_while_it_loads(views, tmp_path, engines):
    """Before the first step: told, nothing to resume from, and the same fit can be started anew."""
    run = RunDirectory.create(tmp_path / FOLDER / "run")
    session = fit(views, run, engines)
    session.poll()
    kill(session, engines)
    found = earlier_runs.read_run(run.root)
    assert found is None or found.state is RunState.BROKEN
    again = fit(views, run, engines, steps=20)
    to_the_end(again)
    assert again.state is State.FINISHED, again.error


def test_killed_in_the_middle(views, tmp_path, engines):
    """The checkpoint of some steps before is there: the run is found as interrupted, and goes on to a result."""
    run = RunDirectory.create(tmp_path / FOLDER / "run")
    session = fit(views, run, engines, checkpoint_interval=10)
    until(session, lambda: session.report.step > 30)
    kill(session, engines)
    found = earlier_runs.read_run(run.root)
    assert found is not None and found.state is RunState.INTERRUPTED and found.capture == views
    resumed = workflow.resume_session(run, views)
    resumed.start()
    until(resumed, lambda: resumed.report.step > 0)
    assert resumed.report.step >= 10
    resumed.stop()
    to_the_end(resumed)
    assert resumed.state is State.FINISHED and resumed.report.test_psnr_db is not None
    assert workflow.import_run(bpy.context.scene, run).count > 0


def test_resume_button_brings_the_splats(views, tmp_path, engines):
    """After a kill the button goes on to the end of the fit as it was meant, and the splats stand in the scene."""
    run = RunDirectory.create(tmp_path / FOLDER / "run")
    session = fit(views, run, engines, checkpoint_interval=10, steps=300)
    until(session, lambda: session.report.step > 20)
    kill(session, engines)
    registration.register()
    try:
        assert bpy.ops.splatfit.resume_run(directory=str(run.root)) == {"FINISHED"}
        (made,) = results.made_by(bpy.context.scene, run.root)
        assert len(made.data.points) > 0
    finally:
        registration.unregister()
    found = earlier_runs.read_run(run.root)
    assert found is not None and (found.state, found.step) == (RunState.FINISHED, 300)


def test_killed_while_it_writes(views, tmp_path, engines):
    """A checkpoint that was being written does not cost the one before; what is left of it is removed with the run."""
    run = RunDirectory.create(tmp_path / FOLDER / "run")
    session = fit(views, run, engines, checkpoint_interval=1)
    until(session, run.checkpoint.is_file)
    until(session, lambda: any(run.root.glob(".checkpoint.pt.*.part")), wait_s=0)
    kill(session, engines)
    resumed = fit(views, run, engines, resume=True)
    until(resumed, lambda: resumed.report.steps > 0)
    assert resumed.report.step >= 1
    resumed.discard()
    assert earlier_runs.remove(run.root) == [] and not run.root.exists()


def test_two_blenders_on_one_run(views, tmp_path, engines):
    """The second is refused in words, before views are rendered and once more by the engine itself; the first goes on."""
    run = RunDirectory.create(tmp_path / "run")
    first = fit(views, run, engines)
    until(first, lambda: first.report.step > 0)
    asked = workflow.FitRequest(bpy.context.scene, views, run.root)
    with pytest.raises(UserError, match=f"another Splatfit \\(process {engines[0].pid} on "):
        workflow.fit_session(asked)
    second = fit(views, run, engines)
    to_the_end(second)
    assert second.state is State.FAILED and second.error is not None
    assert "is being written by another Splatfit" in second.error.headline
    found = earlier_runs.read_run(run.root)
    assert found is not None and found.state is RunState.RUNNING
    step = first.report.step
    until(first, lambda: first.report.step > step)
    first.discard()


def test_watched_from_another_blender(views, tmp_path, engines):
    """A second Blender sees the figures of the first one's fit, and gets the result when that one stops it."""
    run = RunDirectory.create(tmp_path / "run")
    first = fit(views, run, engines)
    until(first, lambda: first.report.step > 0)
    second = Session(run, lambda: RunFollower(run))
    second.start()
    until(second, lambda: second.report.step > first.report.step, wait_s=5)
    first.stop()
    to_the_end(first)
    to_the_end(second)
    assert first.state is second.state is State.FINISHED, second.error
    assert second.report.test_psnr_db == first.report.test_psnr_db
    assert workflow.import_run(bpy.context.scene, second.run).count > 0


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk in memory, with options; skips where that is not allowed."""
    places: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / "disk"
        place.mkdir()
        if shutil.which("mount") is None or os.geteuid() != 0:
            pytest.skip("only root can mount a small disk")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True
        )
        if done.returncode != 0:
            pytest.skip(f"a small disk cannot be mounted here: {done.stderr.decode().strip()}")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_disk_is_full_for_the_fit(views, mounted, engines):
    """The checkpoint does not fit: the fit fails in words that say what to do, and leaves no half file."""
    run = RunDirectory.create(mounted("size=64k") / "run")
    session = fit(views, run, engines, checkpoint_interval=5)
    to_the_end(session)
    assert session.state is State.FAILED and session.error is not None
    assert "checkpoint.pt" in session.error.headline and "disk is full" in session.error.hint
    assert not list(run.root.glob("*.part")) and not list(run.root.glob(".*.part"))


def test_disk_is_full_for_the_copy(mounted):
    """The copy for the background does not fit: told at once, and nothing is left of it."""
    cube()
    out = mounted("size=16k") / "capture"
    with pytest.raises(UserError, match=r"Cannot write .*source\.blend") as caught:
        background.save_copy(background.copy_path(out))
    assert caught.value.hint and list(out.iterdir()) == []


def test_folder_is_read_only(views, mounted, engines):
    """Neither run nor capture can be made there: each says so and what to do."""
    place = mounted("size=64k,ro")
    with pytest.raises(UserError, match="Cannot write") as caught:
        RunDirectory.create(place / "run")
    assert "read-only" in caught.value.hint
    asked = workflow.FitRequest(bpy.context.scene, place / "capture", place / "run", in_place=False)
    session = workflow.capture_session(asked)
    session.start()
    to_the_end(session)
    assert session.state is State.FAILED and session.error is not None
    assert "Cannot write" in session.error.headline and "read-only" in session.error.hint
