"""addon.registration and addon.settings.properties: all of it in Blender, and nothing left behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import bpy
import pytest

from addon import registration
from addon.runs import running
from addon.runs.session import Session, State
from addon.settings import properties
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import (
    CaptureSettings,
    RunSettings,
    capture_with_preset,
    declarations,
    run_with_preset,
)


@pytest.fixture
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def ours() -> set[str]:
    """Everything of ours that Blender knows of."""
    found = {name for name in dir(bpy.types) if name.startswith("SPLATFIT")}
    found |= {f"splatfit.{name}" for name in dir(bpy.ops.splatfit)}
    menus = (bpy.types.TOPBAR_MT_file_import, bpy.types.TOPBAR_MT_file_export)
    found |= {str(f) for menu in menus for f in menu._dyn_ui_initialize() if f.__module__.startswith("addon")}
    return found | ({"Scene.splatfit"} if hasattr(bpy.types.Scene, "splatfit") else set())


def test_twice_in_a_row_and_clean():
    """Registering and unregistering twice leaves nothing behind: no class, operator, menu entry or property."""
    assert not ours()
    for _ in range(2):
        registration.register()
        assert {"SPLATFIT_PT_main", "SPLATFIT_OT_fit", "Scene.splatfit"} <= ours()
        registration.unregister()
        assert not ours()


def test_failure_half_way_leaves_nothing(monkeypatch):
    """If one class cannot be registered, those before it are taken away again."""
    broken = type(
        "SPLATFIT_PT_broken", (bpy.types.Panel,), {"bl_space_type": "NOWHERE", "bl_region_type": "UI"}
    )
    monkeypatch.setattr(registration.panels, "CLASSES", (*registration.panels.CLASSES, broken))
    with pytest.raises(AttributeError, match="draw"):
        registration.register()
    assert not ours()


def test_unregistering_ends_what_runs(tmp_path):
    """Disabling the add-on while something runs cancels it."""
    registration.register()
    session = Session(RunDirectory.create(tmp_path), None, iter([(1, 2), (2, 2)]))
    session.start()
    running.begin(running.Running(session, "Scene"))
    registration.unregister()
    assert session.state is State.CANCELLED and running.current() is None


def test_properties_say_what_is_declared(registered):
    """Every setting is a Blender property with the declared default, limits, label and choices."""
    for group, settings in properties.GROUPS.items():
        rna = getattr(bpy.context.scene.splatfit, group).bl_rna
        for name, (kind, default, declared) in declarations(settings).items():
            found = rna.properties[name]
            assert found.name == declared.label and found.description.startswith(declared.help.rstrip("."))
            if declared.choices:
                assert [i.identifier for i in found.enum_items] == list(declared.choices)
                assert found.default == default
            elif kind is float:
                assert found.default == pytest.approx(default, rel=1e-6)
            else:
                assert found.default == default
            if kind in (int, float) and not math.isinf(declared.minimum):
                assert found.hard_min == pytest.approx(declared.minimum)
            if kind in (int, float) and not math.isinf(declared.maximum):
                assert found.hard_max == pytest.approx(min(declared.maximum, 2**31 - 1))


def test_untouched_properties_are_the_default_settings(registered):
    """float32 costs nothing: what nobody touched is exactly the default."""
    assert properties.run_settings(bpy.context.scene) == RunSettings()
    assert (
        properties.capture_settings(bpy.context.scene)
        == type(properties.capture_settings(bpy.context.scene))()
    )


def test_touched_properties_arrive(registered):
    """What a person sets is what the engine gets."""
    chosen: Any = bpy.context.scene.splatfit
    chosen.capture.views, chosen.capture.target, chosen.capture.rig = 7, "Cube", "dome"
    chosen.optimizer.means, chosen.loss.random_background = 3.3e-4, False
    captured, run = properties.capture_settings(bpy.context.scene), properties.run_settings(bpy.context.scene)
    assert (captured.views, captured.target, captured.rig) == (7, "Cube", "dome")
    assert (run.optimizer.means, run.loss.random_background) == (3.3e-4, False)


def test_a_chosen_preset_sets_what_it_is_about(registered):
    """Steps and splats of the fit, views and samples of the capture; another preset sets them anew, a person may too."""
    chosen: Any = bpy.context.scene.splatfit
    for name in ("draft", "high", "standard"):
        chosen.fit.preset = name
        captured, run = (
            properties.capture_settings(bpy.context.scene),
            properties.run_settings(bpy.context.scene),
        )
        assert run == run_with_preset(RunSettings(), name)
        assert captured == capture_with_preset(CaptureSettings(), name)
    chosen.fit.steps = 77
    assert properties.run_settings(bpy.context.scene).fit.steps == 77


def test_values_beyond_limits_are_told(registered, monkeypatch):
    """A value that Blender let through and the declaration forbids is an error in words."""
    monkeypatch.setattr(properties, "group_values", lambda group, settings: {"views": 0})
    with pytest.raises(UserError, match="views is 0"):
        properties.capture_settings(bpy.context.scene)


def test_settings_are_saved_with_the_scene(registered, tmp_path):
    """They live in the .blend."""
    bpy.context.scene.splatfit.fit.steps = 321
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "a.blend"))
    bpy.ops.wm.read_factory_settings(use_empty=True)
    assert bpy.context.scene.splatfit.fit.steps == RunSettings().fit.steps
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "a.blend"))
    assert bpy.context.scene.splatfit.fit.steps == 321
