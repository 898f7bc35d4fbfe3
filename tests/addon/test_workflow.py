"""addon.runs.workflow: what a fit does to the scene before and after the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon.runs import workflow
from addon.runs.session import State
from addon.scene import originals, results, splat_object
from splat_engine.formats.capture import read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.exr import read_passes
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import CaptureSettings
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.capture_scenes import cube
from tests.addon.clouds import cloud

TINY = CaptureSettings(views=3, resolution=24, samples=1, hold_out=0, points=100, denoise=False)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path / "fits" / "first")
    splats = cloud(30)
    splats.metadata |= {"formation": "blender", "version": "0.1.0"}
    write_splat_ply(made.splats, splats)
    return made


def request(tmp_path: Path, run: RunDirectory) -> workflow.FitRequest:
    return workflow.FitRequest(bpy.context.scene, tmp_path / "capture", run.root, capture=TINY)


def capture(request: workflow.FitRequest) -> Any:
    session = workflow.capture_session(request)
    session.start()
    while session.poll():
        pass
    assert session.state is State.FINISHED, session.error
    return session


def test_result_says_where_it_is_from(run):
    """Name and custom properties of the object name the run, its look, version and quality."""
    added = workflow.import_run(bpy.context.scene, run, 30.5)
    assert added.object.name == "Splats fits/first"
    assert splat_object.get_provenance(added.object) == splat_object.Provenance(
        run=str(run.root.resolve()), formation="blender", version="0.1.0", splats=30, psnr_db=30.5
    )


def test_second_result_of_a_run_replaces_the_first(run):
    """Fitting again into the same run fills the same object, where the user has put it; its quality is the new one."""
    first = workflow.import_run(bpy.context.scene, run, 30.5).object
    first.location.x = 4
    write_splat_ply(run.splats, cloud(12, degree=1))
    second = workflow.import_run(bpy.context.scene, run)
    assert second.object == first and second.count == 12 and first.location.x == 4
    assert (
        splat_object.get_provenance(first).psnr_db is None and splat_object.get_provenance(first).splats == 12
    )
    assert len(splat_object.read_splats(first)) == 12 and len(bpy.data.objects) == 1


def test_run_without_a_result_is_told(tmp_path):
    """A run that is not finished has nothing to import."""
    with pytest.raises(UserError, match="has no result yet"):
        workflow.import_run(bpy.context.scene, RunDirectory.create(tmp_path))


def test_capture_does_not_see_its_own_splats(run, tmp_path):
    """What the run made before is not in the picture of the scene it is fitted to; it is shown again afterwards."""
    bpy.ops.mesh.primitive_cube_add(size=0.5)
    object = workflow.import_run(bpy.context.scene, run).object
    object.scale = (5, 5, 5)
    asked = request(tmp_path, run)
    capture(asked)
    alone = [
        read_passes(asked.capture_directory / v.exr, ("color",))["color"][..., 3].sum() for v in views(asked)
    ]
    assert not object.hide_render
    bpy.data.objects.remove(object)
    capture(asked)
    np.testing.assert_allclose(
        [
            read_passes(asked.capture_directory / v.exr, ("color",))["color"][..., 3].sum()
            for v in views(asked)
        ],
        alone,
    )


def views(asked: workflow.FitRequest) -> Any:
    return read_capture(asked.capture_directory).views


def test_cancelled_capture_puts_everything_back(run, tmp_path):
    """Cancelled after the first step, the scene's settings and the hidden object are as before."""
    bpy.ops.mesh.primitive_cube_add(size=0.5)
    object = workflow.import_run(bpy.context.scene, run).object
    render: Any = bpy.context.scene.render
    before = (render.engine, render.resolution_x, render.filepath, render.film_transparent)
    session = workflow.capture_session(request(tmp_path, run))
    session.start()
    session.poll()
    assert object.hide_render
    session.cancel()
    assert before == (render.engine, render.resolution_x, render.filepath, render.film_transparent)
    assert not object.hide_render and bpy.context.scene.camera is None


def test_originals_hidden_for_a_result_are_captured(run, tmp_path):
    """While it captures, what was hidden for an earlier result renders; afterwards it is hidden as before."""
    bpy.ops.mesh.primitive_cube_add(size=0.5)
    original = bpy.context.object
    original.hide_render = True
    original[results.HIDDEN_KEY] = 0
    session = workflow.capture_session(request(tmp_path, run))
    session.start()
    session.poll()
    assert not original.hide_render
    while session.poll():
        pass
    assert session.state is State.FINISHED and original.hide_render


def test_warnings_of_the_capture_arrive(run, tmp_path):
    """An unlit scene gives black views: the capture's warning reaches the session's report."""
    bpy.ops.mesh.primitive_cube_add(size=0.5)
    session = capture(request(tmp_path, run))
    assert any("black" in warning for warning in session.report.warnings)


def test_error_of_the_capture_arrives(run, tmp_path):
    """A scene with nothing to render fails the session, in words."""
    session = workflow.capture_session(request(tmp_path, run))
    session.start()
    while session.poll():
        pass
    assert session.state is State.FAILED and session.error is not None and session.error.hint


def test_originals_are_hidden_and_lights_stay(run):
    """What the splats replace is hidden, in viewport and render, and nothing else."""
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.object.light_add(type="SUN")
    bpy.ops.object.camera_add()
    excluded = bpy.data.collections.new("Excluded")
    bpy.context.scene.collection.children.link(excluded)
    excluded.objects.link(bpy.data.objects.new("Elsewhere", bpy.data.meshes.new("Elsewhere")))
    bpy.context.view_layer.layer_collection.children["Excluded"].exclude = True
    kept = workflow.import_run(bpy.context.scene, run).object
    notes = originals.hide(bpy.context.scene, bpy.context.view_layer, kept)
    hidden = {item.name for item in bpy.data.objects if item.hide_render}
    assert hidden == {"Cube", "Elsewhere"} and notes == ()
    assert bpy.data.objects["Cube"].hide_get() and not kept.hide_get()


def test_linked_objects_cannot_be_hidden_and_are_told(run, tmp_path):
    """An object of another file cannot be changed here: the note names it."""
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (_, wanted):
        wanted.objects = ["Cube"]
    bpy.context.scene.collection.objects.link(bpy.data.objects["Cube"])
    kept = workflow.import_run(bpy.context.scene, run).object
    (note,) = originals.hide(bpy.context.scene, bpy.context.view_layer, kept)
    assert "Cube" in note


def test_folder_beside_the_file(tmp_path):
    """Captures and runs go beside the .blend; an unsaved file has no beside."""
    assert workflow.default_folder(str(tmp_path / "a.blend")) == tmp_path / "a.splatfit"
    with pytest.raises(UserError, match="never saved"):
        workflow.default_folder("")


def test_adaptive_capture_wants_the_engine_before_anything_is_rendered(run, tmp_path):
    """Without an engine the session does not even begin; the scene's own cameras need none, and the report says why."""
    bpy.ops.mesh.primitive_cube_add()
    asked = replace(
        request(tmp_path, run),
        capture=replace(TINY, views=8, adaptive=True),
        engine_python=str(tmp_path / "no python"),
    )
    with pytest.raises(UserError, match="There is no engine Python"):
        workflow.capture_session(asked)
    assert not (tmp_path / "capture").exists()
    camera = bpy.data.objects.new("Eye", bpy.data.cameras.new("Eye"))
    camera.location = (0, 0, 9)
    bpy.context.scene.collection.objects.link(camera)
    session = capture(replace(asked, capture=replace(asked.capture, rig="scene")))
    assert any("captured as they are" in warning for warning in session.report.warnings)
    assert len(read_capture(tmp_path / "capture").views) == 1


def test_missing_picture_is_told_before_anything_is_rendered(tmp_path, run):
    """A texture whose file is gone is named by the session's first step, and once."""
    cube()
    picture = bpy.data.images.new("bark", 4, 4)
    picture.source, picture.filepath, picture.use_fake_user = "FILE", str(tmp_path / "gone.png"), True
    session = workflow.capture_session(request(tmp_path, run))
    session.start()
    session.poll()
    assert [text for text in session.report.warnings if "bark" in text and "gone.png" in text]
    assert not list((tmp_path / "capture").glob("views/*.exr"))
    while session.poll():
        pass
    assert session.state is State.FINISHED, session.error
    assert len([text for text in session.report.warnings if "bark" in text]) == 1
