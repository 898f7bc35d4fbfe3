"""A capture is complete, readable, repeatable, resumable, and fails in words."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon import registration
from addon.capture.capture import CaptureCancelled, CaptureProgress, capture_scene
from addon.capture.fingerprint import scene_fingerprint
from addon.capture.render import RenderOptions, Stage
from addon.capture.rigs import look_at
from addon.capture.state import STATE_NAME
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import PARTIAL_NAME, read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.exr import read_passes
from tests.addon.capture_scenes import camera, cube, settings


def lit_scene() -> None:
    """A cube that noise shows on: diffuse, under a small lamp and a grey world."""
    obj = cube()
    tree = obj.data.materials[0].node_tree
    tree.nodes.clear()
    shader, output = tree.nodes.new("ShaderNodeBsdfDiffuse"), tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(shader.outputs[0], output.inputs["Surface"])
    lamp = bpy.data.objects.new("Lamp", bpy.data.lights.new("Lamp", "POINT"))
    lamp.data.energy, lamp.data.shadow_soft_size, lamp.location = 500, 1.0, (2, -3, 3)
    bpy.context.scene.collection.objects.link(lamp)
    bpy.context.scene.world = bpy.data.worlds.new("Grey")


def passes_of(root: Path, number: int) -> dict[str, np.ndarray]:
    return read_passes(root / f"views/{number:04d}.exr")


class Counter:
    """Counts the rendered views by the messages of progress."""

    def __init__(self, cancel_after: int | None = None) -> None:
        self.states: list[CaptureProgress] = []
        self.cancel_after = cancel_after

    def __call__(self, state: CaptureProgress) -> None:
        self.states.append(state)

    @property
    def rendered(self) -> int:
        return sum(state.message.startswith("Rendering") for state in self.states)

    def cancel(self) -> bool:
        return self.cancel_after is not None and self.rendered > self.cancel_after


def capture(root: Path, counter: Counter | None = None, **values: object) -> int:
    """Captures, and returns how many views were rendered."""
    counter = counter or Counter()
    capture_scene(bpy.context, settings(**values), root, progress=counter, should_cancel=counter.cancel)
    return counter.rendered


def test_a_capture_holds_what_it_says(tmp_path: Path) -> None:
    """Cameras, splits, passes, names, bounds and points are read back; each pass agrees with its camera."""
    cube("Left", (-2, 0, 0))
    cube("Right", (2, 0, 0), color=(0.1, 0.2, 0.9))
    bpy.context.scene.view_settings.view_transform = "Standard"
    counter = Counter()
    made = capture_scene(bpy.context, settings(views=5, hold_out=5, samples=2), tmp_path, progress=counter)
    got = read_capture(tmp_path)
    assert [v.split for v in got.views] == ["train", "train", "test", "train", "train"]
    assert got.info.passes == ("depth", "normal", "position", "object_index")
    assert got.info.object_names == ("Left", "Right")
    assert (got.info.engine, got.info.samples, got.info.view_transform) == ("CYCLES", 2, "Standard")
    np.testing.assert_allclose(
        [got.info.bounds_min, got.info.bounds_max], [[-3, -1, -1], [3, 1, 1]], atol=1e-5
    )
    assert got.init == tmp_path / "init.ply"
    assert made.notes == ()
    for view in got.views:
        passes = read_passes(tmp_path / str(view.exr))
        hit = passes["depth"] < 1e9
        assert hit.sum() > 60
        pixels, depth = view.camera.project(passes["position"][hit])
        rows, columns = np.nonzero(hit)
        assert np.abs(pixels - np.c_[columns, rows] - 0.5).max() < 0.01
        np.testing.assert_allclose(passes["depth"][hit], depth, rtol=1e-5)
        length = np.linalg.norm(
            passes["normal"][hit], axis=1
        )  # shorter at edges: Blender averages over the pixel
        assert length.max() < 1.001 and np.median(length) == pytest.approx(1, abs=1e-3)
        assert (
            (passes["normal"][hit] * (passes["position"][hit] - view.camera.position)).sum(axis=1) < 0
        ).all()
        left = passes["position"][..., 0] < 0
        expected = np.where(left, 1, 2)
        np.testing.assert_array_equal(passes["object_index"][hit], expected[hit])
        opaque = passes["color"][..., 3] == 1
        assert (passes["color"][..., 3] == 0).any()
        np.testing.assert_allclose(
            passes["color"][opaque & left][:, :3], [[0.8, 0.4, 0.1]] * (opaque & left).sum(), rtol=2e-3
        )
    assert counter.rendered == 5
    assert counter.states[-1].done == counter.states[-1].total == 5
    assert counter.states[4].seconds_per_view > 0 and counter.states[4].seconds_left > 0


def test_an_orthographic_view_agrees_with_its_camera(tmp_path: Path) -> None:
    """Depth is planar and positions reproject for an orthographic camera with shift and pixel aspect."""
    cube()
    eye = camera("Eye", (0.3, -8, 0.2))
    eye.data.type, eye.data.ortho_scale, eye.data.shift_x = "ORTHO", 5.0, 0.1
    render = bpy.context.scene.render
    render.resolution_x, render.resolution_y, render.pixel_aspect_y = 48, 36, 1.3
    made = capture_scene(bpy.context, settings(rig="scene", resolution=0, hold_out=0), tmp_path)
    (view,) = made.views
    assert view.camera.model == "orthographic"
    passes = passes_of(tmp_path, 1)
    hit = passes["depth"] < 1e9
    assert hit.sum() > 200
    pixels, depth = view.camera.project(passes["position"][hit])
    rows, columns = np.nonzero(hit)
    assert np.abs(pixels - np.c_[columns, rows] - 0.5).max() < 0.01
    np.testing.assert_allclose(passes["depth"][hit], depth, rtol=1e-5)


def test_same_seed_same_pixels_and_views_differ_in_noise(tmp_path: Path) -> None:
    """The same capture twice is the same to the bit; another seed and a held-out view's samples are not."""
    lit_scene()
    for name, values in (
        ("a", {}),
        ("b", {}),
        ("c", {"seed": 1, "rig": "ring"}),
        ("d", {"test_samples": 16}),
    ):
        capture(tmp_path / name, **{"rig": "ring", "views": 4, **values})
    for number in range(1, 5):
        a, b = (passes_of(tmp_path / name, number) for name in "ab")
        for item in a:
            np.testing.assert_array_equal(a[item], b[item])
    assert (passes_of(tmp_path / "a", 3)["color"] != passes_of(tmp_path / "d", 3)["color"]).any()
    np.testing.assert_array_equal(
        passes_of(tmp_path / "a", 1)["color"], passes_of(tmp_path / "d", 1)["color"]
    )
    scene = bpy.context.scene
    with Stage(scene, scene.view_layers[0]) as stage:
        for name, seed in (("s1", 1), ("s2", 2), ("s3", 1)):
            view = read_capture(tmp_path / "a").views[0].camera
            stage.render_view(view, tmp_path / f"{name}.exr", samples=1, seed=seed)
    one, two, three = (read_passes(tmp_path / f"s{n}.exr")["color"] for n in (1, 2, 3))
    assert (one != two).any()
    np.testing.assert_array_equal(one, three)


def test_cameras_alone_take_no_rendering(tmp_path: Path) -> None:
    """render=False writes the cameras that the rendered capture has, and no view."""
    cube()
    assert capture(tmp_path / "alone", render=False) == 0
    assert capture(tmp_path / "whole") == 4
    alone = json.loads((tmp_path / "alone/transforms.json").read_text())
    whole = json.loads((tmp_path / "whole/transforms.json").read_text())
    for key in ("transform_matrix", "fl_x", "cx", "w"):
        assert [f[key] for f in alone["frames"]] == [f[key] for f in whole["frames"]]
    assert not list((tmp_path / "alone/views").iterdir())
    got = read_capture(tmp_path / "alone")
    assert all(view.exr is None and view.image is None for view in got.views)


def test_extra_cameras_are_training_views(tmp_path: Path) -> None:
    """Given cameras are rendered after the rig's."""
    cube()
    pose = look_at(np.array([0.0, -9, 3]), np.zeros(3))
    extra = Camera(40, 20, 60.0, 60.0, 22, 9, pose, name="mine")
    made = capture_scene(bpy.context, settings(hold_out=2), tmp_path, extra_cameras=[extra])
    assert made.views[-1].camera == extra and made.views[-1].split == "train"
    assert passes_of(tmp_path, 5)["color"].shape == (20, 40, 4)


def test_resume_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """After a cancel the finished views stay, are listed apart, and only the rest is rendered."""
    lit_scene()
    with pytest.raises(CaptureCancelled, match="2 of 4"):
        capture(tmp_path, Counter(cancel_after=2))
    assert not (tmp_path / "transforms.json").exists()
    partial = read_capture(tmp_path / PARTIAL_NAME)
    assert len(partial.views) == 2 and partial.info.passes
    before = passes_of(tmp_path, 1)["color"]
    assert capture(tmp_path) == 2
    assert not (tmp_path / PARTIAL_NAME).exists()
    np.testing.assert_array_equal(passes_of(tmp_path, 1)["color"], before)
    assert len(read_capture(tmp_path).views) == 4
    assert capture(tmp_path) == 0
    fresh = tmp_path / "fresh"
    capture(fresh)
    for number in range(1, 5):
        np.testing.assert_array_equal(passes_of(fresh, number)["color"], passes_of(tmp_path, number)["color"])


def change_material() -> None:
    bpy.data.materials[0].node_tree.nodes["Diffuse BSDF"].inputs["Color"].default_value = (1, 0, 0, 1)


def change_vertex() -> None:
    bpy.data.objects["Cube"].data.vertices[0].co.x -= 0.01


def change_keyed_light() -> None:
    bpy.data.lights["Lamp"].energy = 400


def change_link() -> None:
    tree = bpy.data.materials[0].node_tree
    tree.links.remove(tree.links[0])


def change_modifier() -> None:
    bpy.data.objects["Cube"].modifiers.new("Bevel", "BEVEL").width = 0.1


CHANGES: dict[str, Callable[[], object]] = {
    "material": change_material,
    "vertex": change_vertex,
    "light": change_keyed_light,
    "link": change_link,
    "modifier": change_modifier,
    "place": lambda: setattr(bpy.data.objects["Cube"], "location", (0, 0, 0.1)),
    "bounces": lambda: setattr(bpy.context.scene.cycles, "max_bounces", 2),
    "world": lambda: setattr(bpy.context.scene.world, "color", (1, 0, 0)),
    "visibility": lambda: setattr(bpy.data.objects["Cube"], "visible_shadow", False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_scene_is_captured_anew(tmp_path: Path, name: str) -> None:
    """Any change of what renders makes every view stale; none does not."""
    lit_scene()
    assert capture(tmp_path, views=2, points=0) == 2
    assert capture(tmp_path, views=2, points=0) == 0
    CHANGES[name]()
    assert capture(tmp_path, views=2, points=0) == 2


def test_a_changed_input_of_geometry_nodes_is_seen() -> None:
    """A number typed into a geometry nodes modifier changes the scene's fingerprint, and back again it is the same."""
    obj = cube()
    tree = bpy.data.node_groups.new("Nodes", "GeometryNodeTree")
    socket = tree.interface.new_socket("Size", in_out="INPUT", socket_type="NodeSocketFloat")
    modifier = obj.modifiers.new("Nodes", "NODES")
    modifier.node_group = tree
    bpy.context.view_layer.update()

    def fingerprint(value: float) -> str:
        if hasattr(modifier, "properties"):
            getattr(modifier.properties.inputs, socket.identifier).value = value
        else:
            modifier[socket.identifier] = value
        return scene_fingerprint(bpy.context.scene, bpy.context.view_layer)

    first = fingerprint(1.0)
    assert fingerprint(2.0) != first
    assert fingerprint(1.0) == first


def test_our_own_settings_are_no_part_of_the_scene() -> None:
    """Choosing other steps for a fit does not change the scene's fingerprint."""
    registration.register()
    try:
        first = scene_fingerprint(bpy.context.scene, bpy.context.view_layer)
        bpy.context.scene.splatfit.fit.steps = 77
        assert scene_fingerprint(bpy.context.scene, bpy.context.view_layer) == first
    finally:
        registration.unregister()
    assert scene_fingerprint(bpy.context.scene, bpy.context.view_layer) == first


def test_changed_settings_render_what_they_change(tmp_path: Path) -> None:
    """Samples render all anew, test samples the held-out view, points and selection nothing; leftovers go."""
    lit_scene()
    assert capture(tmp_path, views=4) == 4
    assert capture(tmp_path, views=4, points=10) == 0
    assert capture(tmp_path, views=4, test_samples=3) == 1
    bpy.data.objects["Cube"].select_set(False)
    bpy.context.scene.render.filepath = "//elsewhere"
    assert capture(tmp_path, views=4, test_samples=3) == 0
    assert capture(tmp_path, views=4, samples=2, test_samples=3) == 3
    capture(tmp_path, views=2)
    assert sorted(p.name for p in (tmp_path / "views").glob("*.exr")) == ["0001.exr", "0002.exr"]


def test_held_out_views_alone_are_denoised(tmp_path: Path) -> None:
    """They come closer to many samples than as they were rendered; training views stay, and are not rendered anew."""
    lit_scene()
    quick = {"rig": "ring", "views": 4, "samples": 4, "resolution": 48}
    assert capture(tmp_path / "raw", **quick) == 4
    assert capture(tmp_path / "clean", **quick) == 4
    assert capture(tmp_path / "clean", **quick, test_denoise=True) == 1
    assert capture(tmp_path / "truth", **quick, test_samples=512) == 4
    test = next(n for n, view in enumerate(read_capture(tmp_path / "raw").views, 1) if view.split == "test")
    raw, clean, truth = (passes_of(tmp_path / name, test)["color"] for name in ("raw", "clean", "truth"))
    solid = (truth[..., 3] == 1) & (raw[..., 3] == 1)  # alpha is left as it is, and so are the edges
    assert solid.sum() > 200
    assert ((clean - truth)[solid] ** 2).mean() < 0.5 * ((raw - truth)[solid] ** 2).mean()
    for number in set(range(1, 5)) - {test}:
        raw, clean = (passes_of(tmp_path / name, number)["color"] for name in ("raw", "clean"))
        np.testing.assert_array_equal(raw, clean)


@pytest.mark.parametrize("damage", ["cut", "gone", "state"])
def test_a_damaged_view_is_rendered_again(tmp_path: Path, damage: str) -> None:
    """A cut-off or missing EXR, or a cut-off line of the state, costs one view and no error."""
    cube()
    capture(tmp_path, points=0)
    path = tmp_path / "views/0002.exr"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "gone":
        path.unlink()
    else:
        state = tmp_path / STATE_NAME
        state.write_text(state.read_text()[:-20])
    assert capture(tmp_path, points=0) == 1
    assert len(read_capture(tmp_path).views) == 4


def test_resume_over_frames(tmp_path: Path) -> None:
    """An animated scene is resumed though the cancel left it at another frame."""
    obj = cube()
    for frame in (1, 5):
        obj.location.x = 0.4 * frame
        obj.keyframe_insert("location", frame=frame)
    bpy.context.scene.camera = camera()
    bpy.context.scene.frame_set(3)
    values = {"rig": "active", "frames": "1-4", "hold_out": 0, "points": 0}
    with pytest.raises(CaptureCancelled):
        capture(tmp_path, Counter(cancel_after=2), **values)
    assert capture(tmp_path, **values) == 2
    first, last = (passes_of(tmp_path, n)["position"][..., 0].max() for n in (1, 4))
    assert last - first == pytest.approx(1.2, abs=0.3)  # the cube moves 0.4 a frame, eased in and out


def test_pictures_have_the_scene_s_look(tmp_path: Path) -> None:
    """The PNG agrees with the one that Blender itself writes of the same view, to 1 of 255, straight alpha."""
    lit_scene()
    scene = bpy.context.scene
    scene.view_settings.view_transform, scene.view_settings.exposure = "AgX", 0.5
    scene.cycles.film_exposure = 1.5
    made = capture_scene(bpy.context, settings(views=1, hold_out=0, pictures=True, samples=8), tmp_path)
    assert made.views[0].image == "images/0001.png"
    assert made.info.view_transform.startswith("AgX")
    with Stage(scene, scene.view_layers[0]) as stage:
        stage.render_view(made.views[0].camera, tmp_path / "again.exr", samples=8, seed=0)
        np.testing.assert_array_equal(
            read_passes(tmp_path / "again.exr")["color"], passes_of(tmp_path, 1)["color"]
        )
        image = scene.render.image_settings
        if hasattr(image, "media_type"):
            image.media_type = "IMAGE"
        image.file_format, image.color_mode = "PNG", "RGBA"
        scene.cycles.film_exposure, scene.render.dither_intensity = 1.5, 0.0
        scene.render.filepath = str(tmp_path / "direct.png")
        bpy.ops.render.render(write_still=True)
    ours, direct = (png_pixels(p) for p in (tmp_path / "images/0001.png", tmp_path / "direct.png"))
    assert direct[..., :3].max() > 0.3
    solid = direct[..., 3] > 0.99
    assert solid.sum() > 100
    assert np.abs(ours - direct)[solid].max() < 1.5 / 255
    assert np.abs(ours - direct)[..., 3].max() < 1.5 / 255


def png_pixels(path: Path) -> np.ndarray:
    image = bpy.data.images.load(str(path))
    image.colorspace_settings.name = "Non-Color"
    pixels = np.empty(image.size[0] * image.size[1] * 4, np.float32)
    image.pixels.foreach_get(pixels)
    shape = (image.size[1], image.size[0], 4)
    bpy.data.images.remove(image)
    return pixels.reshape(shape)


def test_pictures_are_added_without_rendering(tmp_path: Path) -> None:
    """Asking for pictures afterwards makes them from the views that are there, if those are filtered."""
    cube()
    assert capture(tmp_path, box_filter=False) == 4
    assert capture(tmp_path, box_filter=False, pictures=True) == 0
    assert len(list((tmp_path / "images").glob("*.png"))) == 4
    assert all(view.image for view in read_capture(tmp_path).views)


def test_object_index_is_not_lent_where_it_is_read(tmp_path: Path) -> None:
    """A material that reads object indices keeps its look, and the views then have no such pass."""
    obj = cube()
    obj.pass_index = 3
    tree = obj.data.materials[0].node_tree
    info, emission = tree.nodes.new("ShaderNodeObjectInfo"), tree.nodes["Emission"]
    tree.links.new(info.outputs["Object Index"], emission.inputs["Strength"])
    emission.inputs["Color"].default_value = (0.1, 0.1, 0.1, 1)
    made = capture_scene(bpy.context, settings(), tmp_path)
    assert made.info.passes == ("depth", "normal", "position") and made.info.object_names == ()
    assert [note for note in made.notes if "object ind" in note]
    assert passes_of(tmp_path, 1)["color"][16, 16, 0] == pytest.approx(0.3, rel=1e-2)


def test_world_and_scene_sampling(tmp_path: Path) -> None:
    """With an opaque world alpha is 1 everywhere; samples 0 are the scene's own."""
    lit_scene()
    bpy.context.scene.cycles.samples = 3
    made = capture_scene(bpy.context, settings(transparent=False, samples=0, test_samples=5), tmp_path)
    assert made.info.samples == 3
    assert (passes_of(tmp_path, 1)["color"][..., 3] == 1).all()
    assert capture(tmp_path / "b", transparent=False, samples=0, test_samples=5) == 4


def test_warnings_are_told(tmp_path: Path) -> None:
    """Missing pictures, a world volume and black views are told, with names."""
    obj = cube("Textured")
    tree = obj.data.materials[0].node_tree
    image = bpy.data.images.new("Wood", 4, 4)
    image.source, image.filepath = "FILE", "//not/there.png"
    texture = tree.nodes.new("ShaderNodeTexImage")
    texture.image = image
    tree.nodes["Emission"].inputs["Strength"].default_value = 0
    made = capture_scene(bpy.context, settings(views=2, hold_out=0), tmp_path)
    for piece in ("there.png", "2 of 2 training views are black"):
        assert [note for note in made.notes if piece in note], piece


def test_training_views_have_a_narrow_filter(tmp_path: Path) -> None:
    """A training view's edges are a pixel wide, a held-out view's wider; the capture says so, and the scene is as before."""
    cube()
    scene: Any = bpy.context.scene
    scene.cycles.pixel_filter_type, scene.cycles.filter_width = "GAUSSIAN", 2.0
    options = {"rig": "active", "samples": 256, "denoise": False}
    eye = camera()
    eye.data.type, eye.data.ortho_scale, eye.data.shift_x = "ORTHO", 6.0, 0.4 / 96
    scene.camera = eye
    soft = {}
    for hold_out in (0, 1):
        root = tmp_path / f"held out {hold_out}"
        made = capture_scene(bpy.context, settings(**options, hold_out=0, box_filter=not hold_out), root)
        assert made.info.box_filtered == read_capture(root).info.box_filtered == (not hold_out)
        alpha = read_passes(root / str(made.views[0].exr), ("color",))["color"][..., 3]
        row = alpha[len(alpha) // 2]
        assert row.max() == 1 and row.min() == 0
        soft[hold_out] = int(((row > 0.004) & (row < 0.996)).sum())
    assert soft[0] <= 2 < soft[1], "one pixel at either edge, with the wider filter its neighbours too"
    assert (scene.cycles.pixel_filter_type, scene.cycles.filter_width) == ("GAUSSIAN", 2.0)

    made = capture_scene(
        bpy.context, settings(views=4, hold_out=2, samples=4, box_filter=True), tmp_path / "split"
    )
    train, test = (
        read_passes(tmp_path / "split" / str(made.of_split(split)[0].exr), ("color",))["color"][..., 3]
        for split in ("train", "test")
    )
    assert ((test > 0.01) & (test < 0.99)).sum() > 1.3 * ((train > 0.01) & (train < 0.99)).sum()
    made = capture_scene(
        bpy.context, settings(views=2, pictures=True, box_filter=True), tmp_path / "pictures"
    )
    assert not made.info.box_filtered, "other trainers expect Blender's own filter"


def test_a_blender_without_a_denoiser_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where denoising is asked for and there is none, the capture is made and says that its views are noisy."""
    cube()
    made = capture_scene(bpy.context, settings(views=2, denoise=True), tmp_path / "with")
    assert made.notes == ()
    monkeypatch.setattr(sys.modules["_cycles"], "with_openimagedenoise", False)
    made = capture_scene(bpy.context, settings(views=2, denoise=True), tmp_path / "without")
    assert [note for note in made.notes if "no denoiser" in note]
    assert capture_scene(bpy.context, settings(views=2), tmp_path / "unasked").notes == ()


def test_a_missing_library_is_named_and_the_rest_captured(tmp_path: Path, shared_data: Path) -> None:
    """A linked file that is gone is a warning where anything renders, and is named where nothing does."""
    path = shared_data / "blend/cameras_in_linked_instances.blend"
    bpy.ops.wm.open_mainfile(filepath=str(path))
    made = capture_scene(bpy.context, settings(), tmp_path)
    assert [note for note in made.notes if "C.blend" in note]
    for obj in bpy.context.scene.objects:
        obj.hide_render = obj.type == "MESH"
    with pytest.raises(UserError, match="nothing to look at") as caught:
        capture_scene(bpy.context, settings(), tmp_path)
    assert "C.blend" in caught.value.hint


def test_a_menu_in_front_of_the_scene(tmp_path: Path, shared_data: Path) -> None:
    """A file that opens with an empty scene names the one that has the geometry; given that, it is captured."""
    path = shared_data / "blend/bowling_linked/game_bowling.blend"
    bpy.ops.wm.open_mainfile(filepath=str(path))
    with pytest.raises(UserError, match="nothing to look at") as caught:
        capture_scene(bpy.context, settings(), tmp_path)
    assert "'Menu'" in caught.value.hint and "Game" in caught.value.hint
    made = capture_scene(bpy.data.scenes["Game"], settings(render=False), tmp_path)
    assert len(made.views) == 4


@pytest.mark.parametrize("name", ["with space", "a#b", "{blend_name}", "100%d", "weiß", "a.b"])
def test_odd_folder_names(tmp_path: Path, name: str) -> None:
    """What Blender would replace in an output path is left alone."""
    cube()
    root = tmp_path / name
    capture(root, views=2, hold_out=0, pictures=True)
    assert sorted(p.name for p in (root / "views").glob("*.exr")) == ["0001.exr", "0002.exr"]
    assert len(read_capture(root).views) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_nothing_to_capture(tmp_path: Path) -> None:
    """No geometry, no training view, and a folder that is a file are refused and leave no list of views."""
    with pytest.raises(UserError, match="nothing to look at"):
        capture_scene(bpy.context, settings(), tmp_path / "a")
    cube()
    with pytest.raises(UserError, match="No training view"):
        capture_scene(bpy.context, settings(hold_out=1), tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        capture_scene(bpy.context, settings(), tmp_path / "file" / "b")
    with pytest.raises(UserError, match="/proc"):
        capture_scene(bpy.context, settings(), "/proc/splatfit")
    assert not (tmp_path / "a/transforms.json").exists()


def test_a_full_disk_is_told_and_leaves_no_half_view(tmp_path: Path) -> None:
    """When files cannot grow the capture ends in words, and what was complete goes on counting."""
    lit_scene()
    with pytest.raises(CaptureCancelled):
        capture(tmp_path, Counter(cancel_after=1), points=0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(UserError, match="0002.exr") as caught:
            capture(tmp_path, points=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.hint
    assert sorted(p.name for p in (tmp_path / "views").iterdir()) == ["0001.exr", "captured.jsonl"]
    assert capture(tmp_path, points=0) == 3


def test_a_render_setting_s_engine(tmp_path: Path) -> None:
    """ "scene" keeps the scene's own engine."""
    cube()
    bpy.context.scene.render.engine = "CYCLES"
    bpy.context.scene.cycles.samples = 2
    made = capture_scene(bpy.context, settings(engine="scene"), tmp_path)
    assert made.info.engine == "CYCLES"


def test_eevee_is_found_under_its_name_and_has_no_object_index(tmp_path: Path) -> None:
    """Set up for EEVEE, whatever this Blender calls it, with the passes that it knows; nothing is rendered here,
    since without a graphics card a first EEVEE view takes a minute."""
    cube()
    scene = bpy.context.scene
    made = capture_scene(scene, settings(engine="EEVEE", samples=7, render=False), tmp_path)
    assert made.info.engine == "EEVEE"
    with Stage(scene, scene.view_layers[0], RenderOptions(engine="EEVEE")):
        assert scene.render.engine in ("BLENDER_EEVEE", "BLENDER_EEVEE_NEXT")
        assert scene.view_layers[0].use_pass_position
