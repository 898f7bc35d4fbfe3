"""fit.objects: which object of the scene each splat shows, by the votes of the views' passes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from splat_engine import cli
from splat_engine.fit.exr import write_layers
from splat_engine.fit.objects import (
    Ballots,
    has_object_indices,
    joined_to_neighbours,
    object_indices,
    view_votes,
)
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, CaptureInfo, View, write_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats
from splat_engine.info import describe
from tests.engine.tiny_capture import look_at, write_tiny_capture

SIZE = 48
NAMES = ("Left", "Right", "Never Seen")
CENTRES = np.array([[-1.0, 0, 0], [1.0, 0, 0]])
"""Of two spheres of radius 0.8."""


def two_spheres(camera: Camera) -> dict[str, np.ndarray]:
    """Returns the passes of a red and a green sphere, exact, as Blender writes them."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    pixels = np.stack((columns.ravel(), rows.ravel()), axis=1)
    far = camera.unproject(pixels, np.ones(SIZE * SIZE))
    rays = (far - camera.position) / np.linalg.norm(far - camera.position, axis=1, keepdims=True)
    depth, index = np.full(len(rays), 1e10), np.zeros(len(rays))
    for number, centre in enumerate(CENTRES):
        to_centre = centre - camera.position
        along = rays @ to_centre
        inside = 0.8**2 - (to_centre @ to_centre - along**2)
        distance = along - np.sqrt(np.maximum(inside, 0))
        planar = distance * (rays @ camera.forward)
        hit = (inside > 0) & (planar < depth)
        depth[hit], index[hit] = planar[hit], number + 1
    color = np.stack((index == 1, index == 2, np.zeros(len(index)), index > 0), axis=1)
    layers = {"Combined": color, "Depth": depth, "Object Index": index}
    return {name: pixels.reshape(SIZE, SIZE, -1) for name, pixels in layers.items()}


def write_spheres(root: Path, views: int = 6) -> Capture:
    """Returns a capture of the spheres from a ring of cameras."""
    made = []
    for number in range(views):
        angle = 2 * np.pi * number / views
        pose = look_at(np.array([6 * np.cos(angle), 6 * np.sin(angle), 2.0]))
        camera = Camera(SIZE, SIZE, SIZE, SIZE, SIZE / 2, SIZE / 2, pose)
        write_layers(root / f"{number}.exr", two_spheres(camera))
        made.append(View(camera, exr=f"{number}.exr"))
    info = CaptureInfo(passes=("depth", "object_index"), object_names=NAMES)
    return Capture(root, tuple(made), info)


def sphere_splats(count: int = 300, sigma: float = 0.02) -> tuple[Splats, np.ndarray]:
    """Returns splats on the spheres' surfaces, and the object each of them is on."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    which = np.arange(count) % 2
    splats = Splats(
        means=CENTRES[which] + 0.8 * directions,
        log_scales=np.full((count, 3), np.log(sigma)),
        quats_wxyz=np.tile([1.0, 0, 0, 0], (count, 1)),
        opacity_logits=np.zeros(count),
        sh=np.zeros((count, 1, 3)),
    )
    return splats, which + 1


def test_splats_know_their_sphere(tmp_path: Path) -> None:
    """None is wrong; of those on the upper side, at 48 px, some at the outline miss the sphere by a pixel."""
    splats, expected = sphere_splats()
    found = object_indices(splats, write_spheres(tmp_path))
    assert found.dtype == np.int32 and (found[found > 0] == expected[found > 0]).all()
    seen = splats.means[:, 2] > -0.3
    assert seen.sum() > 150 and (found[seen] > 0).mean() > 0.95


def test_floaters_and_insides_stay_unknown(tmp_path: Path) -> None:
    """In front of a sphere, in its middle, and outside every picture: no view agrees on the depth."""
    splats, _ = sphere_splats(3)
    splats.means[:] = [[1.0, 0, 1.4], [1.0, 0, 0], [0, 0, 400.0]]
    assert object_indices(splats, write_spheres(tmp_path)).tolist() == [0, 0, 0]


def test_no_splats(tmp_path: Path) -> None:
    """N = 0 gives none."""
    assert object_indices(Splats.empty(), write_spheres(tmp_path, 1)).shape == (0,)


def test_splats_that_are_not_finite_are_unknown(tmp_path: Path) -> None:
    """An infinite size too, which would reach every surface; the others are as without them."""
    capture, (splats, _) = write_spheres(tmp_path), sphere_splats()
    before = object_indices(splats, capture)
    splats.means[:2] = [[np.nan, 0, 0], [np.inf, 0, 0]]
    splats.log_scales[2] = 1e9
    after = object_indices(splats, capture)
    assert before[:3].any() and not after[:3].any() and (after[3:] == before[3:]).all()


def test_threads_change_nothing(tmp_path: Path) -> None:
    """The votes are added up in the order of the views."""
    capture, (splats, _) = write_spheres(tmp_path), sphere_splats()
    alone = object_indices(splats, capture)
    assert alone.any() and (object_indices(splats, capture, workers=3) == alone).all()


def test_held_out_views_have_no_say(tmp_path: Path) -> None:
    """They never steer anything; a damaged one is not even read."""
    capture = write_spheres(tmp_path)
    splats, _ = sphere_splats()
    before = object_indices(splats, capture)
    held_out = replace(capture.views[0], split="test", exr="gone.exr")
    assert (object_indices(splats, replace(capture, views=(*capture.views, held_out))) == before).all()


def test_a_missing_view_is_an_error_in_words(tmp_path: Path) -> None:
    """It names the file."""
    capture = write_spheres(tmp_path, 1)
    (tmp_path / "0.exr").unlink()
    with pytest.raises(UserError, match=r"0\.exr"):
        object_indices(sphere_splats()[0], capture)


@pytest.mark.parametrize(
    "changes", [{"passes": ("depth",)}, {"passes": ("object_index",)}, {"object_names": ()}]
)
def test_captures_that_do_not_know(tmp_path: Path, changes: dict[str, tuple[str, ...]]) -> None:
    """Both passes and the names are needed, in each training view."""
    capture = write_spheres(tmp_path, 2)
    assert has_object_indices(capture)
    assert not has_object_indices(replace(capture, info=replace(capture.info, **changes)))  # type: ignore[arg-type]
    plain = replace(capture.views[0], exr=None, image="0.png")
    assert not has_object_indices(replace(capture, views=(plain, *capture.views[1:])))


def test_weight_falls_with_the_distance_from_the_surface() -> None:
    """Half the tolerance off weighs half; beyond it, behind the camera and outside the picture there is no vote."""
    camera = Camera(8, 8, 8, 8, 4, 4, np.eye(4))
    passes = {"depth": np.full((8, 8), 2.0, np.float32), "object_index": np.ones((8, 8), np.float32)}
    means = np.array([[0, 0, 2], [0, 0, 2.1], [0, 0, 1.7], [0, 0, -2], [9, 0, 2]], np.float32)
    tolerances = np.full(5, 0.2 - 0.005 * 2.1, np.float32)
    splats, objects, weights = view_votes(means, tolerances, camera, passes)
    assert splats.tolist() == [0, 1] and objects.tolist() == [1, 1]
    np.testing.assert_allclose(weights, [1, 0.5], atol=1e-5)
    assert len(view_votes(means, tolerances, camera, {"depth": passes["depth"]})[0]) == 0


def test_votes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum decides, not the number; counting in between changes nothing; an object that has no name is no vote."""
    monkeypatch.setattr("splat_engine.fit.objects.BALLOTS_MOST", 2)
    ballots = Ballots(4, 2)
    for objects, weights in (
        ([1, 2, 1], [0.3, 0.2, 0.5]),
        ([1, 2, 2], [0.3, 0.1, 0.5]),
        ([2, 2, 9], [0.7, 0.1, 1]),
    ):
        ballots.add(np.array([0, 1, 2]), np.array(objects, np.int32), np.array(weights))
    assert ballots.winners().tolist() == [2, 2, 1, 0]


def test_unknown_splats_join_the_nearest_known() -> None:
    """If they are large enough to reach it."""
    means = np.array([[0, 0, 0], [5, 0, 0], [0.1, 0, 0], [4.8, 0, 0], [2.5, 0, 0]], np.float32)
    tolerances = np.array([0, 0, 0.2, 0.1, 1], np.float32)
    winners = np.array([1, 2, 0, 0, 0], np.int32)
    assert joined_to_neighbours(winners, means, tolerances).tolist() == [1, 2, 1, 0, 0]
    assert joined_to_neighbours(np.zeros(5, np.int32), means, tolerances).tolist() == [0] * 5


def test_a_fit_tells_the_objects(tmp_path: Path) -> None:
    """Its result has the indices and the capture's names, its figures the seconds; a snapshot is left alone."""
    write_capture(write_spheres(tmp_path / "capture"))
    arguments = ["train", str(tmp_path / "capture"), "--out", str(tmp_path / "run"), "--progress", "none"]
    options = ["--steps", "2", "--start-splats", "200", "--snapshot-interval", "1", "--threads", "1"]
    assert cli.main([*arguments, *options]) == 0
    splats = read_splat_ply(tmp_path / "run" / "splats.ply")[0]
    assert splats.object_indices is not None and splats.object_names == NAMES
    side = np.where(splats.means[:, 0] < 0, 1, 2)
    known = splats.object_indices > 0
    assert known.mean() > 0.8 and (splats.object_indices[known] == side[known]).all()
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["seconds.object_index"] > 0
    assert read_splat_ply(tmp_path / "run" / "snapshot.ply")[0].object_indices is None
    left = int((splats.object_indices == 1).sum())
    assert f"Left {left}" in describe(tmp_path / "run" / "splats.ply")["splats of objects"]


def test_a_pass_that_cannot_be_read_costs_no_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is written without objects, and a warning says why."""

    def broken(*arguments: object) -> None:
        raise UserError("3.exr is damaged.", "")

    monkeypatch.setattr("splat_engine.fit.results.object_indices", broken)
    write_capture(write_spheres(tmp_path / "capture"))
    arguments = ["train", str(tmp_path / "capture"), "--out", str(tmp_path / "run"), "--progress", "none"]
    assert cli.main([*arguments, "--steps", "1", "--start-splats", "50", "--threads", "1"]) == 0
    assert read_splat_ply(tmp_path / "run" / "splats.ply")[0].object_indices is None
    assert "3.exr is damaged." in (tmp_path / "run" / "events.jsonl").read_text()


def test_a_fit_to_views_without_the_pass_has_no_objects(tmp_path: Path) -> None:
    """As of data sets by others: no property, no figure, no word."""
    write_tiny_capture(tmp_path / "capture", views=3)
    arguments = ["train", str(tmp_path / "capture"), "--out", str(tmp_path / "run"), "--progress", "none"]
    assert cli.main([*arguments, "--steps", "1", "--start-splats", "50", "--threads", "1"]) == 0
    assert read_splat_ply(tmp_path / "run" / "splats.ply")[0].object_indices is None
    assert "seconds.object_index" not in json.loads((tmp_path / "run" / "metrics.json").read_text())
