"""addon.operators: what buttons call, run in background."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon import registration, reports
from addon.operators import words
from addon.scene import splat_object
from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import read_splat_ply, write_splat_ply
from tests.addon.clouds import cloud
from tests.addon.fake_layout import FakeLayout


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def test_import_and_export(tmp_path):
    """A PLY goes in and out by the operators of the menus; the object's transform is written."""
    splats = cloud(20)
    write_splat_ply(tmp_path / "in.ply", splats)
    assert bpy.ops.splatfit.import_ply(filepath=str(tmp_path / "in.ply")) == {"FINISHED"}
    object = bpy.data.objects["in"]
    assert not bpy.ops.splatfit.export_ply.poll()
    bpy.context.view_layer.objects.active = object
    object.location.z = 3
    bpy.context.view_layer.update()
    assert bpy.ops.splatfit.export_ply(filepath=str(tmp_path / "out.ply")) == {"FINISHED"}
    found = read_splat_ply(tmp_path / "out.ply")[0]
    np.testing.assert_allclose(found.means, splats.means + [0, 0, 3], atol=1e-6)
    bpy.ops.splatfit.export_ply(filepath=str(tmp_path / "out.ply"), apply_transform=False)
    np.testing.assert_array_equal(read_splat_ply(tmp_path / "out.ply")[0].means, splats.means)


def test_mistake_is_a_report(tmp_path):
    """A missing file is a report in words, not a traceback; nothing is added."""
    with pytest.raises(RuntimeError, match="There is no file .*none.ply"):
        bpy.ops.splatfit.import_ply(filepath=str(tmp_path / "none.ply"))
    assert not bpy.data.objects


@pytest.mark.parametrize("operator", ["fit", "capture"])
def test_unsaved_file_needs_folders(operator):
    """Without a file there is no place beside it: the error says what to do."""
    with pytest.raises(RuntimeError, match="never saved"):
        getattr(bpy.ops.splatfit, operator)()


def test_engine_check_reports(tmp_path, monkeypatch):
    """The preferences' button says what is wrong with the engine's Python."""
    monkeypatch.setenv("SPLATFIT_ENGINE_PYTHON", str(tmp_path / "gone"))
    with pytest.raises(RuntimeError, match="There is no engine Python at .*gone"):
        bpy.ops.splatfit.check_engine()


def test_nothing_to_pause_or_stop():
    """Pause and stop are off when nothing runs."""
    assert not bpy.ops.splatfit.pause.poll() and not bpy.ops.splatfit.stop.poll()
    assert bpy.ops.splatfit.fit.poll() and bpy.ops.splatfit.capture.poll()


def test_menu_entries_draw():
    """The entries in File > Import and Export name operators that exist."""
    layout = FakeLayout()
    menu = type("Menu", (), {"layout": layout})()
    registration._draw_import(menu, bpy.context)
    registration._draw_export(menu, bpy.context)
    assert layout.operators() == ["splatfit.import_ply", "splatfit.export_ply"]


@pytest.mark.parametrize(
    "text, masked",
    [
        ('File "/home/ann/secret/addon/scene/splat_object.py", line 3', 'File ".../splat_object.py", line 3'),
        ("open C:\\Users\\Ann\\x.blend failed", "open .../x.blend failed"),
        ("a/b and 1/2 stay", "a/b and 1/2 stay"),
    ],
)
def test_folders_are_masked(text, masked):
    """A report of a failure names files, not folders: those tell who somebody is."""
    assert reports.mask_folders(text) == masked


def test_mistake_reads_well_where_line_breaks_are_left_out() -> None:
    """The status bar shows a report as one line: there is a space between what is wrong and what to do."""
    reports_made = []

    class Operator:
        bl_idname = "splatfit.test"

        def report(self, kinds: set[str], text: str) -> None:
            reports_made.append((kinds, text))

        @words.in_words
        def execute(self, context: Any) -> Any:
            raise UserError("This file was never saved.", "Save it.")

    assert Operator().execute(None) == {"CANCELLED"}
    ((kinds, text),) = reports_made
    assert kinds == {"ERROR"} and text.splitlines() == ["This file was never saved. ", "Save it."]
    assert text.replace("\n", "") == "This file was never saved. Save it."


def test_failure_of_ours_is_a_dialog(monkeypatch):
    """With a window a bug opens a dialog with the masked details; in background it goes on to the caller."""
    shown: list[dict[str, Any]] = []

    class Operator:
        bl_idname = "splatfit.test"

        @words.in_words
        def execute(self, context: Any) -> Any:
            return 1 / 0

    with pytest.raises(ZeroDivisionError):
        Operator().execute(None)

    class Bpy:
        app = type("app", (), {"background": False, "version_string": "x"})
        ops = type("ops", (), {"splatfit": type("s", (), {"failure": lambda *a, **k: shown.append(k)})})

    monkeypatch.setattr(words, "bpy", Bpy)
    assert Operator().execute(None) == {"CANCELLED"}
    assert (
        "ZeroDivisionError" in shown[0]["details"] and str(Path(__file__).parent) not in shown[0]["details"]
    )


@pytest.mark.parametrize("dialog", [words.SPLATFIT_OT_failure, words.SPLATFIT_OT_error_details])
def test_dialogs_draw(dialog):
    """The dialogs show the details with calls that UILayout takes."""
    layout = FakeLayout()
    values = {"layout": layout, "details": "Traceback\nZeroDivisionError"}
    stand_in = type("Dialog", (), {**values, "intro": dialog.intro, "icon": dialog.icon})()
    dialog.draw(stand_in, bpy.context)
    assert "ZeroDivisionError" in layout.texts() and dialog.intro in layout.texts()


def test_splat_object_makes_export_available():
    """Export is on when a splat object is active, and off for a cube."""
    bpy.ops.mesh.primitive_cube_add()
    assert not bpy.ops.splatfit.export_ply.poll()
    object = splat_object.add_splats(cloud(), bpy.context.scene).object
    bpy.context.view_layer.objects.active = object
    assert bpy.ops.splatfit.export_ply.poll()
