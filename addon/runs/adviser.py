"""The engine as adviser of an adaptive capture: which views to render next. Knows no bpy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from splat_engine.formats.capture import PROPOSED_NAME, read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory

from ..engine.engine_process import EngineProcess, propose_command
from .session import Engine

_FOLDER = "proposal"
_WAIT_S = 0.1
"""Of one look for an answer: a window stays alive, and a loop without a window does not spin."""


class EngineAdviser:
    """Asks ``splat-engine propose``, each time in a new process, whose files lie in the capture's folder meanwhile.

    Args:
        python: The engine's Python, looked at before.
        seed: Of the short fit.
        start: Starts the engine; for tests.
    """

    def __init__(
        self,
        python: Path,
        seed: int = 0,
        start: Callable[[Sequence[str], RunDirectory], Engine] = EngineProcess,
    ) -> None:
        self._python, self._seed, self._start = python, seed, start
        self._engine: Engine | None = None
        self._run: RunDirectory | None = None

    def ask(self, capture: Path, candidates: Path, count: int) -> None:
        """Starts the engine.

        Args:
            capture: The capture's folder.
            candidates: List of a capture of probes, each camera with a name of its own.
            count: How many are wanted.

        Raises:
            UserError: A file cannot be written, or the engine cannot be started.
        """
        run = self._run = RunDirectory.create(capture / _FOLDER)
        (run.root / PROPOSED_NAME).unlink(missing_ok=True)
        self._engine = self._start(
            propose_command(self._python, capture, run, candidates, count, self._seed), run
        )

    def answer(self) -> list[str] | None:
        """Returns the names of the chosen cameras, best first; None as long as the engine is at work.

        Raises:
            UserError: The engine failed, or left no answer.
        """
        if self._engine is None or self._run is None:
            raise RuntimeError("nobody was asked")
        self._engine.new_events(_WAIT_S)
        if self._engine.is_running():
            return None
        error = self._engine.error()
        if error is not None:
            hint = f"{error.hint} The views that were rendered are kept; without adaptive views no engine is needed."
            raise UserError(f"The next views could not be chosen: {error.headline}", hint, error)
        chosen = [view.camera.name for view in read_capture(self._run.root / PROPOSED_NAME).views]
        self.close()
        return chosen

    def close(self) -> None:
        """Ends the engine if it is at work, and removes its files; the log of a failure stays."""
        engine, self._engine = self._engine, None
        run, self._run = self._run, None
        if engine is None or run is None:
            return
        failed = engine.error() is not None
        engine.close()
        if not failed:
            shutil.rmtree(run.root, ignore_errors=True)
