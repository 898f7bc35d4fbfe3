"""addon.runs.background: views rendered by a second Blender from a copy of the file, as if they were rendered here."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon.commands.command_line import capture_settings, make_parser
from addon.runs import background, workflow
from addon.runs.capture_process import CaptureJob, CaptureProcess, blender_command, capture_words
from addon.runs.session import Session, State
from splat_engine.formats import events
from splat_engine.formats.capture import read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.exr import read_passes
from splat_engine.formats.locks import Lock
from splat_engine.formats.settings import CaptureSettings
from tests.addon.capture_scenes import cube, settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """A file whose cube has a picture beside it, and a second cube of a library beside it; both by relative paths."""
    folder = tmp_path / "my scène"
    folder.mkdir()
    cube("Linked", (3, 0, 0), 1.0, (0.1, 0.2, 0.9))
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "library.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    painted = cube("Painted")
    tree = painted.data.materials[0].node_tree
    texture = tree.nodes.new("ShaderNodeTexImage")
    texture.image = _picture(folder / "green.png")
    tree.links.new(texture.outputs["Color"], tree.nodes["Emission"].inputs["Color"])
    path = folder / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    with bpy.data.libraries.load(str(folder / "library.blend"), link=True, relative=True) as (_, wanted):
        wanted.objects = ["Linked"]
    bpy.context.scene.collection.objects.link(bpy.data.objects["Linked"])
    texture.image.filepath = "//green.png"
    bpy.ops.wm.save_mainfile()
    assert bpy.data.libraries[0].filepath.startswith("//")
    return path


def _picture(path: Path) -> Any:
    image = bpy.data.images.new("Green", 4, 4)
    image.pixels[:] = [0.0, 1.0, 0.0, 1.0] * 16
    image.filepath_raw, image.file_format = str(path), "PNG"
    image.save()
    bpy.data.images.remove(image)
    return bpy.data.images.load(str(path))


def request(tmp_path: Path, *, in_place: bool, **values: Any) -> workflow.FitRequest:
    return workflow.FitRequest(
        bpy.context.scene,
        tmp_path / "my scène" / "capture",
        tmp_path / "run",
        capture=settings(**values),
        in_place=in_place,
    )


def capture(asked: workflow.FitRequest) -> Session:
    session = workflow.capture_session(asked)
    session.start()
    while session.poll(wait_s=20):
        pass
    assert session.state is State.FINISHED, session.error
    return session


def times(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (root / "views").glob("*.exr")}


def test_as_if_rendered_here(blend, tmp_path):
    """Unsaved changes, the picture and the library are in the views; file, scene and folder are as before; the same
    capture rendered in place afterwards renders nothing anew: it is the same scene."""
    bpy.data.objects["Painted"].location.z = 0.5  # not saved
    before = blend.read_bytes()
    asked = request(tmp_path, in_place=False)
    session = capture(asked)
    root = asked.capture_directory
    assert session.report.step == session.report.steps == 4 and session.report.warnings == []
    assert bpy.data.filepath == str(blend) and blend.read_bytes() == before
    assert {path.name for path in root.glob("source*")} == set() and bpy.data.objects[
        "Painted"
    ].location.z == 0.5
    made = read_capture(root)
    assert made.info.source == str(blend)
    colours = np.concatenate(
        [read_passes(root / str(view.exr), ("color",))["color"].reshape(-1, 4) for view in made.views]
    )
    assert np.any((colours[:, 1] > 0.9) & (colours[:, 0] < 0.1)), "the picture is missing"
    assert np.any((colours[:, 2] > 0.8) & (colours[:, 0] < 0.2)), "the library is missing"
    rendered = times(root)
    capture(replace(asked, in_place=True))
    assert times(root) == rendered
    assert capture(asked) and times(root) == rendered


def test_cancelled_capture_goes_on(blend, tmp_path):
    """Stopped in the middle, the second Blender is gone, finished views stay and the next capture renders the others."""
    asked = request(tmp_path, in_place=False, views=24, resolution=64)
    session = workflow.capture_session(asked)
    session.start()
    while session.report.step < 2:
        assert session.poll(wait_s=20), session.error
    process = session._capture._process
    assert session.report.seconds_left > 0 and session.report.phase.startswith("Rendering")
    session.stop()
    assert session.state is State.CANCELLED and process.wait(0)
    assert not background.copy_path(asked.capture_directory).exists()
    kept = times(asked.capture_directory)
    assert 2 <= len(kept) < 24
    capture(asked)
    after = times(asked.capture_directory)
    changed = [name for name in kept if after[name] != kept[name]]
    assert len(after) == 24 and len(changed) <= 1  # the one that was being written


def test_errors_of_the_other_blender_arrive(blend, tmp_path):
    """What it cannot do is this session's error, word for word."""
    session = workflow.capture_session(request(tmp_path, in_place=False, target="No Such Object"))
    session.start()
    while session.poll(wait_s=20):
        pass
    assert session.state is State.FAILED and session.error is not None
    assert "No Such Object" in session.error.headline and session.error.hint


def test_pictures_in_memory_alone_are_told(blend):
    """What was painted and not saved is in no copy: the person is told which pictures."""
    assert background.unsaved_pictures() == []
    image = bpy.data.images["green.png"]
    image.pixels[0] = 0.5
    image.update()
    (note,) = background.unsaved_pictures()
    assert "green.png" in note and "Save or pack" in note
    image.pack()
    assert background.unsaved_pictures() == []


def test_splats_of_the_run_are_not_in_the_picture(blend, tmp_path):
    """What the run made before is hidden in the copy and stays visible here."""
    from addon.scene.splat_object import Provenance, add_splats
    from tests.addon.clouds import cloud

    asked = request(tmp_path, in_place=False)
    made = add_splats(
        cloud(9), bpy.context.scene, provenance=Provenance(run=str(asked.run_directory.resolve()))
    )
    made.object.scale = (9, 9, 9)
    capture(asked)
    assert not made.object.hide_render
    names = read_capture(asked.capture_directory).info.object_names
    assert "Painted" in names and made.object.name not in names


def test_another_blender_at_the_same_capture(blend, tmp_path):
    """While another renders into the folder, the capture is refused in words and touches nothing."""
    asked = request(tmp_path, in_place=True)
    asked.capture_directory.mkdir()
    with Lock(asked.capture_directory / workflow.LOCK_NAME, "x"):
        session = workflow.capture_session(asked)
        session.start()
        while session.poll():
            pass
    assert session.state is State.FAILED and session.error is not None
    assert "is being written by another Splatfit" in session.error.headline


def test_settings_arrive(tmp_path):
    """Every setting off its default is an option that the other Blender's command line understands."""
    asked = CaptureSettings(
        rig="dome",
        views=7,
        target="-odd name",
        lens_mm=35.5,
        denoise=False,
        transparent=False,
        seed=9,
        samples=3,
    )
    job = CaptureJob(tmp_path / "c.blend", "/a b.blend", "Scène 1", tmp_path, tmp_path / "run", asked)
    options = make_parser().parse_args(["capture", *capture_words(job)])
    assert capture_settings(options) == asked
    assert (options.scene, options.source, options.progress) == ("Scène 1", "/a b.blend", "json")
    words = blender_command("/blender", "bl_ext.user_default.splatfit", job, scripts=False)
    assert words[:6] == ["/blender", "--background", "--disable-autoexec", str(job.copy), "--addons",
                         "bl_ext.user_default.splatfit"]  # fmt: skip
    assert words[6:9] == ["--command", "splatfit", "capture"]


class ScriptedProcess:
    """A second Blender that is none."""

    def __init__(self, script: list[list[events.Event]], error: UserError | None = None) -> None:
        self.script, self.failure, self.closed = script, error, 0

    def new_events(self, wait_s: float) -> list[events.Event]:
        return self.script.pop(0) if self.script else []

    def is_running(self) -> bool:
        return bool(self.script)

    def error(self) -> UserError | None:
        return self.failure

    def close(self, timeout_s: float) -> None:
        self.closed += 1


def job_in(tmp_path: Path) -> CaptureJob:
    out = tmp_path / "capture"
    return CaptureJob(out / "source.blend", "", "Scene", out, tmp_path / "run", CaptureSettings())


def test_copy_is_gone_as_soon_as_it_is_read(tmp_path):
    """The copy may be large: with the first event it is removed; warnings and time left arrive."""
    process: Any = ScriptedProcess(
        [[], [events.Captured(total=9, message="Rendering"), events.Warned(message="odd")],
         [events.Captured(done=1, total=9, message="Rendering", seconds_left=16.0)], []]
    )  # fmt: skip
    warnings: list[str] = []
    job = job_in(tmp_path)
    steps = background.BackgroundCapture(job, warnings, start=lambda command, log: process)
    assert next(steps).phase == "Starting a Blender in the background" and job.copy.is_file()
    next(steps)
    assert job.copy.is_file()
    assert next(steps)[:2] == (0, 9) and not job.copy.exists() and warnings == ["odd"]
    assert next(steps) == (1, 9, "Rendering", 16.0)
    assert list(steps) == [] and process.closed == 1


def test_process_that_does_not_start_leaves_no_copy(tmp_path):
    """If the second Blender cannot be started, the error says what else to do, and the copy is gone."""
    job = job_in(tmp_path)
    steps = background.BackgroundCapture(
        job, [], start=lambda command, log: CaptureProcess(["/nowhere/blender"], log)
    )
    with pytest.raises(UserError, match="Cannot start /nowhere/blender") as caught:
        next(steps)
    assert "Render in Place" in caught.value.hint and not job.copy.exists()


PARENT = """
import sys
import bpy
from pathlib import Path
from addon.runs import workflow
from splat_engine.formats.settings import CaptureSettings
bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
settings = CaptureSettings(views=500, resolution=64, samples=4, hold_out=0, denoise=False)
session = workflow.capture_session(
    workflow.FitRequest(bpy.context.scene, Path(sys.argv[2]), Path(sys.argv[2]), capture=settings, in_place=False)
)
session.start()
while session.poll(wait_s=20):
    if session.report.step >= 1:
        print(session._capture._process.pid, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches the end of a process that is not a child")
def test_no_orphan_when_blender_is_killed(blend, tmp_path):
    """If Blender dies without a word, the second one notices its closed stdin and ends; its views are kept."""
    out = tmp_path / "out"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(blend), str(out)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert parent.stdout is not None
        child = next(int(line) for line in parent.stdout if line.strip().isdigit())
        alive = os.pidfd_open(child)
        parent.kill()
        assert select.select([alive], [], [], 30)[0], "the second Blender goes on without its parent"
        os.close(alive)
    finally:
        parent.kill()
        parent.communicate()
    listed = json.loads((out / "transforms.partial.json").read_text())
    assert 1 <= len(listed["frames"]) < 500 and (out / "views" / "captured.jsonl").is_file()
