"""addon.runs.earlier_runs and the operators for them: what lies beside a file is found, told, and can be gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import registration
from addon.operators import runs as run_operators
from addon.panels import runs as panel
from addon.panels.main import SPLATFIT_PT_main
from addon.runs import earlier_runs, following, running, workflow
from addon.runs.earlier_runs import RunState, find_runs, read_run
from addon.runs.run_follower import RunFollower
from addon.runs.session import Session, State
from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.locks import Lock
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.clouds import cloud
from tests.addon.fake_layout import draw

STARTED = events.Started(steps=100, splats=10, capture="/captures/1")


def make_run(root: Path, *told: events.Event, checkpoint: bool = False, result: bool = False) -> RunDirectory:
    """Writes what an engine leaves that has told these events."""
    run = RunDirectory.create(root)
    run.settings.write_text("{}")
    run.events.write_text("".join(events.encode(event) for event in told))
    if checkpoint:
        run.checkpoint.write_bytes(b"saved")
    if result:
        write_splat_ply(run.splats, cloud(9))
        run.write_metrics({"engine.psnr": 31.5, "engine.split": "test"})
    return run


def progress(step: int) -> events.Progress:
    return events.Progress(step=step, steps=100, loss=0.1, psnr=20.0, splats=50)


FINISHED = events.Finished(step=100, splats=60)


def test_finished_run(tmp_path):
    """Result, figures and the capture are told."""
    run = make_run(tmp_path / "run", STARTED, progress(50), FINISHED, checkpoint=True, result=True)
    found = read_run(run.root)
    assert found is not None and found.state is RunState.FINISHED
    assert (found.step, found.steps, found.splats, found.psnr_db) == (100, 100, 60, 31.5)
    assert found.capture == Path("/captures/1")


@pytest.mark.parametrize(
    "told, checkpoint, state",
    [
        ((STARTED, progress(40)), True, RunState.INTERRUPTED),  # killed
        ((STARTED, progress(40)), False, RunState.BROKEN),
        ((STARTED, progress(40), events.Finished(step=40, reason="parent gone")), True, RunState.INTERRUPTED),
        ((STARTED, progress(40), events.Failed(headline="No.")), True, RunState.INTERRUPTED),
        ((), False, RunState.BROKEN),
    ],
)
def test_run_without_a_result(tmp_path, told, checkpoint, state):
    """With a checkpoint it can be resumed, without one it is of no use."""
    found = read_run(make_run(tmp_path / "run", *told, checkpoint=checkpoint).root)
    assert found is not None and found.state is state
    assert found.step == (40 if told else 0)


def test_a_run_that_was_started_again(tmp_path):
    """What counts is the last fit in the folder: an old result does not make an interrupted one finished."""
    run = make_run(
        tmp_path / "run",
        STARTED,
        FINISHED,
        events.Started(steps=500),
        progress(7),
        checkpoint=True,
        result=True,
    )
    found = read_run(run.root)
    assert found is not None and (found.state, found.step, found.steps) == (RunState.INTERRUPTED, 7, 500)


def test_long_log_is_read_at_its_ends(tmp_path):
    """Thousands of events, and a last line that was cut off."""
    run = make_run(tmp_path / "run", STARTED, *(progress(step) for step in range(5000)), checkpoint=True)
    with run.events.open("a") as stream:
        stream.write('{"event": "progr')
    found = read_run(run.root)
    assert found is not None and (found.step, found.steps) == (4999, 100)
    assert len(earlier_runs.last_events(run)) < 100


def test_running_elsewhere(tmp_path):
    """A held lock is a run that lives, and who runs it is told."""
    run = make_run(tmp_path / "run", STARTED, progress(40), checkpoint=True)
    with Lock(run.lock, "The run"):
        found = read_run(run.root)
        assert found is not None and found.state is RunState.RUNNING and "process" in found.holder
        with pytest.raises(UserError, match="is being written"):
            earlier_runs.remove(run.root)
        with pytest.raises(UserError, match="another Splatfit"):
            workflow.refuse_busy(run)
    workflow.refuse_busy(run)


def test_search(tmp_path):
    """Runs are found in the folder and one below, the newest first; other folders and files are no runs."""
    make_run(tmp_path / "a", STARTED)
    make_run(tmp_path / "b", STARTED)
    (tmp_path / "capture").mkdir()
    (tmp_path / "file").touch()
    import os

    os.utime(tmp_path / "a" / "events.jsonl", (10, 10))
    found = find_runs([tmp_path, tmp_path / "a", tmp_path / "gone"])
    assert [run.directory.name for run in found] == ["b", "a"]


def test_removal_takes_the_runs_own_files_alone(tmp_path):
    """A folder that a person has put something into stays, with that in it."""
    run = make_run(tmp_path / "run", STARTED, FINISHED, checkpoint=True, result=True)
    (run.root / ".splats.ply.x.part").touch()
    assert earlier_runs.remove(run.root) == [] and not run.root.exists()
    run = make_run(tmp_path / "run", STARTED)
    (run.root / "notes.txt").write_text("mine")
    (note,) = earlier_runs.remove(run.root)
    assert "notes.txt" in note and [path.name for path in run.root.iterdir()] == ["notes.txt"]


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Path]:
    """The folder for runs of a saved file, with the add-on registered."""
    registration.register()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    panel._seen = (-10.0, (), [])
    yield tmp_path / "scene.splatfit"
    registration.unregister()


def test_panels_offer_what_can_be_done(beside):
    """Each run has the button that fits it; a result that is in the scene is not offered again."""
    make_run(beside / "done", STARTED, FINISHED, result=True)
    make_run(beside / "cut", STARTED, progress(40), checkpoint=True)
    alive = make_run(beside / "alive", STARTED, progress(7))
    with Lock(alive.lock, "The run"):
        main, over = draw(SPLATFIT_PT_main), draw(panel.SPLATFIT_PT_runs)
        assert panel.SPLATFIT_PT_runs.poll(bpy.context)
    offered = [name for name in main.operators() if name.endswith("_run")]
    assert sorted(offered) == ["splatfit.attach_run", "splatfit.forget_run", "splatfit.resume_run"]
    assert main.operators().index("splatfit.resume_run") < main.operators().index("splatfit.fit")
    assert over.operators() == ["splatfit.forget_run", "splatfit.import_run"]
    text = " ".join((*main.texts(), *over.texts()))
    assert "Interrupted at step 40 of 100." in text and "60 splats, 31.5 dB" in text
    assert bpy.ops.splatfit.import_run(directory=str(beside / "done")) == {"FINISHED"}
    assert "splatfit.import_run" not in draw(panel.SPLATFIT_PT_runs).operators()


def test_nothing_is_drawn_where_there_is_nothing(beside):
    """No run, no panel; the one that is under way here is in the main panel as what it is."""

    def drawn() -> tuple[bool, bool]:
        return "Unfinished" in draw(SPLATFIT_PT_main).texts(), panel.SPLATFIT_PT_runs.poll(bpy.context)

    assert drawn() == (False, False)
    run = make_run(beside / "run", STARTED, checkpoint=True)
    panel._seen = (-10.0, (), [])
    assert drawn() == (True, False)
    session = Session(run, None, iter([(1, 2)]))
    following.begin(following.job_of(session, bpy.context.scene))
    assert drawn() == (False, False)


def test_time_in_few_words():
    """The hour of today, the day of another."""
    now = datetime(2026, 11, 30, 18, 0)
    assert panel.when(datetime(2026, 11, 30, 9, 5).timestamp(), now) == "09:05"
    assert panel.when(datetime(2026, 11, 29, 9, 5).timestamp(), now) == "2026-11-29"


def test_disk_is_not_searched_at_every_draw(beside, monkeypatch):
    """A panel may be drawn many times a second."""
    searches: list[Any] = []
    monkeypatch.setattr(earlier_runs, "find_runs", lambda folders: searches.append(folders) or [])
    for _ in range(20):
        panel.SPLATFIT_PT_runs.poll(bpy.context)
    assert len(searches) == 1


def test_forget_run(beside):
    """The button removes the run; what is no run is refused."""
    run = make_run(beside / "run", STARTED)
    assert bpy.ops.splatfit.forget_run(directory=str(run.root)) == {"FINISHED"} and not run.root.exists()
    with pytest.raises(RuntimeError, match="There is no run"):
        bpy.ops.splatfit.forget_run(directory=str(beside))


@pytest.mark.parametrize(
    "operator, told, message",
    [
        ("import_run", (STARTED,), "has no result yet"),
        ("resume_run", (STARTED,), "has no checkpoint"),
        ("attach_run", (STARTED,), "is not running"),
    ],
)
def test_what_cannot_be_done_is_told(beside, operator, told, message):
    """Each in words, and nothing is started."""
    run = make_run(beside / "run", *told)
    with pytest.raises(RuntimeError, match=message):
        getattr(bpy.ops.splatfit, operator)(directory=str(run.root))
    assert not running.is_busy()


def test_resume_wants_its_views(beside):
    """The views that the run names are gone: told before anything is started."""
    run = make_run(beside / "run", STARTED, checkpoint=True)
    with pytest.raises(RuntimeError, match="not at /captures/1 any more"):
        bpy.ops.splatfit.resume_run(directory=str(run.root))


def test_resume_goes_on_with_the_runs_own_settings(tmp_path, monkeypatch):
    """The engine is started with the checkpoint, the run's own capture, and no setting of the scene's."""
    from addon.engine import engine_process

    commands: list[list[str]] = []
    monkeypatch.setattr(engine_process, "find_python", lambda preference: Path("/py"))
    monkeypatch.setattr(engine_process, "check_python", lambda python: None)
    monkeypatch.setattr(engine_process, "EngineProcess", lambda command, run: commands.append(command))
    session = workflow.resume_session(RunDirectory.create(tmp_path / "run"), tmp_path / "capture")
    session._start_engine()  # type: ignore[misc]
    assert commands[0][3:5] == ["train", str(tmp_path / "capture")] and commands[0][-1] == "--resume"


def test_watching_a_run_to_its_end(tmp_path):
    """A follower tells what another program's engine told before and tells now, and cannot steer it."""
    run = RunDirectory.create(tmp_path / "run")
    run.settings.write_text("{}")
    run.events.write_text("")
    told = [events.encode(event) for event in (STARTED, progress(40), progress(60), FINISHED)]
    lock = Lock(run.lock, "The run")
    run.events.write_text("".join(told[:2]))
    session = Session(run, lambda: RunFollower(run))
    session.start()
    session.poll()
    assert session.poll() and session.report.step == 40 and not session.stop()
    with run.events.open("a") as stream:
        stream.write(told[2] + told[3][:9])
        stream.flush()
        assert session.poll() and session.report.step == 60
        stream.write(told[3][9:])
    session.poll()
    assert session.state is State.FITTING and session.report.step == 100
    lock.release()
    while session.poll():
        pass
    assert session.state is State.FINISHED and session.error is None


def test_watched_run_that_dies_is_told(tmp_path):
    """Its lock falls without an ending: the session fails and says what can be done."""
    run = make_run(tmp_path / "run", STARTED, progress(40))
    lock = Lock(run.lock, "The run")
    session = Session(run, lambda: RunFollower(run))
    session.start()
    session.poll(), session.poll()
    lock.release()
    while session.poll():
        pass
    assert session.state is State.FAILED and session.error is not None
    assert "ended without a result" in session.error.headline and "Resume" in session.error.hint


def test_stop_of_a_watched_run_leaves_it_alone(beside):
    """What another program runs is only no longer watched."""
    run = make_run(beside / "run", STARTED, progress(40))
    with Lock(run.lock, "The run"):
        session = Session(run, lambda: RunFollower(run))
        following.begin(following.job_of(session, bpy.context.scene, is_attached=True))
        following._tick()
        assert draw(SPLATFIT_PT_main).operators() == ["splatfit.stop"]
        assert not bpy.ops.splatfit.pause.poll() and not bpy.ops.splatfit.discard.poll()
        assert bpy.ops.splatfit.stop() == {"FINISHED"}
        assert session.state is State.CANCELLED
        found = read_run(run.root)
        assert found is not None and found.state is RunState.RUNNING


def test_operators_are_named_as_the_panels_say():
    """Other panels draw them by name."""
    names = {item.bl_idname for item in run_operators.CLASSES}
    assert names == {f"splatfit.{verb}_run" for verb in ("import", "resume", "attach", "forget")}
