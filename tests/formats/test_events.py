"""Events and commands: what one side says, the other understands; anything else is refused."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats import events
from splat_engine.formats.errors import FormatError
from splat_engine.formats.events import (
    COMMANDS,
    EVENTS,
    Command,
    Event,
    Failed,
    Preview,
    Progress,
    decode_command,
    decode_event,
    encode,
)

KINDS = [*EVENTS.values(), *COMMANDS.values()]
# Strings that JSON text can carry: a lone surrogate comes back from it too, but is not text.
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON_VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=5
)
OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: TEXT,
    dict: st.dictionaries(TEXT, JSON_VALUES, max_size=3),
}


def decode(message: Event | Command, line: str) -> Event | Command:
    """Reads a line as the side that it is meant for does."""
    return decode_event(line) if isinstance(message, Event) else decode_command(line)


@st.composite
def messages(draw: st.DrawFn) -> Event | Command:
    """Draws any message with any values of the declared types."""
    kind = draw(st.sampled_from(KINDS))
    hints = get_type_hints(kind)
    types = {item.name: get_origin(hints[item.name]) or hints[item.name] for item in fields(kind)}
    message: Event | Command = kind(**{name: draw(OF_TYPE[of]) for name, of in types.items()})
    return message


@given(messages())
def test_a_message_survives_its_line(message: Event | Command) -> None:
    """Every kind with every value comes back equal, from one line of ascii."""
    line = encode(message)
    assert line.endswith("\n") and line.count("\n") == 1 and line.isascii()
    assert decode(message, line) == message


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_name_of_its_own_and_defaults(kind: type) -> None:
    """It is listed under its name, says what it means, and can be made without arguments."""
    listed = EVENTS if issubclass(kind, Event) else COMMANDS
    assert listed[kind.name] is kind and kind.__doc__  # type: ignore[attr-defined]
    assert set(type(listed[kind.name]()).__mro__) & {Event, Command}  # type: ignore[attr-defined]


def test_no_message_is_left_out() -> None:
    """Whatever the module defines is in a table: another side could not be sent it otherwise."""
    defined = [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and kind.__module__ == events.__name__
    ]
    for base, listed in ((Event, EVENTS), (Command, COMMANDS)):
        assert {kind for kind in defined if issubclass(kind, base) and kind is not base} == set(
            listed.values()
        )


@given(messages(), st.dictionaries(TEXT.map("new ".__add__), JSON_VALUES, max_size=2))
def test_keys_of_a_newer_version_are_passed_over(message: Event | Command, more: dict[str, Any]) -> None:
    """An older add-on understands a newer engine."""
    line = json.dumps({**json.loads(encode(message)), **more})
    assert decode(message, line) == message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_cannot_be_sent(value: float) -> None:
    """A loss of NaN must become a warning or an error before it becomes an event."""
    with pytest.raises(ValueError, match="JSON"):
        encode(Progress(loss=value))
    with pytest.raises(ValueError, match="JSON"):
        encode(Preview(frame={"transform_matrix": [[value]]}))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        "Traceback (most recent call last):",
        "{",
        "[]",
        "3",
        "null",
        '"progress"',
        "{}",
        '{"event": null}',
        '{"event": ["progress"]}',
        '{"event": "no such thing"}',
        '{"command": "stop"}',
        '{"event": "progress", "loss": NaN}',
        '{"event": "progress", "loss": Infinity}',
        '{"event": "progress", "loss": 1e999}',
        "9" * 5000,
        "[" * 100_000,
    ],
)
def test_lines_that_are_no_event_are_refused(line: str) -> None:
    """The words show the line, shortened, and the events there are."""
    with pytest.raises(FormatError, match="Not a known event") as caught:
        decode_event(line)
    assert len(caught.value.headline) < 300 and "progress" in caught.value.hint


def test_an_event_is_no_command() -> None:
    """Each side reads its own kind only."""
    with pytest.raises(FormatError, match="Not a known command"):
        decode_command('{"event": "paused"}')
    with pytest.raises(FormatError, match="Not a known command"):
        decode_command('{"command": "explode"}')


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"event": "progress", "step": "3"}', "step"),
        ('{"event": "progress", "step": true}', "step"),
        ('{"event": "progress", "step": 1.5}', "step"),
        ('{"event": "progress", "loss": null}', "loss"),
        ('{"event": "warning", "message": 3}', "message"),
        ('{"event": "finished", "metrics": []}', "metrics"),
    ],
)
def test_a_value_of_another_type_is_refused(line: str, name: str) -> None:
    """A reader need not check types again."""
    with pytest.raises(FormatError, match=f"^{name} must be"):
        decode_event(line)


def test_a_whole_number_will_do_for_a_float() -> None:
    """JSON writers of other languages drop the .0."""
    event = decode_event('{"event": "progress", "loss": 1}')
    assert isinstance(event, Progress) and isinstance(event.loss, float)


@given(
    st.text(max_size=30)
    | JSON_VALUES.map(json.dumps)
    | st.binary(max_size=30).map(lambda b: b.decode("latin1"))
)
def test_any_line_is_understood_or_refused(line: str) -> None:
    """Nothing that arrives raises anything but FormatError."""
    for read in (decode_event, decode_command):
        with pytest.raises(FormatError):
            read(line)


def test_a_failure_carries_a_user_error() -> None:
    """The keys of UserError.as_dict are the fields of the event."""
    from splat_engine.formats.errors import UserError

    error = UserError("It broke.", "Mend it.", "because")
    event = decode_event(encode(Failed(**error.as_dict())))
    assert isinstance(event, Failed)
    again = UserError.from_dict({"headline": event.headline, "hint": event.hint, "cause": event.cause})
    assert again.as_dict() == error.as_dict()
