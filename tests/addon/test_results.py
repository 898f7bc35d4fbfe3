"""addon.scene.results: earlier splats kept, originals hidden for a result and shown again exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import registration
from addon.display import rig_overlay
from addon.runs import following, workflow
from addon.runs.session import Session
from addon.scene import results, splat_object
from addon.settings import target_size
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.capture_scenes import camera, cube
from tests.addon.clouds import cloud


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def run_with_result(folder: Path) -> RunDirectory:
    run = RunDirectory.create(folder / "run")
    write_splat_ply(run.splats, cloud())
    return run


def states() -> dict[str, tuple[bool, bool]]:
    """Object to (hidden in the viewport, hidden in renders)."""
    return {item.name: (item.hide_get(), item.hide_render) for item in bpy.context.scene.objects}


def splats() -> list[Any]:
    return [item for item in bpy.context.scene.objects if splat_object.is_splat_object(item)]


def test_a_result_replaces_the_earlier_one_or_becomes_a_new_object(tmp_path: Path) -> None:
    """As the panel says: filled anew, or beside it; a kept one is never replaced, also after the choice is another."""
    run, context = run_with_result(tmp_path), bpy.context
    first = workflow.import_run(context.scene, run).object
    results.before_fit(context.scene, run.root, resume=False)
    assert workflow.import_run(context.scene, run).object == first
    context.scene.splatfit.result_mode = "NEW"
    results.before_fit(context.scene, run.root, resume=False)
    second = workflow.import_run(context.scene, run).object
    assert second != first and len(splats()) == 2
    results.before_fit(context.scene, run.root, resume=True)
    assert workflow.import_run(context.scene, run).object == second
    context.scene.splatfit.result_mode = "REPLACE"
    assert workflow.import_run(context.scene, run).object == second
    assert results.made_by(context.scene, run.root) == [second]
    assert set(results.made_by(context.scene, run.root, with_kept=True)) == {first, second}


def test_originals_are_hidden_and_shown_again_exactly(tmp_path: Path) -> None:
    """Hidden ones stay what they were; lights and cameras are not touched; what a person showed meanwhile stays shown."""
    run = run_with_result(tmp_path)
    cube("Plain")
    cube("Eye").hide_set(True)
    cube("Render").hide_render = True
    camera()
    before = states()
    bpy.context.scene.splatfit.hide_originals = True
    made = workflow.import_run(bpy.context.scene, run).object
    assert results.after_fit(bpy.context.scene, made) == ()
    hidden = states()
    assert all(hidden[name] == (True, True) for name in ("Plain", "Eye", "Render"))
    assert hidden["Camera"] == (False, False) and hidden[made.name] == (False, False)
    assert bpy.ops.splatfit.show_originals() == {"FINISHED"}
    assert {name: states()[name] for name in before} == before
    assert not any(results.HIDDEN_KEY in item for item in bpy.context.scene.objects)
    results.after_fit(bpy.context.scene, made)
    bpy.data.objects["Eye"].hide_set(False)
    results.before_fit(bpy.context.scene, run.root, resume=False)
    assert not bpy.data.objects["Eye"].hide_get() and states()["Plain"] == (False, False)


def test_nothing_is_hidden_unless_asked_for(tmp_path: Path) -> None:
    """By default the originals stay; there is nothing to show again then."""
    run = run_with_result(tmp_path)
    cube("Plain")
    made = workflow.import_run(bpy.context.scene, run).object
    results.after_fit(bpy.context.scene, made)
    assert states()["Plain"] == (False, False)
    with pytest.raises(RuntimeError, match="poll"):
        bpy.ops.splatfit.show_originals()


def test_hidden_twice_it_still_knows_the_beginning(tmp_path: Path) -> None:
    """A second result over hidden originals does not take the hidden state for the first one."""
    run = run_with_result(tmp_path)
    cube("Plain")
    made = workflow.import_run(bpy.context.scene, run).object
    bpy.context.scene.splatfit.hide_originals = True
    results.after_fit(bpy.context.scene, made)
    results.after_fit(bpy.context.scene, made)
    results.show_originals(bpy.context.scene)
    assert states()["Plain"] == (False, False)


def test_results_are_not_seen_meanwhile(tmp_path: Path) -> None:
    """Within, no splats of the run render, kept ones too; afterwards those that did do."""
    run = run_with_result(tmp_path)
    first = workflow.import_run(bpy.context.scene, run).object
    results.keep_earlier(bpy.context.scene, run.root)
    second = workflow.import_run(bpy.context.scene, run).object
    second.hide_render = True
    with pytest.raises(KeyError), results.as_fitted(bpy.context.scene, run.root):
        assert first.hide_render and second.hide_render
        raise KeyError
    assert not first.hide_render and second.hide_render


def test_results_hidden_for_a_later_one_are_no_originals(tmp_path: Path) -> None:
    """An earlier result of the run, hidden with the originals for the next one, does not come back with them."""
    run = run_with_result(tmp_path)
    original = cube("Plain")
    first = workflow.import_run(bpy.context.scene, run).object
    results.keep_earlier(bpy.context.scene, run.root)
    second = workflow.import_run(bpy.context.scene, run).object
    results.hide_originals(bpy.context.scene, second)
    with results.as_fitted(bpy.context.scene, run.root):
        assert first.hide_render and second.hide_render and not original.hide_render
    assert first.hide_render and not second.hide_render and original.hide_render


def test_hidden_originals_are_still_what_is_measured_and_shown(tmp_path: Path) -> None:
    """The size and the rig are those of the next fit, which shows them; afterwards they are hidden as before."""
    run = run_with_result(tmp_path)
    cube("Plain", size=3)
    cube("Never", (50, 0, 0)).hide_render = True
    made = workflow.import_run(bpy.context.scene, run).object
    bpy.context.scene.splatfit.hide_originals = True
    results.after_fit(bpy.context.scene, made)
    bpy.context.view_layer.update()
    assert target_size.measure(bpy.context.scene).size == pytest.approx((3, 3, 3))
    bpy.context.scene.splatfit.run_directory = str(run.root)
    assert bpy.ops.splatfit.show_rig() == {"FINISHED"}
    framing = rig_overlay.shown(bpy.context.scene).framing
    assert framing.bounds_max == pytest.approx((1.5, 1.5, 1.5))
    assert states()["Plain"] == (True, True) and states()[made.name] == (False, False)


def test_a_result_that_comes_home_does_as_the_panel_says(tmp_path: Path) -> None:
    """Through the one way by which results come in: the originals are hidden, and the next press of Fit shows them."""
    run = run_with_result(tmp_path)
    cube("Plain")
    bpy.context.scene.splatfit.hide_originals = True
    job = following.job_of(Session(run, None), bpy.context.scene)
    following.bring_home(job)
    assert states()["Plain"] == (True, True) and states()[job.result_name] == (False, False)
    results.before_fit(bpy.context.scene, run.root, resume=False)
    assert states()["Plain"] == (False, False)
