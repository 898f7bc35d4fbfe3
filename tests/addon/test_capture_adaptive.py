"""A capture takes more views at any time, and an adaptive one asks for them; interruptions leave whole captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon.capture import adaptive
from addon.capture.adaptive import adaptive_steps, shares_of, unsuitable
from addon.capture.bounds import collect_bodies
from addon.capture.capture import CaptureCancelled, CaptureProgress, capture_scene
from addon.capture.render import Stage
from addon.capture.rigs import look_at
from addon.capture.survey import survey
from addon.capture.useful import Rays, useful_cameras
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import PARTIAL_NAME, Capture, read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import CaptureSettings
from tests.addon.capture_scenes import cube, settings


def eye(position: tuple[float, float, float], target: tuple[float, float, float] = (0, 0, 0)) -> Camera:
    return Camera(32, 32, 40.0, 40.0, 16, 16, look_at(np.array(position, float), np.array(target, float)))


ADDED = [eye((0, -7, 1)), eye((5, 5, 2))]
ROUNDS = settings(views=14, hold_out=7, adaptive=True)
"""Eight even training views, four that are asked for, and two held out."""


class Advice:
    """Chooses the first candidates; tells what it was asked."""

    def __init__(self, *, fails: bool = False, answers: bool = True, is_strange: bool = False) -> None:
        self.asked: list[tuple[Capture, int, Capture]] = []
        self.fails, self.answers, self.is_strange, self.is_closed = fails, answers, is_strange, False
        self._looks = 0

    def ask(self, capture: Path, candidates: Path, count: int) -> None:
        self.asked.append((read_capture(candidates), count, read_capture(capture)))

    def answer(self) -> list[str] | None:
        self._looks += 1
        if self._looks < 2 or not self.answers:
            return None
        if self.fails:
            raise UserError("The next views could not be chosen.", "Try again.")
        candidates, count, _ = self.asked[-1]
        return ["nowhere"] if self.is_strange else [view.camera.name for view in candidates.views[:count]]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as views: quick."""
    monkeypatch.setattr(adaptive, "CANDIDATES_A_VIEW", 1)
    monkeypatch.setattr(adaptive, "LEAST_CANDIDATES", 1)


def run(
    root: Path, advice: Advice, asked: CaptureSettings = ROUNDS, stop_after: int = 1000
) -> tuple[Capture | None, list[CaptureProgress]]:
    """Captures; closes the steps when so many views are rendered."""
    steps, states = adaptive_steps(bpy.context, asked, root, advice), []
    try:
        while True:
            states.append(next(steps))
            if sum(state.message.startswith("Rendering") for state in states) > stop_after:
                steps.close()
                return None, states
    except StopIteration as ending:
        return ending.value, states


def rendered(states: list[CaptureProgress]) -> int:
    return sum(state.message.startswith("Rendering") for state in states)


def test_a_finished_capture_takes_more_views(tmp_path: Path) -> None:
    """Only the new views are rendered; the old files, and which are held out, stay; the start points are made anew."""
    cube()
    before = capture_scene(bpy.context, settings(views=4, hold_out=4), tmp_path)
    bytes_before = [(tmp_path / str(view.exr)).read_bytes() for view in before.views]
    points_before = (tmp_path / "init.ply").read_bytes()
    states: list[CaptureProgress] = []
    after = capture_scene(
        bpy.context, settings(views=4, hold_out=4), tmp_path, extra_cameras=ADDED, progress=states.append
    )
    assert rendered(states) == 2
    assert after.views[:4] == before.views and [view.split for view in after.views[4:]] == ["train", "train"]
    assert [(tmp_path / str(view.exr)).read_bytes() for view in before.views] == bytes_before
    assert (tmp_path / "init.ply").read_bytes() != points_before
    listed = read_capture(tmp_path).views
    assert [(view.exr, view.split) for view in listed] == [(view.exr, view.split) for view in after.views]


def test_adding_views_leaves_the_old_capture_whole_when_it_is_interrupted(tmp_path: Path) -> None:
    """After a cancel half-way the old list stands and can be read; the next try renders what is missing."""
    cube()
    old = capture_scene(bpy.context, settings(), tmp_path)
    states: list[CaptureProgress] = []
    with pytest.raises(CaptureCancelled):
        capture_scene(
            bpy.context, settings(), tmp_path, extra_cameras=ADDED, progress=states.append,
            should_cancel=lambda: rendered(states) > 1,
        )  # fmt: skip
    assert [view.exr for view in read_capture(tmp_path).views] == [view.exr for view in old.views]
    assert len(read_capture(tmp_path / PARTIAL_NAME).views) == 5
    states.clear()
    capture_scene(bpy.context, settings(), tmp_path, extra_cameras=ADDED, progress=states.append)
    assert rendered(states) == 1 and len(read_capture(tmp_path).views) == 6


def test_a_list_that_names_changing_views_does_not_stand(tmp_path: Path) -> None:
    """Other settings render the views anew: interrupted, no list may pass old and new pixels off as one capture."""
    cube()
    capture_scene(bpy.context, settings(), tmp_path)
    states: list[CaptureProgress] = []
    with pytest.raises(CaptureCancelled):
        capture_scene(
            bpy.context, settings(samples=2), tmp_path, progress=states.append,
            should_cancel=lambda: rendered(states) > 1,
        )  # fmt: skip
    assert not (tmp_path / "transforms.json").exists()


def test_both_rounds_share_the_budget() -> None:
    """Their training views and the held-out ones are as many as a fixed rig of the same settings has."""
    for views, hold_out in ((60, 8), (14, 7), (24, 0), (61, 5), (6, 0)):
        even, chosen, held_out = shares_of(CaptureSettings(views=views, hold_out=hold_out))
        assert even + chosen + held_out == views and 1.5 * chosen < even < 2.5 * chosen
        assert held_out == (
            len([n for n in range(views) if n % hold_out == hold_out // 2]) if hold_out else 0
        )


def test_an_adaptive_capture_renders_what_was_asked_for(tmp_path: Path) -> None:
    """It asks once, for its share, with the even views on disk; the held-out views stay; no place is taken twice."""
    cube()
    advice = Advice()
    made, states = run(tmp_path, advice)
    assert made is not None and advice.is_closed
    ((candidates, count, between),) = advice.asked
    assert count == 4 and len(candidates.views) == 14
    assert {(view.camera.width, view.camera.height) for view in candidates.views} == {(16, 16)}
    assert len(between.of_split("train")) == 8 and len(between.of_split("test")) == 2
    assert rendered(states) == len(made.views) == 14 and len(made.of_split("train")) == 12
    cameras = [view.camera for view in made.views]
    assert len({tuple(camera.world_from_camera.ravel()) for camera in cameras}) == 14
    for camera, probe in zip(cameras[10:], candidates.views, strict=False):
        assert (camera.name, camera.width) == (probe.camera.name, 32)
        np.testing.assert_allclose(camera.world_from_camera, probe.camera.world_from_camera, atol=1e-12)
    assert not (tmp_path / "probes").exists()
    listed = read_capture(tmp_path)
    assert listed.of_split("test") == between.of_split("test") and len(listed.views) == 14
    assert states[-1].total == 14 and all(state.done <= state.total for state in states)


def test_an_interrupted_adaptive_capture_goes_on_without_asking_again(tmp_path: Path) -> None:
    """What was asked for is remembered; the first round's list stands meanwhile, and nothing is rendered twice."""
    cube()
    first = Advice()
    made, states = run(tmp_path, first, stop_after=12)
    assert made is None and first.is_closed and len(first.asked) == 1
    assert len(read_capture(tmp_path).views) == 10
    second = Advice()
    made, more = run(tmp_path, second)
    assert made is not None and len(made.views) == 14
    assert not second.asked and rendered(more) == 14 - 12 and rendered(states) == 13


def test_an_adaptive_capture_interrupted_in_its_first_round_goes_on(tmp_path: Path) -> None:
    """Nothing was asked for yet; the views that are there are kept."""
    cube()
    assert run(tmp_path, Advice(), stop_after=3)[0] is None
    advice = Advice()
    made, more = run(tmp_path, advice)
    assert made is not None and len(advice.asked) == 1 and rendered(more) == 14 - 3


def test_a_changed_scene_is_asked_about_anew(tmp_path: Path) -> None:
    """What was asked for in another scene is neither used nor kept."""
    cube()
    run(tmp_path, Advice())
    before = set((tmp_path / "views").glob("asked-*.json"))
    bpy.data.objects["Cube"].location.x = 1
    advice = Advice()
    run(tmp_path, advice)
    after = set((tmp_path / "views").glob("asked-*.json"))
    assert len(advice.asked) == 1 and len(before) == len(after) == 1 and before != after


def test_damaged_memory_is_asked_anew(tmp_path: Path) -> None:
    """A file of remembered cameras that was cut off is as good as none."""
    cube()
    run(tmp_path, Advice(), stop_after=12)
    (path,) = (tmp_path / "views").glob("asked-*.json")
    path.write_text(path.read_text()[:100])
    advice = Advice()
    assert run(tmp_path, advice)[0] is not None and len(advice.asked) == 1


def test_a_failing_engine_leaves_what_was_rendered(tmp_path: Path) -> None:
    """The error comes through, the scene is put back, and the first round is a whole capture."""
    cube()
    before = bpy.context.scene.render.resolution_x
    advice = Advice(fails=True)
    with pytest.raises(UserError, match="could not be chosen"):
        run(tmp_path, advice)
    assert advice.is_closed and len(read_capture(tmp_path).views) == 10
    assert bpy.context.scene.render.resolution_x == before


def test_cancelling_while_the_engine_chooses_ends_it(tmp_path: Path) -> None:
    """Closed between two looks for the answer: the adviser is closed, and the first round is whole."""
    cube()
    advice = Advice(answers=False)
    steps = adaptive_steps(bpy.context, ROUNDS, tmp_path, advice)
    while next(steps).message != "Choosing the next views":
        pass
    steps.close()
    assert advice.is_closed and len(read_capture(tmp_path).views) == 10


def test_probes_of_an_interrupted_look_are_kept(tmp_path: Path) -> None:
    """Stopped among the probes: the next try renders neither views nor the probes that are there again."""
    cube()
    steps = adaptive_steps(bpy.context, ROUNDS, tmp_path, Advice())
    while "Looking from sphere 05" not in next(steps).message:
        pass
    steps.close()
    assert len(read_capture(tmp_path).views) == 10
    advice = Advice()
    made, states = run(tmp_path, advice)
    assert made is not None and rendered(states) == 4
    assert sum("Looking from" in state.message for state in states) == 14 - 4


def test_a_place_that_was_not_offered_is_refused(tmp_path: Path) -> None:
    """An engine that answers with another camera is not believed."""
    cube()
    with pytest.raises(UserError, match="nowhere"):
        run(tmp_path, Advice(is_strange=True))


def test_what_cannot_be_adaptive_says_why() -> None:
    """The scene's own cameras, a capture without rendering, and very few views are captured as ever."""
    assert "own cameras" in unsuitable(CaptureSettings(rig="scene"))
    assert "rendering" in unsuitable(CaptureSettings(render=False))
    assert "evenly" in unsuitable(CaptureSettings(views=5, hold_out=0))
    assert unsuitable(CaptureSettings()) == "" and adaptive.LEAST_VIEWS == 6


def useful(cameras: list[Camera]) -> list[Camera]:
    scene, layer = bpy.context.scene, bpy.context.view_layer
    with Stage(scene, layer) as stage:
        found: list[Camera] = survey(
            scene,
            layer,
            lambda graph: useful_cameras(Rays(graph, collect_bodies(graph).objects), cameras),
        )
        assert stage.scene == scene
    return found


def test_places_inside_geometry_or_with_nothing_in_view_are_dropped() -> None:
    """One camera looks at a cube, one is in another cube, one looks away: the first is left."""
    cube("Seen")
    cube("Around", (20, 0, 0), size=4)
    outside, inside, away = eye((0, -7, 1)), eye((20, 0, 0.1), (0, 0, 0)), eye((0, -7, 1), (0, -20, 0))
    assert useful([outside, inside, away]) == [outside]


def test_what_is_hidden_from_renders_stops_no_ray() -> None:
    """A box around the camera that does not render takes nothing from its view; a visible one does."""
    cube("Seen")
    around = cube("Around", (0, -7, 1), size=1)
    through, other = eye((0, -7, 1)), eye((7, 0, 1))
    assert useful([through, other, eye((-7, 0, 1))])[0] == other
    around.hide_render = True
    assert useful([through, other])[0] == through


def test_flipped_normals_and_rooms_keep_their_cameras() -> None:
    """Where all cameras see backs, backs say nothing; where nothing is met by a ray, all places are kept."""
    flipped = cube()
    flipped.data.flip_normals()
    cameras = [eye((0, -7, 1)), eye((7, 0, 1))]
    assert useful(cameras) == cameras
    bpy.data.objects.remove(flipped)
    assert useful(cameras) == cameras


def test_instances_are_met_by_rays() -> None:
    """What exists only as an instance counts as seen."""
    source: Any = cube("Source")
    group = bpy.data.collections.new("Group")
    group.objects.link(source)
    bpy.context.scene.collection.objects.unlink(source)
    instance = bpy.data.objects.new("Instance", None)
    instance.instance_type, instance.instance_collection = "COLLECTION", group
    instance.location = (30, 0, 0)
    bpy.context.scene.collection.objects.link(instance)
    there, here = eye((30, -7, 1), (30, 0, 0)), eye((0, -7, 1))
    assert useful([there, here]) == [there]
