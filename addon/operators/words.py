"""A person's mistake is reported in words and cancels the operator; it never shows a traceback."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from splat_engine.formats.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])


def in_words(method: F) -> F:
    """Wraps an operator's method: a UserError becomes a report and CANCELLED."""

    def guarded(operator: Any, *arguments: Any) -> Any:
        try:
            return method(operator, *arguments)
        except UserError as error:
            operator.report({"ERROR"}, str(error))
            return {"CANCELLED"}

    # Blender counts a method's arguments: *arguments would not do.
    def with_context(self: Any, context: Any) -> Any:
        return guarded(self, context)

    def with_event(self: Any, context: Any, event: Any) -> Any:
        return guarded(self, context, event)

    has_event = "event" in signature(method).parameters
    return wraps(method)(with_event if has_event else with_context)  # type: ignore[return-value]
