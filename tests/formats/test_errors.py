"""The one error: its words, and its way through an event."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats.errors import FormatError, UserError

TEXT = st.text(min_size=1, max_size=20)


def test_a_person_reads_headline_and_hint() -> None:
    """The cause is for the log, not for the person."""
    assert str(UserError("It broke.", "Mend it.", ValueError("deep"))) == "It broke.\nMend it."
    assert str(UserError("It broke.")) == "It broke."


def test_a_format_error_is_a_user_error() -> None:
    """Catching the one catches the other."""
    assert issubclass(FormatError, UserError) and not issubclass(UserError, (OSError, ValueError))


@given(TEXT, st.text(max_size=20), st.none() | TEXT | TEXT.map(ValueError))
def test_an_error_survives_as_plain_strings(headline: str, hint: str, cause: str | ValueError | None) -> None:
    """as_dict and from_dict: the same words; an exception underneath becomes its text."""
    error = UserError(headline, hint, cause)
    values = error.as_dict()
    assert all(isinstance(value, str) for value in values.values())
    again = UserError.from_dict(values)
    assert (again.headline, again.hint, again.as_dict()) == (headline, hint, values)
    assert again.cause == (None if cause is None else str(cause))


def test_a_cause_without_words_gives_its_kind() -> None:
    """KeyboardInterrupt() and MemoryError() print as nothing."""
    assert UserError("x", cause=MemoryError()).as_dict()["cause"] == "MemoryError"
    assert UserError.from_dict({}).headline
