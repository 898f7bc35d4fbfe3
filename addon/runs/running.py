"""The one session that runs in this Blender, for operators to steer and the panel to show."""

from __future__ import annotations

from dataclasses import dataclass, field

from .session import Session


@dataclass
class Running:
    """A session and what it is about. Names and numbers alone: undo makes Blender's own references void.

    Attributes:
        session: The session, running or over.
        scene_name: The scene it captures, and gets the result.
        scene_uid: The scene's ``session_uid``, by which it is found though it was renamed; 0: by its name.
        brings_splats: Whether a result is put into the scene at the end.
        is_attached: Whether the run was started elsewhere: it is watched, not steered.
        earlier: ``session_uid`` of the splat objects that the run had made before it was started anew.
        notes: What the import said, once it is over.
        result_name: The object it made.
    """

    session: Session
    scene_name: str
    scene_uid: int = 0
    brings_splats: bool = True
    is_attached: bool = False
    earlier: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)
    result_name: str = ""


_current: Running | None = None


def current() -> Running | None:
    """Returns the last session that was started, or None."""
    return _current


def is_busy() -> bool:
    """Tells whether a session is under way."""
    return _current is not None and not _current.session.state.is_over


def begin(running: Running) -> None:
    """Makes a session the current one.

    Raises:
        RuntimeError: Another is under way.
    """
    global _current
    if is_busy():
        raise RuntimeError("a session is under way")
    _current = running


def forget() -> None:
    """Ends the current session, if it is under way, and forgets it."""
    global _current
    if _current is not None:
        _current.session.cancel()
    _current = None
