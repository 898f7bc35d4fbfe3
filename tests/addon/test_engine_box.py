"""The engine in panel and preferences, and its operators: what is missing, how far its set-up is, what a check found."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest

from addon import panels, registration
from addon.engine import engine_jobs
from addon.engine.setup import jobs, place, plan
from addon.settings import preferences
from splat_engine.formats.errors import UserError
from tests.addon.fake_layout import FakeLayout, draw

FAKE = Path(__file__).with_name("fake_uv.py")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


@pytest.fixture
def own(tmp_path, monkeypatch) -> place.EnginePlace:
    """An installed extension's place and wheel, with no engine yet, in a Blender that may go online."""
    wheel = tmp_path / "splat_engine-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    found = place.EnginePlace(tmp_path / "engine")
    monkeypatch.setattr(engine_jobs, "place", lambda: found)
    monkeypatch.setattr(engine_jobs, "carried_wheel", lambda addon: wheel)
    monkeypatch.setattr(engine_jobs.engine_process, "checkout", lambda: None)
    monkeypatch.setattr(engine_jobs, "may_set_up", lambda: True)
    monkeypatch.delenv("SPLATFIT_ENGINE_PYTHON", raising=False)
    engine_jobs.look_again()
    return found


def engine_job(own, **values: Any) -> jobs.Job:
    """Makes a set-up in a given state the current one."""
    job = jobs.Job(lambda job: {}, own.log, {})
    for name, value in values.items():
        setattr(job, name, value)
    engine_jobs._job = job
    return job


def test_the_engine_is_offered_in_one_line(own):
    """On first use: what is missing, one button, what it takes and where; the panel shows itself."""
    assert panels.engine.SPLATFIT_PT_engine.poll(bpy.context)
    layout = draw(panels.engine.SPLATFIT_PT_engine)
    assert layout.operators() == ["splatfit.set_up_engine"]
    assert layout.texts()[0] == "The engine is not set up yet."
    assert {"0.3 GB to download", "1.3 GB on the disk, in"} <= set(layout.texts())
    assert layout.texts()[-1].startswith("...") and str(own.root).endswith(layout.texts()[-1][3:])
    in_preferences = FakeLayout()
    registration._draw_engine(in_preferences)
    assert str(own.root)[-80:] in in_preferences.texts()[-1]


def test_offline_is_said_with_the_way_to_the_preferences(own, monkeypatch):
    """Where Blender may not go online, the panel says so and leads to the setting."""
    monkeypatch.setattr(engine_jobs, "may_set_up", lambda: False)
    layout = draw(panels.engine.SPLATFIT_PT_engine)
    assert "Blender may not go online." in layout.texts()
    assert layout.operators() == ["splatfit.set_up_engine", "screen.userpref_show"]


def test_progress_of_the_engines_setup(own):
    """While it is made: phase, bar, detail, and Cancel; nothing else to press."""
    engine_job(own, phase="Fetching uv", detail="3 of 18 MB", share=0.25)
    layout = draw(panels.engine.SPLATFIT_PT_engine)
    (bar,) = [arguments for name, arguments in layout.calls if name == "progress"]
    assert bar["text"] == "Fetching uv" and bar["factor"] == 0.25 and "3 of 18 MB" in layout.texts()
    assert layout.operators() == ["splatfit.cancel_engine_setup"]


def test_a_failed_setup_is_shown_with_its_remedy(own):
    """Headline and hint, and the button to try again."""
    engine_job(own, is_over=True, error=UserError("The disk is full.", "Free some space."))
    layout = draw(panels.engine.SPLATFIT_PT_engine)
    assert {"The disk is full.", "Free some space."} <= set(layout.texts())
    assert layout.operators() == ["splatfit.set_up_engine"]


def test_cancelled_and_finished(own, monkeypatch):
    """A cancelled set-up is offered again; a finished one shows what the check found."""
    engine_job(own, is_over=True, is_cancelled=True)
    assert "Cancelled. What has been" in draw(panels.engine.SPLATFIT_PT_engine).texts()
    engine_job(own, is_over=True, facts={"torch": "2.13.0", "device": "cpu"})
    monkeypatch.setattr(engine_jobs, "missing", lambda: "")
    layout = draw(panels.engine.SPLATFIT_PT_engine)
    assert {"The engine works.", "Torch: 2.13.0", "Device: cpu"} <= set(layout.texts())
    assert layout.operators() == ["splatfit.check_engine"]


def test_with_an_engine_the_panel_is_out_of_the_way(own, monkeypatch):
    """Nothing missing, nothing under way: no panel."""
    monkeypatch.setattr(engine_jobs, "missing", lambda: "")
    assert not panels.engine.SPLATFIT_PT_engine.poll(bpy.context)


def test_status_of_the_place_in_words(own):
    """An unfinished and an outdated environment are told apart, and neither is used."""
    own.cache.mkdir(parents=True)
    engine_jobs.look_again()
    assert engine_jobs.missing() == "The engine's set-up is not finished."
    assert "Go On with the Set-Up" in draw(panels.engine.SPLATFIT_PT_engine).texts()
    own.python.parent.mkdir(parents=True)
    own.python.touch()
    own.stamp.write_text('{"wheel_sha256": "of another"}')
    engine_jobs.look_again()
    assert engine_jobs.missing() == "The engine is of another version of Splatfit."
    assert engine_jobs.own_python() == ""
    place.write_stamp(own, engine_jobs.carried_wheel(own.root), {})
    engine_jobs.look_again()
    assert engine_jobs.missing() == "" and engine_jobs.find_python() == own.python


def test_preferences_draw(own):
    """The preferences say how it is with the engine, and show both paths."""
    layout = FakeLayout()
    drawn: Any = preferences.make_class(registration._draw_engine)
    known = _HasProperty("engine_python", "wheel_folder")
    drawn.draw(type("Preferences", (), {"layout": layout, "bl_rna": known})(), bpy.context)
    assert layout.operators() == ["splatfit.set_up_engine"]
    assert [a["property"] for name, a in layout.calls if name == "prop"] == ["engine_python", "wheel_folder"]


class _HasProperty:
    def __init__(self, *names: str) -> None:
        self.properties = set(names)


def test_set_up_is_off_where_blender_may_not_go_online(own, monkeypatch):
    """The button is grey; nothing is asked of the network."""
    assert bpy.ops.splatfit.set_up_engine.poll()
    monkeypatch.setattr(engine_jobs, "may_set_up", lambda: False)
    assert not bpy.ops.splatfit.set_up_engine.poll() and not bpy.ops.splatfit.cancel_engine_setup.poll()


def test_set_up_of_a_checkout_is_refused_in_words(monkeypatch):
    """There is no wheel to install: `make setup` is the way."""
    monkeypatch.setattr(engine_jobs, "may_set_up", lambda: True)
    with pytest.raises(RuntimeError, match="carries no wheel"):
        bpy.ops.splatfit.set_up_engine()


def test_one_at_a_time(own):
    """While one is under way neither set-up nor check can be started, and it can be cancelled."""
    engine_job(own)
    assert not bpy.ops.splatfit.set_up_engine.poll() and not bpy.ops.splatfit.check_engine.poll()
    assert bpy.ops.splatfit.cancel_engine_setup() == {"FINISHED"}
    assert engine_jobs.current().runner.is_cancelled()


def put_uv(own) -> None:
    """Puts the stand-in for uv where a download would have put uv."""
    own.root.mkdir()
    uv = own.root / f"uv-{plan.UV_VERSION}"
    uv.write_text(FAKE.read_text(encoding="utf-8"), encoding="utf-8")
    uv.chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for uv is a script with a #! line")
def test_set_up_and_check_by_their_operators(own, monkeypatch, tmp_path):
    """In background the operators wait for the end: from nothing to an engine that was checked, and one that fails."""
    put_uv(own)
    assert bpy.ops.splatfit.set_up_engine() == {"FINISHED"}
    assert engine_jobs.missing() == "" and engine_jobs.current().facts["device"] == "cpu"
    calls = [json.loads(line)["arguments"][0] for line in (own.root / "calls.jsonl").read_text().splitlines()]
    assert calls == ["--version", "venv", "pip"]
    found = engine_jobs.engine_process.EngineInfo(own.python, "3.12", plan.TORCH_VERSION, "0.1.0")
    monkeypatch.setattr(engine_jobs.engine_process, "check_python", lambda python: found)
    assert bpy.ops.splatfit.check_engine() == {"FINISHED"}
    monkeypatch.setenv("FAKE_UV", "doctor:error: The fit of one second does not learn")
    with pytest.raises(RuntimeError, match="does not learn"):
        bpy.ops.splatfit.check_engine()


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for uv is a script with a #! line")
def test_the_end_of_the_extension_ends_the_setup(own, monkeypatch):
    """Blender disables its add-ons when it quits: uv does not outlive it, and nothing passes for whole."""
    put_uv(own)
    monkeypatch.setenv("FAKE_UV", "install:hang")
    job = jobs.setup_job(engine_jobs.make_plan())
    engine_jobs.begin(job)
    while "hanging" not in (own.log.read_text() if own.log.is_file() else ""):
        assert job.wait_for_news(0.05), job.error
    registration.unregister()
    assert job.is_over and job.is_cancelled and engine_jobs.current() is None
    registration.register()
    assert engine_jobs.missing() == "The engine's set-up is not finished."
