"""addon.panels: drawn headless against a layout that knows what UILayout can do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import pytest

from addon import panels, registration, reports
from addon.runs import running
from addon.runs.session import Session, State
from addon.scene import splat_object
from addon.settings import properties, target_size
from splat_engine.formats import events
from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import PLACED_RIGS, CaptureSettings, declarations
from tests.addon.clouds import cloud
from tests.addon.fake_layout import FakeLayout, attributes_of, draw


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


@pytest.mark.parametrize(
    "panel",
    [panel for panel in panels.CLASSES if panel is not panels.presets.SPLATFIT_PT_presets],  # Blender's own
    ids=lambda panel: panel.__name__,
)
def test_panels_draw(panel):
    """Each panel draws with calls that this Blender's UILayout takes: names, icons, properties, operators."""
    assert draw(panel).calls


def drawn_properties(layout: FakeLayout) -> list[str]:
    return [arguments["property"] for name, arguments in layout.calls if name == "prop"]


def chosen() -> Any:
    return bpy.context.scene.splatfit


MAIN = panels.main.SPLATFIT_PT_main


def test_main_panel_offers_the_fit():
    """At rest: target, cameras, quality, and the buttons; the large one is the fit."""
    layout = draw(MAIN)
    assert layout.operators() == [
        "splatfit.show_rig",
        "splatfit.test_view",
        "splatfit.fit",
        "splatfit.capture",
    ]
    assert drawn_properties(layout) == ["target_kind", "rig", "views", "lens_mm", "distance", "quality"]
    assert {"100 views of 16 samples", "2,000 steps, 200k splats"} <= set(layout.texts())


def test_a_target_is_picked_not_typed():
    """Scene, object or collection; a picker that points at it; a name that an older file typed is not hidden."""
    chosen().target_kind = "OBJECT"
    assert "target_object" in drawn_properties(draw(MAIN))
    chosen().target_kind = "COLLECTION"
    assert "target_collection" in drawn_properties(draw(MAIN))
    chosen().target_kind = "SCENE"
    assert "target" not in drawn_properties(draw(MAIN))
    chosen().capture.target = "Cube"
    assert "target" in drawn_properties(draw(MAIN))


def test_the_targets_size_is_shown_and_not_measured_while_drawing(monkeypatch):
    """Drawing only looks up what was measured; before that it says so."""
    bpy.ops.mesh.primitive_cube_add(size=2)
    assert "Measuring ..." in draw(MAIN).texts()
    target_size.measure(bpy.context.scene)
    monkeypatch.setattr(target_size, "measure", None)
    assert "2 m × 2 m × 2 m" in draw(MAIN).texts()


@pytest.mark.parametrize("rig", panels.main.RIG_SETTINGS)
def test_each_rig_shows_its_few_settings(rig):
    """No rig is forgotten, and each has those that act on it."""
    assert set(panels.main.RIG_SETTINGS) == set(declarations(CaptureSettings)["rig"][2].choices)
    chosen().capture.rig = rig
    properties = drawn_properties(draw(MAIN))
    assert ("views" in properties) == (rig in PLACED_RIGS)
    assert ("elevation_deg" in properties) == (rig == "ring")
    assert ("faces_object" in properties) == (rig == "faces")
    assert ("frames" in properties) == (rig not in PLACED_RIGS)


def test_custom_quality_shows_what_it_is_about():
    """A quality is a line; custom is the numbers themselves."""
    for quality in ("draft", "high", "standard"):
        chosen().quality = quality
        assert "max_splats" not in drawn_properties(draw(MAIN))
    chosen().quality = "custom"
    assert {"views", "samples", "steps", "max_splats"} <= set(drawn_properties(draw(MAIN)))


@pytest.mark.parametrize(
    "state, words, buttons",
    [
        (State.CAPTURING, "View 3 of 10", ["stop", "discard"]),
        (State.FITTING, "Step 3 of 10", ["pause", "save", "stop", "discard"]),
        (State.PAUSED, "Step 3 of 10", ["pause", "save", "stop", "discard"]),
    ],
)
def test_progress_is_shown(state, words, buttons):
    """While it runs: the phase, a bar with words, in a fit the curve with figures, and buttons to steer instead of to start."""
    job(
        state,
        phase="Doing this",
        step=3,
        steps=10,
        psnr_db=21.5,
        splats=12345,
        seconds_left=75.0,
        curve=[(1, 0.3, 12.0), (3, 0.1, 21.5)],
    )
    layout = draw(MAIN)
    (bar,) = [arguments for name, arguments in layout.calls if name == "progress"]
    assert bar["text"] == words and bar["factor"] == pytest.approx(0.3)
    assert layout.operators() == [f"splatfit.{name}" for name in buttons]
    texts = set(layout.texts())
    assert ("Paused" if state is State.PAUSED else "Doing this") in texts
    pictures = [name for name, _ in layout.calls if name == "template_icon"]
    if state is State.CAPTURING:
        assert "About 1 min 15 s left" in texts and not pictures
    else:
        assert {"21.5 dB", "on its own views", "12.3k splats", "1 min 15 s left"} <= texts and len(
            pictures
        ) == 1


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


def test_log_of_a_killed_engine_stands_in_the_details():
    """The panel says what to do; the log's last lines, which an artist cannot read, are behind the button."""
    failed = job(State.FAILED)
    failed.session.error = UserError("The engine was killed.", "Ask for less. Its log is x.\nTraceback 1\n2")
    shown = " ".join(draw(panels.main.SPLATFIT_PT_main).texts())
    assert "Ask for less. Its log is x." in shown and "Traceback" not in shown
    assert "Traceback 1\n2" in reports.error_report(failed.session.error)


def test_details_of_an_error():
    """The button opens what stands behind the error: versions, headline, cause, with folders masked; without one it is off."""
    assert not bpy.ops.splatfit.error_details.poll()
    failed = job(State.FAILED)
    cause = "File /home/anna/secret film/run/engine.log, line 3"
    failed.session.error = UserError("The engine died.", "See /home/anna/secret film/run/engine.log.", cause)
    assert "splatfit.error_details" in draw(panels.main.SPLATFIT_PT_main).operators()
    assert bpy.ops.splatfit.error_details.poll()
    text = reports.error_report(failed.session.error)
    assert "Blender" in text and "The engine died." in text and ".../engine.log, line 3" in text
    assert "anna" not in text and "secret" not in text


def test_result_is_shown():
    """After a good ending: quality, seconds and every warning."""
    done = job(State.FINISHED, test_psnr_db=31.25, warnings=["One view is black."])
    done.session.report.seconds = {"fit": 61.0}
    done.notes = ["Left out 2 of 20 splats."]
    texts = draw(panels.main.SPLATFIT_PT_main).texts()
    assert "31.2 dB on views it never saw: close" in " ".join(texts) and "Fitting: 1 min 1 s" in texts
    assert {"One view is black.", "Left out 2 of 20 splats."} <= set(texts)  # each fits a line
    running.forget()
    job(State.CANCELLED)
    assert "Stopped" in draw(panels.main.SPLATFIT_PT_main).texts()


def test_every_setting_is_in_a_panel():
    """Panels are made from the declarations: none is forgotten, each group has one, and all but the first are closed."""
    main, hidden = draw(MAIN), panels.settings._SHOWN_ABOVE
    above = {"rig", "target", "faces", "preset"}
    assert {name for _, name in hidden} == above and "rig" in drawn_properties(main)
    for group, settings in properties.GROUPS.items():
        panel = getattr(bpy.types, f"SPLATFIT_PT_{group}")
        assert panel.bl_parent_id == "SPLATFIT_PT_advanced" and "DEFAULT_CLOSED" in panel.bl_options
        wanted = {name for name in declarations(settings) if (group, name) not in hidden}
        assert wanted <= set(drawn_properties(draw(panel))), group


def test_origin_of_the_active_object():
    """With a splat object active, the files panel says which run made it, how many splats and how close."""
    made = splat_object.Provenance(run="/work/x.splatfit/run", psnr_db=33.0, splats=4000, formation="blender")
    object = splat_object.add_splats(cloud(), bpy.context.scene, provenance=made).object
    bpy.context.view_layer.objects.active = object
    text = " ".join(draw(panels.files.SPLATFIT_PT_files).texts())
    assert "From x.splatfit/run" in text and "33.0 dB on views it never saw: very close" in text
    assert "4,000 splats, Blender's look" in text


def test_comparison_is_offered_where_there_are_splats():
    """Without splats there is nothing to compare; with some a button, then the two sides and the way back."""
    panel = panels.result.SPLATFIT_PT_result
    assert draw(panel).operators() == []
    splat_object.add_splats(cloud(), bpy.context.scene)
    assert draw(panel).operators() == ["splatfit.compare"]
    bpy.ops.splatfit.compare()
    assert draw(panel).operators() == ["splatfit.compare"] * 3


class Quiet:
    """A layout that takes everything and does nothing, to time what is ours."""

    def __getattr__(self, name: str) -> Any:
        return (lambda *_, **__: (self, self)) if name == "panel" else (lambda *_, **__: self)


def drawing_ms() -> float:
    """Milliseconds for one draw of all panels."""
    stand_ins = [
        (panel, type(panel.__name__, (), {**attributes_of(panel), "layout": Quiet()})())
        for panel in panels.CLASSES
        if panel is not panels.presets.SPLATFIT_PT_presets
    ]
    since_s = time.perf_counter()
    for panel, stand_in in stand_ins:
        if getattr(panel, "poll", lambda _: True)(bpy.context):
            panel.draw(stand_in, bpy.context)
    return 1000 * (time.perf_counter() - since_s)


def test_drawing_takes_no_longer_in_a_heavy_scene(record_property):
    """1000 objects add nothing that is felt to the draw of all panels, at rest and while a fit runs: nothing looks at them."""
    few = min(drawing_ms() for _ in range(10))
    mesh = bpy.data.meshes.new("Mesh")
    for number in range(1000):
        bpy.context.scene.collection.objects.link(bpy.data.objects.new(f"Object {number}", mesh))
    target_size.measure(bpy.context.scene)
    many = min(drawing_ms() for _ in range(10))
    job(State.FITTING, step=3, steps=10, curve=[(step, 0.1, 20.0) for step in range(400)])
    fitting = min(drawing_ms() for _ in range(10))
    record_property("draw_ms", [round(value, 3) for value in (few, many, fitting)])
    assert many < few + 0.5 and many < 5 and fitting < 5


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


def test_no_tooltip_ends_with_a_full_stop():
    """Blender adds one of its own."""
    for name in (
        "fit",
        "capture",
        "show_rig",
        "test_view",
        "compare",
        "show_originals",
        "save",
        "add_preset",
    ):
        text = getattr(bpy.ops.splatfit, name).get_rna_type().description
        assert text and not text.endswith("."), name
    for item in bpy.context.scene.splatfit.bl_rna.properties:
        assert not item.description.endswith("."), item.identifier
