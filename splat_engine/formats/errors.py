"""The one error that crosses every edge of the program."""

from __future__ import annotations


class UserError(Exception):
    """Something a person can understand and mend.

    Args:
        headline: What is wrong, in one sentence that names the file or the setting.
        hint: What to do about it. May be empty when nothing can be done.
        cause: The exception or text underneath, for the log and for a bug report.
    """

    def __init__(self, headline: str, hint: str = "", cause: BaseException | str | None = None) -> None:
        super().__init__(headline)
        self.headline = headline
        self.hint = hint
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.headline}\n{self.hint}" if self.hint else self.headline

    def as_dict(self) -> dict[str, str]:
        """Returns the error as plain strings, as it travels in an event."""
        cause = "" if self.cause is None else str(self.cause) or type(self.cause).__name__
        return {"headline": self.headline, "hint": self.hint, "cause": cause}

    @classmethod
    def from_dict(cls, values: dict[str, str]) -> UserError:
        """Returns the error that ``as_dict`` described."""
        return cls(
            values.get("headline", "unknown error"), values.get("hint", ""), values.get("cause") or None
        )


class OutOfMemory(UserError):
    """Memory ran out, of the processor or of a card.

    Args:
        headline, hint, cause: As for any.
        fewer_splats: How many splats to try next; 0 if splats are not what would help.
    """

    def __init__(
        self,
        headline: str,
        hint: str = "",
        cause: BaseException | str | None = None,
        *,
        fewer_splats: int = 0,
    ) -> None:
        super().__init__(headline, hint, cause)
        self.fewer_splats = fewer_splats


class FormatError(UserError):
    """A file or a message that does not say what its format requires."""
