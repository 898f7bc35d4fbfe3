"""Commands come through a pipe whole, in order, however the bytes arrive; a closed pipe is a command too."""

from __future__ import annotations

import os

from splat_engine.fit.commands import CommandQueue, ParentGone, Unreadable
from splat_engine.formats.events import Pause, Preview, Resume, Stop, encode


def test_commands_arrive_in_order_however_they_are_cut() -> None:
    """Lines cut anywhere, several at once, empty ones, and the last one without its newline are all read."""
    read_end, write_end = os.pipe()
    commands = CommandQueue()
    assert commands.poll() is None
    commands.listen(read_end)
    frame = {"w": 10, "note": "ä" * 20}
    content = (
        encode(Pause()) + "\n" + encode(Preview(frame)) + encode(Resume()) + encode(Stop()).strip()
    ).encode()
    for start in range(0, len(content), 7):
        os.write(write_end, content[start : start + 7])
    os.close(write_end)
    assert [commands.wait() for _ in range(5)] == [Pause(), Preview(frame), Resume(), Stop(), ParentGone()]
    os.close(read_end)


def test_nonsense_is_told_and_passed_over() -> None:
    """A line that is no command, a foreign one, bytes that are no text: each is told, the next one is obeyed."""
    read_end, write_end = os.pipe()
    commands = CommandQueue()
    commands.listen(read_end)
    os.write(write_end, b'go!\n{"command": "fly"}\n\xff\xfe\n' + encode(Stop()).encode())
    told = [commands.wait() for _ in range(4)]
    assert all(isinstance(command, Unreadable) and command.message for command in told[:3])
    assert "fly" in told[1].message and told[3] == Stop()  # type: ignore[attr-defined]
    os.close(write_end)
    assert commands.wait() == ParentGone()
    os.close(read_end)
