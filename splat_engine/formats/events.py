"""What the engine says, and what it is told: JSON lines.

An event is one line ``{"event": NAME, ...}`` on the engine's stdout and in events.jsonl. A Blender that captures in the
background says its own in the same way.
A command is one line ``{"command": NAME, ...}`` on its stdin. Small facts ride in them;
arrays go by file. A closed stdin means that the parent is gone: the engine saves a
checkpoint and exits.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, get_origin, get_type_hints

from splat_engine.formats.errors import FormatError, OutOfMemory, UserError
from splat_engine.formats.files import parse_json


@dataclass(frozen=True)
class Event:
    """Something that happened in a run; ``time_s`` counts from the engine's start."""

    name: ClassVar[str] = ""
    time_s: float = 0.0


@dataclass(frozen=True)
class Started(Event):
    """The engine has read its inputs and begins."""

    name: ClassVar[str] = "started"
    version: str = ""
    device: str = ""
    steps: int = 0
    first_step: int = 0
    splats: int = 0
    train_views: int = 0
    test_views: int = 0
    capture: str = ""


@dataclass(frozen=True)
class Progress(Event):
    """The fit goes on; sent a few times a second at most."""

    name: ClassVar[str] = "progress"
    step: int = 0
    steps: int = 0
    loss: float = 0.0
    psnr: float = 0.0
    splats: int = 0
    seconds_left: float = 0.0


@dataclass(frozen=True)
class Captured(Event):
    """A capture goes on: so many views of so many are there; ``seconds_left`` is 0 before the first is rendered."""

    name: ClassVar[str] = "captured"
    done: int = 0
    total: int = 0
    message: str = ""
    seconds_left: float = 0.0


@dataclass(frozen=True)
class Warned(Event):
    """Something is not as it should be, and the engine goes on."""

    name: ClassVar[str] = "warning"
    message: str = ""


@dataclass(frozen=True)
class FileWritten(Event):
    """A file of the run was replaced; ``kind`` is snapshot, preview, checkpoint, splats or metrics.

    ``seconds`` is how long the fit stood still for it; 0 where nobody measured.
    """

    name: ClassVar[str] = "file"
    kind: str = ""
    path: str = ""
    step: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Evaluated(Event):
    """Held-out views were rendered and compared."""

    name: ClassVar[str] = "evaluated"
    step: int = 0
    psnr: float = 0.0
    ssim: float = 0.0
    views: int = 0


@dataclass(frozen=True)
class Paused(Event):
    """The fit stands still and waits for ``resume`` or ``stop``."""

    name: ClassVar[str] = "paused"
    step: int = 0


@dataclass(frozen=True)
class Resumed(Event):
    """The fit goes on after a pause."""

    name: ClassVar[str] = "resumed"
    step: int = 0


@dataclass(frozen=True)
class Finished(Event):
    """The last event of a run that ended as it should; ``reason`` is done, plateau, stopped, interrupted or parent gone.

    "plateau" is done before the last step, because the fit hardly improved any more. After the last two there is a checkpoint to resume from, and no result yet.
    """

    name: ClassVar[str] = "finished"
    step: int = 0
    reason: str = "done"
    splats: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed(Event):
    """The last event of a run that could not go on.

    Where memory ran out, ``fewer_splats`` is how many splats to try next; else 0.
    """

    name: ClassVar[str] = "failed"
    headline: str = ""
    hint: str = ""
    cause: str = ""
    fewer_splats: int = 0

    @classmethod
    def of(cls, error: UserError) -> Failed:
        """Returns the event that tells of an error."""
        fewer = error.fewer_splats if isinstance(error, OutOfMemory) else 0
        words = error.as_dict()
        return cls(headline=words["headline"], hint=words["hint"], cause=words["cause"], fewer_splats=fewer)

    def error(self) -> UserError:
        """Returns the error that the event tells of."""
        if self.fewer_splats:
            return OutOfMemory(self.headline, self.hint, self.cause or None, fewer_splats=self.fewer_splats)
        return UserError(self.headline, self.hint, self.cause or None)


@dataclass(frozen=True)
class Command:
    """Something the engine is told."""

    name: ClassVar[str] = ""


@dataclass(frozen=True)
class Pause(Command):
    """Stand still after the present step."""

    name: ClassVar[str] = "pause"


@dataclass(frozen=True)
class Resume(Command):
    """Go on."""

    name: ClassVar[str] = "resume"


@dataclass(frozen=True)
class Save(Command):
    """Write checkpoint and snapshot now."""

    name: ClassVar[str] = "save"


@dataclass(frozen=True)
class Snapshot(Command):
    """Write the splats as they are now, and nothing else: for those who watch."""

    name: ClassVar[str] = "snapshot"


@dataclass(frozen=True)
class Stop(Command):
    """Write what there is as the result, and end."""

    name: ClassVar[str] = "stop"


@dataclass(frozen=True)
class Preview(Command):
    """Render preview.png from a camera, quickly: the keys of a frame in transforms.json.

    Without any it is rendered from the last camera, or the capture's first, as Blender will show it.
    """

    name: ClassVar[str] = "preview"
    frame: dict[str, Any] = field(default_factory=dict)


EVENTS: dict[str, type[Event]] = {
    kind.name: kind
    for kind in (
        Started,
        Progress,
        Captured,
        Warned,
        FileWritten,
        Evaluated,
        Paused,
        Resumed,
        Finished,
        Failed,
    )
}
COMMANDS: dict[str, type[Command]] = {
    kind.name: kind for kind in (Pause, Resume, Save, Snapshot, Stop, Preview)
}


def encode(message: Event | Command) -> str:
    """Returns the message as one JSON line, with its newline.

    Raises:
        ValueError: A number in it is not finite.
    """
    key = "event" if isinstance(message, Event) else "command"
    return json.dumps({key: message.name, **asdict(message)}, allow_nan=False) + "\n"


def _decode(line: str, key: str, kinds: dict[str, Any]) -> Any:
    try:
        values = parse_json(line)
        kind = kinds[values.pop(key)]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FormatError(
            f"Not a known {key}: {line.strip()[:200]!r}.", f"Known: {', '.join(kinds)}.", error
        ) from error
    types = _field_types(kind)
    known = {
        name: _checked(name, value, types[name], line) for name, value in values.items() if name in types
    }
    return kind(**known)


@cache
def _field_types(kind: type) -> dict[str, type]:
    hints = get_type_hints(kind)
    return {item.name: get_origin(hints[item.name]) or hints[item.name] for item in fields(kind)}


def _checked(name: str, value: Any, kind: type, line: str) -> Any:
    if kind is float and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    if type(value) is not kind:
        raise FormatError(
            f"{name} must be of type {kind.__name__} in {line.strip()[:200]!r}.",
            "Both sides must be of one version.",
        )
    return value


def decode_event(line: str) -> Event:
    """Reads one line of the engine's stdout; keys that a newer engine may add are ignored.

    Raises:
        FormatError: The line is not JSON, names no known event, or a value has the wrong type.
    """
    event: Event = _decode(line, "event", EVENTS)
    return event


def decode_command(line: str) -> Command:
    """Reads one line of the engine's stdin.

    Raises:
        FormatError: The line is not JSON, names no known command, or a value has the wrong type.
    """
    command: Command = _decode(line, "command", COMMANDS)
    return command
