"""addon.panels: drawn headless against a layout that knows what UILayout can do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import pytest

from addon import panels, registration, running, scene
from addon.operators import words
from addon.session import Session, State
from splat_engine.formats import events
from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import CaptureSettings, declarations
from tests.addon.clouds import cloud
from tests.addon.fake_layout import FakeLayout, draw


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def job(state: State, **report: Any) -> running.Running:
    """Makes a session in a given state the current one."""
    session = Session(RunDirectory(Path("run")), None)
    session.state = state
    for name, value in report.items():
        setattr(session.report, name, value)
    made = running.Running(session, "Scene")
    running.begin(made)
    return made


@pytest.mark.parametrize("panel", panels.CLASSES, ids=lambda panel: panel.__name__)
def test_panels_draw(panel):
    """Each panel draws with calls that this Blender's UILayout takes: names, icons, properties, operators."""
    assert draw(panel).calls


def test_main_panel_offers_the_fit():
    """At rest: the settings asked for most, and the two buttons."""
    layout = draw(panels.main.SPLATFIT_PT_main)
    assert layout.operators() == ["splatfit.fit", "splatfit.capture"]
    assert ("prop", "views") in [(name, a.get("property")) for name, a in layout.calls]


@pytest.mark.parametrize(
    "state, text",
    [(State.CAPTURING, "Capturing 3/10"), (State.FITTING, "Fitting 3/10"), (State.PAUSED, "Paused 3/10")],
)
def test_progress_is_shown(state, text):
    """While it runs: a bar with words; in a fit the figures, and buttons to pause and stop instead of to start."""
    job(state, step=3, steps=10, psnr_db=21.5, splats=12345, seconds_left=75.0)
    layout = draw(panels.main.SPLATFIT_PT_main)
    (bar,) = [arguments for name, arguments in layout.calls if name == "progress"]
    assert bar["text"] == text and bar["factor"] == pytest.approx(0.3)
    if state is State.CAPTURING:
        assert not layout.operators(), "no click arrives while views are rendered"
    else:
        assert layout.operators() == ["splatfit.pause", "splatfit.stop"]
        assert {"21.5 dB on training views", "12,345 splats", "About 1 min 15 s left"} <= set(layout.texts())


def test_error_is_shown_in_words():
    """After a failure headline and hint stand in the panel, broken into lines; the buttons are back."""
    failed = job(State.FAILED)
    failed.session.error = UserError(
        "The engine's Python has no torch and so it can do nothing at all.", "Install it."
    )
    layout = draw(panels.main.SPLATFIT_PT_main)
    text = " ".join(layout.texts())
    assert "has no torch and so it can do nothing at all. Install it." in text
    assert "splatfit.fit" in layout.operators()


def test_memory_error_offers_fewer_splats():
    """Where memory ran out the panel speaks of its own settings, and a button lowers them to what fits."""
    failed = job(State.FAILED)
    hint = "Fit with fewer splats (--max-splats 30000), or with smaller views. --resume goes on from step 7."
    event = events.Failed.of(OutOfMemory("There is not enough memory on cuda:0.", hint, fewer_splats=30000))
    failed.session.error = events.decode_event(events.encode(event)).error()
    layout = draw(panels.main.SPLATFIT_PT_main)
    text = " ".join(layout.texts())
    assert "(Most Splats 30000)" in text and "Resume goes on from step 7." in text and "--" not in text
    assert "Lower to 30,000 Splats" in text
    assert bpy.ops.splatfit.lower_budget(most=30000) == {"FINISHED"}
    chosen = bpy.context.scene.splatfit
    assert chosen.fit.max_splats == chosen.start.start_splats == 30000
    bpy.ops.splatfit.lower_budget(most=40000)
    assert chosen.fit.max_splats == 30000


def test_details_of_an_error():
    """The button opens what stands behind the error: versions, headline, cause, with folders masked; without one it is off."""
    assert not bpy.ops.splatfit.error_details.poll()
    failed = job(State.FAILED)
    cause = "File /home/anna/secret film/run/engine.log, line 3"
    failed.session.error = UserError("The engine died.", "See /home/anna/secret film/run/engine.log.", cause)
    assert "splatfit.error_details" in draw(panels.main.SPLATFIT_PT_main).operators()
    assert bpy.ops.splatfit.error_details.poll()
    text = words.error_report(failed.session.error)
    assert "Blender" in text and "The engine died." in text and ".../engine.log, line 3" in text
    assert "anna" not in text and "secret" not in text


def test_result_is_shown():
    """After a good ending: quality, seconds and every warning."""
    done = job(State.FINISHED, test_psnr_db=31.25, warnings=["One view is black."])
    done.session.report.seconds = {"fit": 61.0}
    done.notes = ["Left out 2 of 20 splats."]
    texts = draw(panels.main.SPLATFIT_PT_main).texts()
    assert {"31.2 dB on held-out views", "Fit: 1 min 1 s"} <= set(texts)
    assert {"One view is black.", "Left out 2 of 20 splats."} <= set(texts)  # each fits a line
    running.forget()
    job(State.CANCELLED)
    assert "Cancelled" in draw(panels.main.SPLATFIT_PT_main).texts()


def test_every_setting_is_in_a_panel():
    """Panels are made from the declarations: none is forgotten."""
    drawn = {a.get("property") for _, a in draw(panels.settings.SPLATFIT_PT_capture).calls}
    assert set(declarations(CaptureSettings)) <= drawn


def test_origin_of_the_active_object():
    """With a splat object active, the files panel says which run made it."""
    made = scene.Provenance(run="/runs/7", psnr_db=30.0)
    object = scene.add_splats(cloud(), bpy.context.scene, provenance=made).object
    bpy.context.view_layer.objects.active = object
    texts = draw(panels.files.SPLATFIT_PT_files).texts()
    assert "From /runs/7" in texts and "30.0 dB on held-out views" in texts


def test_fake_layout_refuses_what_blender_would():
    """The stand-in is strict: an unknown argument, icon, property or operator fails."""
    layout = FakeLayout()
    for call in (
        lambda: layout.label(txet="x"),
        lambda: layout.label(text="x", icon="NO_SUCH_ICON"),
        lambda: layout.prop(bpy.context.scene, "no_such_property"),
        lambda: layout.no_such_function(),
        lambda: setattr(layout, "no_such_property", 1),
        lambda: layout.progress(factor=2.0),
    ):
        with pytest.raises(AssertionError):
            call()
    with pytest.raises((KeyError, AttributeError)):
        layout.operator("splatfit.no_such_operator")


@pytest.mark.parametrize(
    "width_px, scale, longest", [(300, 1.0, 32), (600, 2.0, 32), (500, 1.0, 61), (10, 1.0, 12)]
)
def test_lines_follow_the_sidebars_width(width_px, scale, longest):
    """Long words of an error break where the sidebar ends, also on a high-resolution screen."""
    failed = job(State.FAILED)
    failed.session.error = UserError("word " * 60, "")
    system = SimpleNamespace(ui_scale=scale)
    context = SimpleNamespace(
        region=SimpleNamespace(width=width_px),
        preferences=SimpleNamespace(system=system),
        scene=bpy.context.scene,
    )
    lines = [line for line in draw(panels.main.SPLATFIT_PT_main, context).texts() if line.startswith("word")]
    assert longest - 6 <= max(map(len, lines)) <= longest and sum(line.count("word") for line in lines) == 60
