"""addon.display.preview: the run's object is renewed from snapshots while a fit runs, whatever a person does meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon import registration
from addon.display import preview
from addon.runs import following, workflow
from addon.runs.session import Session, State
from addon.scene import ellipsoids, point_cloud, results, splat_object
from splat_engine.formats import events
from splat_engine.formats.point_ply import Points, write_point_ply
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.clouds import cloud


class Engine:
    """Answers the command for a snapshot at the next poll, with one splat more each time."""

    def __init__(self, run: RunDirectory) -> None:
        self.run, self.step, self.seconds = run, 0, 0.0
        self.asked = 0
        self.waiting: list[events.Event] = []

    def is_running(self) -> bool:
        return True

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        found, self.waiting = self.waiting, []
        return found

    def send(self, command: events.Command) -> bool:
        if isinstance(command, events.Snapshot):
            self.asked += 1
            write_splat_ply(self.run.snapshot, cloud(100 + self.asked, degree=1, seed=self.asked))
            self.waiting.append(events.FileWritten(kind="snapshot", seconds=self.seconds))
        return True

    def error(self) -> None:
        return None

    def close(self) -> None:
        pass


class Fit:
    """A fit in the current file, and the clock that its preview looks at."""

    def __init__(self, root: Path) -> None:
        self.run = RunDirectory.create(root / "fits" / "first")
        self.engine = Engine(self.run)
        self.session = Session(self.run, lambda: self.engine)
        self.session.start()
        self.session.poll()
        self.now_s = 1000.0
        self.job = following.job_of(self.session, bpy.context.scene)
        self.live = preview.LivePreview(self.job, clock=lambda: self.now_s)

    def go_on(self, seconds: float = 10.0, steps: int = 10) -> None:
        """Lets time pass and steps be made, and follows the fit until everything is shown."""
        self.now_s += seconds
        self.engine.step += steps
        self.engine.waiting.append(events.Progress(step=self.engine.step, steps=1000, splats=100))
        for _ in range(3):
            self.session.poll()
            self.live.tick()
            if self.live._reading is not None:
                self.live._reading.wait()
        self.live.tick()

    @property
    def object(self) -> Any:
        """The run's object; None if there is none."""
        return next(iter(results.made_by(bpy.context.scene, self.run.root)), None)

    def shown(self) -> int:
        """Number of splats of the run's object."""
        return len(self.object.data.points)


@pytest.fixture
def fit(tmp_path: Path) -> Iterator[Fit]:
    registration.register()
    yield Fit(tmp_path)
    registration.unregister()


def test_splats_stand_in_the_scene_before_the_first_step(fit):
    """The first snapshot is asked for at once, and shown in an object that says which run it is of."""
    fit.go_on(seconds=0, steps=0)
    assert fit.shown() == 101 and fit.object.name == "Splats fits/first"
    made = splat_object.get_provenance(fit.object)
    assert (made.run, made.splats, made.formation) == (str(fit.run.root.resolve()), 101, "blender")
    assert (ellipsoids.modifier_of(fit.object) is None) == point_cloud.has_native_splats()


def test_capture_is_seen_while_the_engine_starts(fit, tmp_path):
    """Before the engine has said anything its capture's points stand there; the first snapshot takes their place."""
    count = 40
    normals = np.tile(np.float32([0, 0, 1]), (count, 1))
    points = Points(np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32), normals, normals)
    write_point_ply(tmp_path / "capture" / "init.ply", points)
    fit.session.capture_directory = tmp_path / "capture"
    fit.live.tick()
    fit.live._reading.wait()
    fit.live.tick()
    assert fit.shown() == count and fit.engine.asked == 1
    first = fit.object
    fit.go_on()
    assert fit.shown() == 101 and fit.object == first


def test_earlier_result_is_not_replaced_by_points(fit, tmp_path):
    """Who fits anew sees the old splats until there are new ones."""
    write_splat_ply(fit.run.splats, cloud(60))
    workflow.import_run(bpy.context.scene, fit.run, 30.0)
    fit.session.capture_directory = tmp_path / "capture"
    fit.live.tick()
    assert fit.live._reading is None and fit.shown() == 60
    fit.go_on()
    assert fit.shown() == 101


def test_same_object_is_renewed_and_becomes_the_result(fit):
    """Every round refills one object, and the import of the result does too: nothing piles up."""
    fit.go_on()
    fit.go_on()
    expected = splat_object.encoding.attributes_of(cloud(102, degree=1, seed=2))
    found = point_cloud.read(fit.object.data, "")
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    write_splat_ply(fit.run.splats, cloud(60))
    added = workflow.import_run(bpy.context.scene, fit.run, 30.0)
    assert added.object == fit.object and fit.shown() == 60
    assert len(bpy.data.objects) == len(bpy.data.pointclouds) == 1 and not bpy.data.meshes


def test_rounds_are_spaced(fit):
    """No snapshot is asked for before two seconds have passed, nor while the splats are as they were."""
    fit.go_on()
    fit.go_on(seconds=1.9)
    assert fit.engine.asked == 1
    fit.go_on(seconds=0.2)
    assert fit.engine.asked == 2
    fit.go_on(seconds=100, steps=0)
    assert fit.engine.asked == 2


def test_slow_snapshots_are_rare(fit):
    """A snapshot that holds the fit up for 0.3 s is asked for every 15 s: two percent of the time."""
    fit.engine.seconds = 0.3
    fit.go_on()
    fit.go_on(seconds=14.9)
    assert fit.engine.asked == 1
    fit.go_on(seconds=0.2)
    assert fit.engine.asked == 2


def test_snapshot_that_never_comes_is_asked_for_again(fit):
    """Where the engine could not write (a full disk), the next try is a minute later."""
    fit.go_on()
    fit.engine.send = lambda command: True
    fit.go_on()
    asked_s = fit.now_s
    del fit.engine.send
    fit.go_on(seconds=59)
    assert fit.engine.asked == 1
    fit.go_on(seconds=asked_s + 61 - fit.now_s)
    assert fit.engine.asked == 2


def test_switched_off_nothing_is_asked(fit):
    """Without the live preview the engine is left alone and the scene as it is."""
    bpy.context.scene.splatfit.live_preview = False
    fit.go_on()
    assert fit.engine.asked == 0 and fit.object is None


def test_damaged_snapshot_is_passed_over(fit):
    """A file that cannot be read leaves what is shown as it is; the next one is shown."""
    fit.go_on()
    write = fit.engine.send

    def write_half(command: events.Command) -> bool:
        write(command)
        fit.run.snapshot.write_bytes(fit.run.snapshot.read_bytes()[:500])
        return True

    fit.engine.send = write_half
    fit.go_on()
    assert fit.shown() == 101
    fit.engine.send = write
    fit.go_on()
    assert fit.shown() == 103


def test_moved_renamed_object_is_renewed_where_it_is(fit):
    """Transform, name, materials and collection are the person's; the splats are the run's."""
    fit.go_on()
    object = fit.object
    object.name, object.location = "My statue", (1, 2, 3)
    object.data.materials.append(bpy.data.materials.new("Mine"))
    folder = bpy.data.collections.new("Folder")
    bpy.context.scene.collection.children.link(folder)
    folder.objects.link(object)
    bpy.context.scene.collection.objects.unlink(object)
    fit.go_on()
    assert fit.shown() == 102 and fit.object.name == "My statue" and tuple(fit.object.location) == (1, 2, 3)
    assert [m.name for m in fit.object.data.materials] == ["Mine"] and fit.object.users_collection == (
        folder,
    )


def test_deleted_object_stays_away_until_the_result(fit):
    """Who deletes the preview does not get it back every few seconds; the result comes in the end."""
    fit.go_on()
    bpy.data.objects.remove(fit.object)
    fit.go_on()
    assert fit.object is None and not bpy.data.objects
    write_splat_ply(fit.run.splats, cloud(60))
    workflow.import_run(bpy.context.scene, fit.run, 30.0)
    assert fit.shown() == 60


def test_next_fit_of_the_same_run_is_shown_again(fit, tmp_path):
    """That the preview was deleted in one fit says nothing about the next."""
    fit.go_on()
    bpy.data.objects.remove(fit.object)
    again = Fit(tmp_path)
    again.go_on()
    assert again.object is not None


def test_object_in_edit_mode_is_left_alone(fit):
    """While a person edits the object it is not refilled under them; afterwards it is."""
    fit.go_on()
    bpy.context.view_layer.objects.active = fit.object
    if not bpy.ops.object.mode_set.poll() or "EDIT" not in _modes_of(fit.object):
        pytest.skip("this Blender has no edit mode for point clouds")
    bpy.ops.object.mode_set(mode="EDIT")
    fit.go_on()
    assert fit.shown() == 101
    bpy.ops.object.mode_set(mode="OBJECT")
    fit.go_on()
    assert fit.shown() == 103


def _modes_of(object: Any) -> set[str]:
    """The modes that an object can really enter."""
    try:
        bpy.ops.object.mode_set(mode="EDIT")
    except (RuntimeError, TypeError):
        return {"OBJECT"}
    mode = object.mode
    bpy.ops.object.mode_set(mode="OBJECT")
    return {"OBJECT", mode}


def test_undo_and_redo_break_nothing(fit):
    """An undo to before the preview takes the object away, the next round brings it back; a redo leaves one object."""
    bpy.ops.ed.undo_push(message="before")
    fit.go_on()
    bpy.ops.object.empty_add()
    bpy.ops.ed.undo_push(message="after")
    bpy.ops.ed.undo()
    assert fit.object is None
    fit.go_on()
    assert fit.shown() == 102
    fit.go_on()
    bpy.ops.ed.redo()
    fit.go_on()
    assert len(results.made_by(bpy.context.scene, fit.run.root)) == 1 and fit.shown() == 104


def test_no_step_of_undo_is_made(fit):
    """Updates are no steps of undo: one undo after ten of them takes back what the person did, and that alone."""
    fit.go_on()
    bpy.ops.ed.undo_push(message="first")
    bpy.ops.object.empty_add()
    bpy.ops.ed.undo_push(message="an empty")
    for _ in range(10):
        fit.go_on()
    bpy.ops.ed.undo()
    assert not [o for o in bpy.data.objects if o.type == "EMPTY"] and fit.object is not None


def test_renamed_scene_is_still_the_one(fit):
    """The scene is known by more than its name; another one that takes the name gets nothing."""
    mine = bpy.context.scene
    mine.name, name = "Renamed", mine.name
    other = bpy.data.scenes.new(name)
    fit.go_on()
    assert fit.shown() == 101 and not other.objects


def test_lost_scene_ends_the_preview(fit):
    """Another file, or the scene deleted: nothing is shown anywhere, and nothing fails."""
    fit.go_on()
    bpy.ops.wm.read_factory_settings(use_empty=True)
    fit.go_on()
    assert not bpy.data.objects


def test_result_is_shown_while_it_is_measured(fit):
    """Once splats.ply is there it is shown, and the engine, which takes no commands any more, is not asked."""
    fit.go_on()
    write_splat_ply(fit.run.splats, cloud(77))
    fit.engine.waiting.append(events.FileWritten(kind="splats"))
    fit.go_on()
    assert fit.shown() == 77 and fit.engine.asked == 1


def test_tick_follows_the_session_that_runs(fit):
    """A new session gets a preview of its own; with the session's end the preview ends."""
    job = fit.job
    preview.tick(job)
    first = preview.current()
    preview.tick(job)
    assert first is not None and preview.current() is first and fit.engine.asked == 1
    fit.session.state = State.FINISHED
    preview.tick(job)
    preview.forget()
    assert preview.current() is None
