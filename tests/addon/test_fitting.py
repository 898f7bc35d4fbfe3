"""addon.operators.fitting: how a session is started and steered by buttons, with a window manager that only keeps count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import pytest

from addon import registration
from addon.operators import fitting, runs
from addon.runs import following, running, workflow
from addon.runs.session import Session, State
from addon.scene import splat_object
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.clouds import cloud


class WindowManager:
    """Counts timers and handlers."""

    def __init__(self) -> None:
        self.timers: list[object] = []
        self.handlers: list[object] = []

    def event_timer_add(self, seconds: float, window: object) -> object:
        self.timers.append(object())
        return self.timers[-1]

    def event_timer_remove(self, timer: object) -> None:
        self.timers.remove(timer)

    def modal_handler_add(self, operator: object) -> None:
        self.handlers.append(operator)


class Starter(fitting.Starts):
    """An operator around a given capture."""

    bl_idname = "splatfit.test"

    def __init__(self, steps: Iterator[tuple[int, int]], *, here: bool = False) -> None:
        self.steps, self.here = steps, here
        self.reports: list[tuple[set[str], str]] = []

    def report(self, kind: set[str], text: str) -> None:  # type: ignore[override]
        self.reports.append((kind, text))

    def renders_here(self, context: Any) -> bool:
        return self.here

    def make_session(self, context: Any) -> Session:
        return Session(RunDirectory(Path("run")), None, self.steps)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A context with a window, in which timers are thought to come."""
    monkeypatch.setattr(fitting, "has_window", lambda context: context.window is not None)
    yield SimpleNamespace(window=object(), window_manager=WindowManager(), scene=bpy.context.scene)
    following.unregister()


def event(kind: str, value: str = "PRESS") -> Any:
    return SimpleNamespace(type=kind, value=value)


def job() -> running.Running:
    found = running.current()
    assert found is not None
    return found


def test_button_returns_at_once_and_a_timer_goes_on(context):
    """No operator waits: the button does the first piece, Blender's timer the others; no event is kept from anyone."""
    operator = Starter(iter([(1, 2), (2, 2)]))
    assert operator.invoke(context, event("LEFTMOUSE")) == {"FINISHED"}
    assert not context.window_manager.timers and not context.window_manager.handlers
    assert bpy.app.timers.is_registered(following._tick) and job().session.report.step == 1
    assert following._tick() and job().session.report.step == 2
    assert following._tick() is None and job().session.state is State.FINISHED


def test_views_rendered_here_keep_every_event(context):
    """In place, the operator waits and no event goes on; when the views are there it hands over to the timer."""
    operator = Starter(iter([(1, 2), (2, 2)]), here=True)
    assert operator.invoke(context, event("LEFTMOUSE")) == {"RUNNING_MODAL"}
    manager = context.window_manager
    assert len(manager.timers) == 1 and manager.handlers == [operator]
    assert operator.modal(context, event("MOUSEMOVE")) == {"RUNNING_MODAL"} and job().session.report.step == 1
    assert operator.modal(context, event("TIMER")) == {"RUNNING_MODAL"} and job().session.report.step == 2
    assert operator.modal(context, event("TIMER")) == {"FINISHED"}
    assert not manager.timers and bpy.app.timers.is_registered(following._tick)


def test_escape_cancels_views_rendered_here(context):
    """Esc ends it, the timer goes, and the report says so."""
    operator = Starter(iter([(1, 2), (2, 2)]), here=True)
    operator.invoke(context, event("LEFTMOUSE"))
    assert operator.modal(context, event("ESC", "RELEASE")) == {"RUNNING_MODAL"}
    assert operator.modal(context, event("ESC")) == {"CANCELLED"}
    assert not context.window_manager.timers and operator.reports == [({"WARNING"}, "Splatfit: cancelled")]
    assert job().session.state is State.CANCELLED


def failing(error: BaseException) -> Iterator[tuple[int, int]]:
    yield 1, 2
    raise error


def test_mistake_is_reported(context):
    """A UserError while views are rendered here is a report, and the timer goes."""
    operator = Starter(failing(UserError("The disk is full.", "Free some space.")), here=True)
    operator.invoke(context, event("LEFTMOUSE"))
    assert operator.modal(context, event("TIMER")) == {"CANCELLED"}
    assert operator.reports == [({"ERROR"}, "The disk is full. \nFree some space.")]
    assert not context.window_manager.timers


def test_mistake_at_the_first_step_is_a_report_of_the_button(context):
    """What fails at once, as a copy that cannot be written, is told by the button that was pressed."""
    operator = Starter(failing_at_once(UserError("The disk is full.", "Free some space.")))
    assert operator.invoke(context, event("LEFTMOUSE")) == {"CANCELLED"}
    assert operator.reports == [({"ERROR"}, "The disk is full. \nFree some space.")]
    assert not bpy.app.timers.is_registered(following._tick) and not running.is_busy()


def failing_at_once(error: BaseException) -> Iterator[tuple[int, int]]:
    raise error
    yield 1, 2


def test_failure_of_ours_leaves_no_timer(context):
    """A bug on the way does not leave a timer ticking or a session running."""
    operator = Starter(failing(ZeroDivisionError()), here=True)
    operator.invoke(context, event("LEFTMOUSE"))
    with pytest.raises(ZeroDivisionError):
        operator.modal(context, event("TIMER"))
    assert not context.window_manager.timers and not running.is_busy()


def test_closed_window_cancels_views_rendered_here(context):
    """When Blender ends the operator (its window closes), the scene is put back."""
    operator = Starter(iter([(1, 2), (2, 2)]), here=True)
    operator.invoke(context, event("LEFTMOUSE"))
    operator.cancel(context)
    assert not context.window_manager.timers and not running.is_busy()


def test_without_a_window_it_runs_to_the_end(context):
    """In background the same operator waits for the end, and reports the warnings."""
    context.window = None
    operator = Starter(iter([(1, 2), (2, 2)]))
    assert operator.invoke(context, event("NONE")) == {"FINISHED"}
    assert job().session.state is State.FINISHED


def test_background_never_waits_for_a_timer():
    """The bpy module has something like a window; a script's fit runs to its end all the same."""
    assert bpy.app.background and not fitting.has_window(SimpleNamespace(window=object()))


def test_one_at_a_time(context):
    """While one runs the button is off, and says why."""
    messages: list[str] = []
    kind = type("Kind", (Starter,), {"poll_message_set": staticmethod(messages.append)})
    assert kind.poll(context)
    Starter(iter([(1, 2)])).invoke(context, event("LEFTMOUSE"))
    assert not kind.poll(context) and messages


class Engine:
    """An engine that fits for ever and counts how it is ended."""

    def __init__(self) -> None:
        self.killed = self.closed = 0

    def is_running(self) -> bool:
        return True

    def new_events(self, wait_s: float = 0.0) -> list[Any]:
        return []

    def send(self, command: Any) -> bool:
        return True

    def error(self) -> UserError | None:
        return None

    def close(self) -> None:
        self.closed += 1

    def kill(self) -> None:
        self.killed += 1


@pytest.fixture
def fit(tmp_path: Path) -> Iterator[Any]:
    """A fit that is under way in this very scene, after another had left its splats there."""
    registration.register()
    run = RunDirectory.create(tmp_path / "run")
    write_splat_ply(run.splats, cloud(9))
    run.settings.write_text("{}")
    run.events.write_text("")
    (tmp_path / "capture").mkdir()
    engine = Engine()
    made = following.job_of(Session(run, lambda: engine), bpy.context.scene)
    following.begin(made)
    yield SimpleNamespace(run=run, engine=engine, job=made)
    registration.unregister()


def test_discard_leaves_nothing_of_the_fit(fit, tmp_path):
    """The engine is killed, what it has put into the scene goes, and the run's folder; other objects and views stay."""
    bpy.ops.mesh.primitive_cube_add()
    workflow.import_run(bpy.context.scene, fit.run)
    assert bpy.ops.splatfit.discard() == {"FINISHED"}
    assert fit.engine.killed == 1 and fit.engine.closed == 0
    assert [item.name for item in bpy.context.scene.objects] == ["Cube"]
    assert not fit.run.root.exists() and (tmp_path / "capture").is_dir()
    assert running.current() is None and not bpy.ops.splatfit.discard.poll()


def test_discard_keeps_what_an_earlier_fit_left(fit):
    """Splats that stood in the scene before the fit was started are not the fit's to remove."""
    running.forget()
    kept = workflow.import_run(bpy.context.scene, fit.run).object
    following.begin(following.job_of(Session(fit.run, Engine), bpy.context.scene))
    bpy.ops.splatfit.discard()
    assert splat_object.is_splat_object(kept) and kept.name in bpy.context.scene.objects


def test_discard_after_a_resume_takes_what_the_run_had_left(fit):
    """A preview that stood there when the run was interrupted is the resumed fit's own."""
    running.forget()
    workflow.import_run(bpy.context.scene, fit.run)
    following.begin(following.job_of(Session(fit.run, Engine), bpy.context.scene, goes_on=True))
    bpy.ops.splatfit.discard()
    assert len(bpy.context.scene.objects) == 0


@pytest.mark.parametrize("operator", [fitting.SPLATFIT_OT_fit, runs.SPLATFIT_OT_resume_run])
def test_a_resume_says_that_it_goes_on(operator):
    """Both ways to resume tell so; a fresh fit does not."""
    assert operator.goes_on(SimpleNamespace(resume=True))
    assert not fitting.SPLATFIT_OT_fit.goes_on(SimpleNamespace(resume=False))


def test_discard_after_the_end(fit):
    """A result that is not liked goes the same way."""
    fit.job.session.state = State.FINISHED
    following.bring_home(fit.job)
    assert len(bpy.context.scene.objects) == 1
    assert bpy.ops.splatfit.discard() == {"FINISHED"}
    assert len(bpy.context.scene.objects) == 0 and not fit.run.root.exists()


@pytest.mark.parametrize("operator", [fitting.SPLATFIT_OT_discard, runs.SPLATFIT_OT_forget_run])
def test_throwing_away_asks_first(operator):
    """In a window a dialog says what will be gone, in a way that this Blender knows."""
    asked: list[dict[str, Any]] = []
    confirm = bpy.types.WindowManager.bl_rna.functions["invoke_confirm"]
    manager = SimpleNamespace(invoke_confirm=lambda self, event, **words: asked.append(words))
    operator.invoke(SimpleNamespace(directory="/runs/7"), SimpleNamespace(window_manager=manager), None)
    assert set(asked[0]) <= set(confirm.parameters.keys()) and "remove" in str(asked[0]).lower()


def test_capture_has_nothing_to_discard(fit):
    """The views of a capture alone are kept: there is no such button."""
    fit.job.brings_splats = False
    assert not bpy.ops.splatfit.discard.poll()
