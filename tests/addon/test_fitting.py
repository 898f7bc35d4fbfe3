"""addon.operators.fitting: the modal way of a session, with a window manager that only keeps count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from addon import running
from addon.operators import fitting
from addon.session import Session, State
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory


class WindowManager:
    """Counts timers and handlers."""

    def __init__(self) -> None:
        self.timers: list[object] = []
        self.handlers: list[object] = []
        self.areas = [
            SimpleNamespace(type="VIEW_3D", tag_redraw=self._redraw),
            SimpleNamespace(type="OUTLINER"),
        ]
        self.windows = [SimpleNamespace(screen=SimpleNamespace(areas=self.areas))]
        self.redraws = 0

    def _redraw(self) -> None:
        self.redraws += 1

    def event_timer_add(self, seconds: float, window: object) -> object:
        self.timers.append(object())
        return self.timers[-1]

    def event_timer_remove(self, timer: object) -> None:
        self.timers.remove(timer)

    def modal_handler_add(self, operator: object) -> None:
        self.handlers.append(operator)


class Follower(fitting._Follows):
    """An operator around a given capture."""

    bl_idname = "splatfit.test"

    def __init__(self, steps: Iterator[tuple[int, int]]) -> None:
        self.steps = steps
        self.reports: list[tuple[set[str], str]] = []
        self.finished = 0

    def report(self, kind: set[str], text: str) -> None:  # type: ignore[override]
        self.reports.append((kind, text))

    def make_session(self, context: Any) -> Session:
        return Session(RunDirectory(Path("run")), None, self.steps)

    def finish(self, context: Any, job: running.Running) -> None:
        self.finished += 1


@pytest.fixture
def context() -> Iterator[Any]:
    yield SimpleNamespace(
        window=object(), window_manager=WindowManager(), scene=SimpleNamespace(name="Scene")
    )
    running.forget()


def event(kind: str, value: str = "PRESS") -> Any:
    return SimpleNamespace(type=kind, value=value)


def test_goes_on_with_the_timer(context):
    """Each tick does a piece; no other event goes on while views are rendered; the end removes the timer."""
    operator = Follower(iter([(1, 2), (2, 2)]))
    assert operator.invoke(context, event("LEFTMOUSE")) == {"RUNNING_MODAL"}
    manager = context.window_manager
    assert len(manager.timers) == 1 and manager.handlers == [operator] and running.is_busy()
    job = running.current()
    assert job is not None
    assert operator.modal(context, event("MOUSEMOVE")) == {"RUNNING_MODAL"} and job.session.report.step == 0
    assert operator.modal(context, event("TIMER")) == {"RUNNING_MODAL"} and job.session.report.step == 1
    assert manager.redraws == 1
    assert operator.modal(context, event("TIMER")) == {"RUNNING_MODAL"} and job.session.report.step == 2
    assert operator.modal(context, event("TIMER")) == {"FINISHED"}
    assert not manager.timers and operator.finished == 1 and not running.is_busy()


def test_escape_cancels(context):
    """Esc ends it, the timer goes, nothing is imported, and the report says so."""
    operator = Follower(iter([(1, 2), (2, 2)]))
    operator.invoke(context, event("LEFTMOUSE"))
    assert operator.modal(context, event("ESC", "RELEASE")) == {"RUNNING_MODAL"}
    assert operator.modal(context, event("ESC")) == {"CANCELLED"}
    assert not context.window_manager.timers and not operator.finished
    assert operator.reports == [({"WARNING"}, "Splatfit: cancelled")]
    job = running.current()
    assert job is not None and job.session.state is State.CANCELLED


def test_stop_button_ends_it_too(context):
    """When the session is cancelled by another button, the next event ends the operator."""
    operator = Follower(iter([(1, 2), (2, 2)]))
    operator.invoke(context, event("LEFTMOUSE"))
    job = running.current()
    assert job is not None
    job.session.stop()
    assert operator.modal(context, event("TIMER")) == {"CANCELLED"} and not context.window_manager.timers


def failing(error: BaseException) -> Iterator[tuple[int, int]]:
    yield 1, 2
    raise error


def test_mistake_is_reported(context):
    """A UserError on the way is a report, and the timer goes."""
    operator = Follower(failing(UserError("The disk is full.", "Free some space.")))
    operator.invoke(context, event("LEFTMOUSE"))
    operator.modal(context, event("TIMER"))
    assert operator.modal(context, event("TIMER")) == {"CANCELLED"}
    assert operator.reports == [({"ERROR"}, "The disk is full.\nFree some space.")]
    assert not context.window_manager.timers


def test_failure_of_ours_leaves_no_timer(context):
    """A bug on the way does not leave a timer ticking or a session running."""
    operator = Follower(failing(ZeroDivisionError()))
    operator.invoke(context, event("LEFTMOUSE"))
    operator.modal(context, event("TIMER"))
    with pytest.raises(ZeroDivisionError):
        operator.modal(context, event("TIMER"))
    assert not context.window_manager.timers and not running.is_busy()


def test_closed_window_cancels(context):
    """When Blender ends the operator (the window closes, another file is opened), all of it ends."""
    operator = Follower(iter([(1, 2), (2, 2)]))
    operator.invoke(context, event("LEFTMOUSE"))
    operator.cancel(context)
    assert not context.window_manager.timers and not running.is_busy()


def test_without_a_window_it_runs_to_the_end(context):
    """In background the same operator waits for the end."""
    context.window = None
    operator = Follower(iter([(1, 2), (2, 2)]))
    assert operator.invoke(context, event("NONE")) == {"FINISHED"} and operator.finished == 1


def test_warnings_are_reported(context):
    """What the capture warned of stands in the reports at the end."""
    operator = Follower(iter([(1, 1)]))
    operator.invoke(context, event("LEFTMOUSE"))
    job = running.current()
    assert job is not None
    job.session.report.warnings.append("One view is black.")
    operator.modal(context, event("TIMER"))
    operator.modal(context, event("TIMER"))
    assert operator.reports == [({"WARNING"}, "One view is black.")]


def test_one_at_a_time(context):
    """While one runs the button is off, and says why."""
    messages: list[str] = []
    kind = type("Kind", (Follower,), {"poll_message_set": staticmethod(messages.append)})
    assert kind.poll(context)
    Follower(iter([(1, 2)])).invoke(context, event("LEFTMOUSE"))
    assert not kind.poll(context) and messages
