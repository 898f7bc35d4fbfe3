"""addon.commands.event_stream: stdout has events alone, and the end of whoever listens is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from splat_engine.formats import events

ROOT = Path(__file__).resolve().parents[2]

NOISY = """
import os, sys
from addon.commands.event_stream import EventStream
from splat_engine.formats import events
print("before")
with EventStream(listen=False) as stream:
    print("a print")
    os.write(1, b"a line of C\\n")
    stream.say(events.Captured(done=1, total=2, message="Rendering Größe"))
print("after")
"""
LONG = """
import sys, threading
from addon.commands import event_stream
event_stream._GRACE_S = float(sys.argv[1])
with event_stream.EventStream(listen=True) as stream:
    stream.parent_gone.wait(30)
    if sys.argv[2] == "heeds":
        sys.exit(7)
    threading.Event().wait(30)  # a view that takes long
"""


def run(script: str, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        input=input, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=60,
    )  # fmt: skip


def test_stdout_has_events_alone():
    """What Python or C prints meanwhile goes to stderr; before and after stdout is as ever."""
    done = run(NOISY)
    before, event, after = done.stdout.splitlines()
    assert (before, after) == ("before", "after")
    assert events.decode_event(event) == events.Captured(done=1, total=2, message="Rendering Größe")
    assert "a print" in done.stderr and "a line of C" in done.stderr


def test_end_of_stdin_is_noticed():
    """A program that looks between two views ends by itself, in its own way."""
    assert run(LONG, "20", "heeds").returncode == 7


def test_view_that_takes_long_is_not_waited_for():
    """A program that is in the middle of a long render ends after the grace, as interrupted."""
    assert run(LONG, "0.1", "renders").returncode == 130
