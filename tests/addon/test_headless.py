"""addon.commands.headless: the commands that need no engine, their exit codes, JSON and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon.commands import command_line, headless
from addon.scene import splat_object
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, View, write_capture
from splat_engine.formats.exr import read_passes
from splat_engine.formats.settings import PRESETS, CaptureSettings
from splat_engine.formats.splat_ply import read_splat_ply, write_splat_ply
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud
from tests.addon.test_blender_render import one_splat, perspective


@pytest.fixture
def ply(tmp_path: Path) -> Path:
    path = tmp_path / "cloud.ply"
    splats = cloud(40)
    splats.metadata["formation"] = "blender"
    write_splat_ply(path, splats)
    return path


@pytest.fixture
def blend(tmp_path: Path) -> Path:
    """A saved file with a cube in a scene of its own name."""
    path = tmp_path / "source.blend"
    bpy.ops.mesh.primitive_cube_add()
    bpy.context.scene.name = "Stage"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


def run(*words: object) -> int:
    return headless.main([str(word) for word in words])


def test_import_into_a_file(ply, blend, tmp_path):
    """The result has the old objects and the splats; the source's bytes are untouched; JSON says what was done."""
    before = blend.read_bytes()
    out, report = tmp_path / "result.blend", tmp_path / "report.json"
    assert run("import", ply, blend, "--out", out, "--json", report) == 0
    assert blend.read_bytes() == before
    said = json.loads(report.read_text())
    assert said["ok"] and said["splats"] == 40 and said["object"] == "cloud" and said["seconds.import"] > 0
    bpy.ops.wm.open_mainfile(filepath=str(out))
    assert {"Cube", "cloud"} <= set(bpy.data.objects.keys())
    assert splat_object.get_provenance(bpy.data.objects["cloud"]).run == str(ply)
    assert not list(tmp_path.glob("*.part*"))


def test_import_without_a_file(ply, tmp_path):
    """Without a .blend the splats stand in a new, empty file."""
    bpy.ops.wm.read_factory_settings()
    assert run("import", ply, "--out", tmp_path / "new.blend") == 0
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "new.blend"))
    assert bpy.data.objects.keys() == ["cloud"]


def test_there_and_back(ply, blend, tmp_path):
    """Import, then export, gives the same PLY but for float32's rounding of opacity and scale."""
    out, again = tmp_path / "result.blend", tmp_path / "again.ply"
    assert run("import", ply, blend, "--out", out) == 0
    assert run("export", out, "--out", again) == 0
    first, second = read_splat_ply(ply)[0], read_splat_ply(again)[0]
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(first.sh, second.sh)
    np.testing.assert_allclose(first.opacity_logits, second.opacity_logits, atol=1e-5)
    assert second.metadata["formation"] == "blender"


def test_export_applies_the_transform(ply, blend, tmp_path):
    """The object's place counts, unless --local."""
    out = tmp_path / "result.blend"
    assert run("import", ply, blend, "--out", out) == 0
    bpy.ops.wm.open_mainfile(filepath=str(out))
    bpy.data.objects["cloud"].location = (10, 0, 0)
    bpy.ops.wm.save_mainfile()
    assert run("export", out, "--out", tmp_path / "world.ply") == 0
    assert run("export", out, "--local", "--out", tmp_path / "local.ply") == 0
    world, local = (read_splat_ply(tmp_path / f"{name}.ply")[0] for name in ("world", "local"))
    np.testing.assert_allclose(world.means, local.means + [10, 0, 0], atol=1e-5)


def test_render_command(tmp_path):
    """Each test view becomes an EXR of its size, named as the capture names the view."""
    write_splat_ply(tmp_path / "one.ply", one_splat((0.2, 0, 0)))
    out = tmp_path / "result.blend"
    assert run("import", tmp_path / "one.ply", "--out", out) == 0
    views = tuple(View(perspective(20 + i, 16), split="test" if i else "train") for i in range(3))
    write_capture(Capture(tmp_path / "capture", views))
    report = tmp_path / "r.json"
    words = ["render", out, "--cameras", tmp_path / "capture", "--samples", 4, "--out", tmp_path / "pictures"]
    assert run(*words, "--json", report) == 0
    paths = [Path(path) for path in json.loads(report.read_text())["views"]]
    assert [path.parent.name for path in paths] == ["pictures"] * 2
    shapes = [read_passes(path, ("color",))["color"].shape for path in paths]
    assert shapes == [(16, 21, 4), (16, 22, 4)]


@pytest.mark.parametrize(
    "words, said",
    [
        (("import", "{dir}/no.ply", "--out", "{dir}/r.blend"), "no.ply"),
        (("import", "{dir}/source.blend", "--out", "{dir}/r.blend"), "not a PLY"),
        (
            ("import", "{dir}/cloud.ply", "{dir}/source.blend", "--out", "{dir}/source.blend"),
            "replace the source",
        ),
        (("import", "{dir}/cloud.ply", "--out", "{dir}/r.ply"), "must be a .blend"),
        (("import", "{dir}/cloud.ply", "{dir}/cloud.ply", "--out", "{dir}/r.blend"), "Cannot open"),
        (("import", "{dir}/cloud.ply", "{dir}/none.blend", "--out", "{dir}/r.blend"), "none.blend"),
        (("import", "{dir}/cloud.ply", "--out", "{dir}/cloud.ply/r.blend"), "Cannot write"),
        (("export", "{dir}/source.blend", "--out", "{dir}/r.ply"), "no splat object"),
        (
            ("export", "{dir}/source.blend", "--object", "Cube", "--out", "{dir}/r.ply"),
            "'Cube' is not a splat",
        ),
        (("export", "{dir}/source.blend", "--object", "X", "--out", "{dir}/r.ply"), "no object 'X'"),
        (("export", "{dir}/source.blend", "--scene", "X", "--out", "{dir}/r.ply"), "Its scenes are: Stage"),
        (("render", "{dir}/source.blend", "--cameras", "{dir}", "--out", "{dir}/r"), "transforms.json"),
        (("capture", "{dir}/source.blend", "--views", "0", "--out", "{dir}/r"), "views is 0"),
        (("fit", "{dir}/source.blend", "--out", "{dir}/r.blend", "--engine-python", "/gone"), "/gone"),
        (("fit", "{dir}/source.blend", "--out", "{dir}/source.blend"), "replace the source"),
        (("fit", "{dir}/source.blend", "--out", "{dir}/r.blend", "--steps", "-1"), "steps is -1"),
    ],
)
def test_mistakes_are_told(words, said, ply, blend, tmp_path, capfd):
    """Exit code 1, headline and hint on stderr, the error as JSON, no traceback, no result."""
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    words = [word.format(dir=tmp_path) for word in words]
    report = tmp_path / "report.json"
    assert run(*words, "--json", report) == 1
    stderr = capfd.readouterr().err
    assert said in stderr and "Traceback" not in stderr
    error: dict[str, Any] = json.loads(report.read_text())
    assert not error["ok"] and error["error"]["headline"]
    report.unlink()
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_preset_is_of_capture_and_fit():
    """fit --preset sets views and samples, steps and splats; what is said by itself wins; capture knows no preset."""
    parse = command_line.make_parser().parse_args
    options = parse(
        ["fit", "a.blend", "--out", "b.blend", "--preset", "draft", "--views", "9", "--steps", "7"]
    )
    captured, run = command_line.capture_settings(options), command_line.run_settings(options)
    draft = PRESETS["draft"]
    assert (captured.views, captured.samples) == (9, draft["capture"]["samples"])
    assert (run.fit.preset, run.fit.steps, run.fit.max_splats) == ("draft", 7, draft["fit"]["max_splats"])
    plain = parse(["capture", "a.blend", "--out", "b"])
    assert command_line.capture_settings(plain) == CaptureSettings()


def test_wrong_command_lines(capfd):
    """argparse's own words and exit code 2; help and version end with 0."""
    assert run("fit", "--no-such-option") == 2
    assert run() == 2
    assert run("import") == 2
    assert run("--help") == 0 and run("fit", "--help") == 0 and run("--version") == 0
    shown = capfd.readouterr().out
    assert "--capture-target" in shown and "--densify-gradient" in shown and "Splatfit 0." in shown


def test_blenders_own_command_is_the_same(ply, tmp_path):
    """``blender --command splatfit ...`` hands over its arguments and returns the exit code."""
    assert headless.blender_command(["import", str(ply), "--out", str(tmp_path / "r.blend")]) == 0
    assert headless.blender_command(["import", str(ply), "--out", str(tmp_path / "r.ply")]) == 1


def test_failure_of_ours_is_not_dressed_up(ply, tmp_path, monkeypatch, capfd):
    """A bug ends with exit code 3 and its traceback: it must be reported."""
    monkeypatch.setattr(headless.workflow, "import_ply", lambda *a: 1 / 0)
    assert run("import", ply, "--out", tmp_path / "r.blend") == 3
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_force_lets_the_source_be_replaced(ply, blend):
    """--force is the way to say so."""
    assert run("import", ply, blend, "--out", blend, "--force") == 0
    bpy.ops.wm.open_mainfile(filepath=str(blend))
    assert "cloud" in bpy.data.objects


def test_open_file_is_used(ply, blend, tmp_path):
    """As with ``blender -b FILE --command splatfit import ...``: what is open is the source, and is guarded too."""
    assert run("import", ply, "--out", blend) == 1
    assert run("import", ply, "--out", tmp_path / "r.blend") == 0
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "r.blend"))
    assert {"Cube", "cloud"} <= set(bpy.data.objects.keys())


def test_several_splat_objects_must_be_named(ply, blend, tmp_path, capfd):
    """With two in the scene, --object decides."""
    out = tmp_path / "r.blend"
    assert run("import", ply, blend, "--out", out) == 0
    assert run("import", ply, out, "--out", out, "--force") == 0
    assert run("export", out, "--out", tmp_path / "x.ply") == 1
    assert "cloud, cloud.001" in capfd.readouterr().err
    assert run("export", out, "--object", "cloud.001", "--out", tmp_path / "x.ply") == 0


def test_empty_ply_is_told(tmp_path, capfd):
    """A PLY without rows holds nothing to draw."""
    write_splat_ply(tmp_path / "none.ply", Splats.empty())
    assert run("import", tmp_path / "none.ply", "--out", tmp_path / "r.blend") == 1
    assert "nothing to draw" in capfd.readouterr().err


def test_camera_names_of_foreign_captures():
    """Views without files are named by their number."""
    camera = Camera(4, 4, 4, 4, 2, 2, np.eye(4))
    assert headless.blender_render.view_name(View(camera), 0) == "0001"
    assert headless.blender_render.view_name(View(camera, exr="views/0007.exr"), 0) == "0007"


def test_capture_has_the_presets():
    """``capture --preset`` asks for the views and samples that the panel's Quality does; an option said beside it wins."""
    parser = command_line.make_parser()
    for preset in PRESETS:
        options = parser.parse_args(["capture", "x.blend", "--out", "y", "--preset", preset])
        expected = parser.parse_args(["fit", "x.blend", "--out", "y", "--preset", preset])
        assert command_line.capture_settings(options) == command_line.capture_settings(expected)
    options = parser.parse_args(["capture", "x.blend", "--out", "y", "--preset", "draft", "--views", "7"])
    assert command_line.capture_settings(options).views == 7
