"""addon.operators.presets: Blender's own preset system, with ours beside those of a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import registration
from addon.operators.presets import SUBDIRECTORY, preset_values
from addon.settings import properties
from splat_engine.formats.settings import (
    PRESETS,
    CaptureSettings,
    RunSettings,
    capture_with_preset,
    declarations,
    run_with_preset,
)


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("BLENDER_USER_SCRIPTS", str(tmp_path))
    registration.register()
    yield
    registration.unregister()


OURS = {name.title() for name in PRESETS}
"""As a person reads them: Blender shows the names of the files."""


def chosen() -> Any:
    return bpy.context.scene.splatfit


def files() -> dict[str, Path]:
    """Name to file of every preset that Blender finds."""
    return {
        path.stem: path
        for folder in bpy.utils.preset_paths(SUBDIRECTORY)
        for path in sorted(Path(folder).glob("*.py"))
    }


def apply(name: str) -> None:
    done = bpy.ops.script.execute_preset(filepath=str(files()[name]), menu_idname="SPLATFIT_MT_presets")
    assert done == {"FINISHED"}


def test_ours_are_the_qualities() -> None:
    """Blender finds one for each quality; each puts everything else back to its default and leaves the target alone."""
    assert set(files()) == OURS
    for name in PRESETS:
        chosen().densify.looks, chosen().capture.lens_mm, chosen().fit.steps = 3, 35.0, 9
        chosen().capture.target = "Chair"
        apply(name.title())
        assert properties.run_settings(bpy.context.scene) == run_with_preset(RunSettings(), name)
        assert chosen().quality == name and chosen().capture.target == "Chair"
        chosen().capture.target = ""
        assert properties.capture_settings(bpy.context.scene) == capture_with_preset(CaptureSettings(), name)


def test_every_setting_is_kept_but_the_names_of_objects() -> None:
    """Of each group; the quality's name stands first, for it sets others."""
    kept = preset_values()
    assert kept[0] == "chosen.fit.preset" and len(kept) == len(set(kept))
    for group, settings in properties.GROUPS.items():
        wanted = {f"chosen.{group}.{name}" for name in declarations(settings)}
        assert wanted - set(kept) <= {"chosen.capture.target", "chosen.capture.faces"}


def test_a_persons_preset_is_kept_applied_and_removed() -> None:
    """Added under a name, everything comes back by it, odd combinations too; removed, its file is gone."""
    chosen().quality = "high"
    chosen().fit.steps, chosen().capture.rig, chosen().loss.random_background = 1234, "inside", False
    before = (properties.capture_settings(bpy.context.scene), properties.run_settings(bpy.context.scene))
    assert bpy.ops.splatfit.add_preset(name="My Room") == {"FINISHED"}
    apply("Draft")
    assert properties.run_settings(bpy.context.scene) != before[1]
    apply("My_Room")
    after = (properties.capture_settings(bpy.context.scene), properties.run_settings(bpy.context.scene))
    assert after == before
    bpy.ops.splatfit.add_preset(name="My Room", remove_name=True)
    assert "My_Room" not in files()


def test_custom_is_kept_too() -> None:
    """A preset of a custom quality is custom, though its numbers are a quality's."""
    chosen().quality = "custom"
    bpy.ops.splatfit.add_preset(name="Mine")
    chosen().quality = "standard"
    apply("Mine")
    assert chosen().quality == "custom"


def test_unregistering_takes_the_folder_away() -> None:
    """Blender no longer looks into the add-on; doing it twice is no error."""
    registration.unregister()
    assert not files()
    registration.register()
    assert set(files()) == OURS
