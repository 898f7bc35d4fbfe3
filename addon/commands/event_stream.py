"""Events of a headless command on stdout, for a program that follows it, and the end of that program noticed.

While the stream is open, whatever Blender prints goes to stderr: stdout has events alone.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

from splat_engine.formats import events

_GRACE_S = 5.0
"""For the view that is being rendered when the parent goes; its end is not waited for longer."""
EXIT_INTERRUPTED = 130


class EventStream:
    """Stdout as a stream of events; a context.

    Args:
        listen: Watch stdin, whose end means that the parent is gone.
    """

    def __init__(self, *, listen: bool) -> None:
        self.parent_gone = threading.Event()
        self._listen = listen
        self._descriptor = -1

    def __enter__(self) -> EventStream:
        sys.stdout.flush()
        self._descriptor = os.dup(1)
        os.dup2(2, 1)
        if self._listen:
            threading.Thread(target=self._watch, name="splatfit-parent", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout.flush()
        os.dup2(self._descriptor, 1)
        os.close(self._descriptor)

    def say(self, event: events.Event) -> None:
        """Writes an event; a reader that is gone is no failure of ours."""
        line = events.encode(event).encode()
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            self.parent_gone.set()

    def _watch(self) -> None:
        """Waits for the end of stdin; a render that goes on for long after it ends with the process."""
        try:
            while os.read(0, 4096):
                pass
        except OSError:
            pass
        self.parent_gone.set()
        if not threading.Event().wait(_GRACE_S):
            os._exit(EXIT_INTERRUPTED)
