"""The user's scene is exactly as before a capture: after success, error and cancel."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon.capture import render as render_module
from addon.capture.capture import CaptureCancelled, capture_scene, capture_steps
from addon.capture.render import RenderOptions, Stage
from splat_engine.formats.errors import UserError
from tests.addon.capture_scenes import camera, cube, settings
from tests.addon.rna_dump import differences, dump_scene


def try_set(struct: Any, **values: Any) -> None:
    """Sets what this Blender knows of."""
    for name, value in values.items():
        if hasattr(struct, name):
            setattr(struct, name, value)


@pytest.fixture
def hostile_scene() -> bpy.types.Scene:
    """A scene in which everything that a capture sets aside stands at something else than it wants."""
    scene = bpy.context.scene
    one, two = cube("One"), cube("Two", (3, 0, 0))
    one.pass_index, two.pass_index = 7, 9
    scene.camera = camera("Mine")
    other = camera("Other", (0, -9, 1))
    scene.timeline_markers.new("cut", frame=1).camera = other
    scene.frame_current = 3
    render = scene.render
    try_set(
        render,
        resolution_x=777, resolution_y=333, resolution_percentage=37, pixel_aspect_x=1.5, pixel_aspect_y=1.2,
        use_border=True, use_crop_to_border=True, border_min_x=0.1, border_max_x=0.7, border_min_y=0.2, border_max_y=0.8,
        use_motion_blur=True, use_compositing=True, use_sequencer=True, use_multiview=True, use_stamp=True,
        use_stamp_note=True, stamp_note_text="mine", metadata_input="STRIPS", use_freestyle=True, use_single_layer=True,
        use_placeholder=True, use_overwrite=False, use_file_extension=True, use_persistent_data=False, use_simplify=True,
        film_transparent=False, filepath="//mine/", use_render_cache=True, dither_intensity=0.3, fps=30,
        save_output=False,
    )  # fmt: skip
    render.views_format = "MULTIVIEW"
    render.image_settings.file_format = "JPEG"
    render.image_settings.quality = 42
    render.image_settings.use_preview = True
    cycles = scene.cycles
    cycles.samples, cycles.film_exposure, cycles.seed, cycles.time_limit = 77, 2.5, 3, 4.0
    cycles.use_camera_cull = cycles.use_animated_seed = True
    try_set(cycles, use_sample_subset=True, sample_subset_length=3)
    scene.eevee.taa_render_samples = 5
    layer = scene.view_layers[0]
    layer.use_pass_mist = layer.use_pass_cryptomatte_object = True
    layer.use_pass_combined = False
    layer.samples = 11
    layer.cycles.denoising_store_passes = True
    layer.aovs.add().name = "mine"
    layer.lightgroups.add(name="lamps")
    scene.view_layers.new("Second").use = True
    scene.view_layers[0].use = False
    add_compositor(scene)
    bpy.context.view_layer.update()
    return scene


def add_compositor(scene: bpy.types.Scene) -> None:
    """Adds compositing that hangs on passes a capture does not want."""
    if hasattr(scene, "node_tree"):
        scene.use_nodes = True
        tree = scene.node_tree
        tree.nodes.clear()
        output = tree.nodes.new("CompositorNodeComposite")
    else:
        tree = bpy.data.node_groups.new("Compositing", "CompositorNodeTree")
        tree.interface.new_socket("Image", in_out="OUTPUT", socket_type="NodeSocketColor")
        if hasattr(scene, "compositor_effects"):
            scene.compositor_effects.new("Effect").node_group = tree
        else:
            scene.compositing_node_group = tree
        output = tree.nodes.new("NodeGroupOutput")
    layers = tree.nodes.new("CompositorNodeRLayers")
    layers.scene, layers.layer = scene, scene.view_layers[0].name
    for name in ("Mist", "mine", "CryptoObject00"):
        node = tree.nodes.new("CompositorNodeInvert")
        tree.links.new(layers.outputs[name], node.inputs["Color"])
        if name == "Mist":
            tree.links.new(node.outputs[0], output.inputs[0])


@pytest.fixture(autouse=True)
def no_failed_restore(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A setting that cannot be put back is logged as an error."""
    yield
    assert not [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]


def assert_same(before: dict[str, str], scene: bpy.types.Scene) -> None:
    bpy.context.view_layer.update()
    assert differences(before, dump_scene(scene)) == []


def test_the_dump_sees_a_change(hostile_scene: bpy.types.Scene) -> None:
    """The comparison is worth something: changes in each corner are seen, and none are seen without one."""
    before = dump_scene(hostile_scene)
    assert len(before) > 1500
    assert differences(before, dump_scene(hostile_scene)) == []
    hostile_scene.render.image_settings.quality = 43
    hostile_scene.cycles.max_bounces = hostile_scene.cycles.max_bounces  # now it counts as set
    hostile_scene.view_layers[1].use_pass_z = not hostile_scene.view_layers[1].use_pass_z
    bpy.data.objects["One"].pass_index = 8
    bpy.data.cameras.new("left over")
    found = "\n".join(differences(before, dump_scene(hostile_scene)))
    for piece in ("quality", "max_bounces", "view_layers[1].use_pass_z", "One.pass_index", "names/cameras"):
        assert piece in found


@pytest.mark.parametrize("rig", ["sphere", "scene"])
def test_after_success(hostile_scene: bpy.types.Scene, tmp_path: Path, rig: str) -> None:
    """A finished capture with pictures changes nothing."""
    before = dump_scene(hostile_scene)
    capture = capture_scene(hostile_scene, settings(rig=rig, hold_out=0, pictures=True), tmp_path)
    assert len(capture.views) == (4 if rig == "sphere" else 2)
    assert_same(before, hostile_scene)


def test_after_frames(hostile_scene: bpy.types.Scene, tmp_path: Path) -> None:
    """A capture over frames comes back to the present one."""
    mine = bpy.data.objects["Mine"]
    for frame in (1, 20):
        mine.location.x = frame
        mine.keyframe_insert("location", frame=frame)
    hostile_scene.frame_set(3)
    before = dump_scene(hostile_scene)
    capture = capture_scene(hostile_scene, settings(rig="scene", frames="1,10,20", hold_out=0), tmp_path)
    assert len(capture.views) == 6
    assert_same(before, hostile_scene)


def test_after_an_error(
    hostile_scene: bpy.types.Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the middle of rendering changes nothing, and is told."""
    before = dump_scene(hostile_scene)
    calls = []

    def failing(scene: bpy.types.Scene, *, write: bool) -> None:
        calls.append(write)
        if len(calls) == 2:
            raise RuntimeError("the renderer broke")
        original(scene, write=write)

    original = render_module.call_render
    monkeypatch.setattr(render_module, "call_render", failing)
    with pytest.raises(RuntimeError, match="broke"):
        capture_scene(hostile_scene, settings(), tmp_path)
    assert len(calls) == 2
    assert_same(before, hostile_scene)


def test_after_a_failed_set_up(hostile_scene: bpy.types.Scene) -> None:
    """An engine that is not there is told, and leaves nothing changed."""
    before = dump_scene(hostile_scene)
    stage = Stage(hostile_scene, hostile_scene.view_layers[0], RenderOptions(engine="LUXCORE"))
    with pytest.raises(UserError, match="LUXCORE"), stage:
        pass
    assert_same(before, hostile_scene)


def test_after_a_target_that_is_not_there(hostile_scene: bpy.types.Scene, tmp_path: Path) -> None:
    """An error of the plan changes nothing and names the target."""
    before = dump_scene(hostile_scene)
    with pytest.raises(UserError, match="Nobody"):
        capture_scene(hostile_scene, settings(target="Nobody"), tmp_path)
    assert_same(before, hostile_scene)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_after_a_cancel(hostile_scene: bpy.types.Scene, tmp_path: Path, steps: int) -> None:
    """A cancel at any step changes nothing."""
    before = dump_scene(hostile_scene)
    asked = []

    def cancel() -> bool:
        asked.append(True)
        return len(asked) == steps

    with pytest.raises(CaptureCancelled):
        capture_scene(hostile_scene, settings(), tmp_path, should_cancel=cancel)
    assert_same(before, hostile_scene)


def test_after_a_dropped_generator(hostile_scene: bpy.types.Scene, tmp_path: Path) -> None:
    """Closing the stepwise capture, as a modal operator does, puts everything back; before that it is set aside."""
    before = dump_scene(hostile_scene)
    steps = capture_steps(hostile_scene, settings(), tmp_path)
    next(steps)
    next(steps)
    assert hostile_scene.render.filepath != "//mine/" or hostile_scene.camera.name != "Mine"
    steps.close()
    assert_same(before, hostile_scene)


def test_another_file_is_loaded_meanwhile(tmp_path: Path) -> None:
    """When the scene is gone there is nothing to put back, and no traceback."""
    cube()
    steps = capture_steps(bpy.context.scene, settings(), tmp_path)
    next(steps)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    steps.close()


def test_view_layers_and_the_rest_do_not_reach_the_views(
    hostile_scene: bpy.types.Scene, tmp_path: Path
) -> None:
    """Border, aspect, stereo, markers, other layers and exposure leave no mark on a rendered view."""
    from splat_engine.formats.exr import read_exr, read_passes

    capture = capture_scene(
        hostile_scene, settings(target="One", views=2, hold_out=0, engine="CYCLES"), tmp_path
    )
    for view in capture.views:
        path = tmp_path / str(view.exr)
        layers = {name.split(".")[0] for name in read_exr(path)}
        assert layers == {hostile_scene.view_layers[0].name}
        color = read_passes(path)["color"]
        assert color.shape == (32, 32, 4)
        inside = color[16, 16]
        assert inside == pytest.approx([0.8, 0.4, 0.1, 1.0], rel=2e-3)  # film exposure 2.5 is not baked in
