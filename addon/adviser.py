"""The engine as adviser of an adaptive capture: which views to render next. Knows no bpy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import PROPOSED_NAME, Capture, View, read_capture, write_capture
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.run import RunDirectory

from .engine_process import EngineProcess, propose_command
from .session import Engine

_CANDIDATES_NAME = "candidates.json"
_FOLDER = "proposal"
_WAIT_S = 0.1
"""Of one look for an answer: a window stays alive, and a loop without a window does not spin."""


def named_among(candidates: Sequence[Camera], path: Path) -> list[Camera]:
    """Returns the candidates that a file of cameras names, in its order: they themselves, since a file rounds.

    Args:
        candidates: Cameras, each with a name of its own.
        path: The file, in the form of transforms.json.

    Raises:
        UserError: The file is missing or damaged, or names another camera.
    """
    by_name = {camera.name: camera for camera in candidates}
    names = [view.camera.name for view in read_capture(path).views]
    strange = [name for name in names if name not in by_name]
    if strange:
        raise FormatError(f"{path} names {strange[0]!r}, which is no candidate.", "Remove the file.")
    return [by_name[name] for name in names]


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
        self._candidates: Sequence[Camera] = ()

    def ask(self, capture: Path, candidates: Sequence[Camera], count: int) -> None:
        """Starts the engine.

        Args:
            capture: The capture's folder, with a list of its views.
            candidates: Cameras to choose from, each with a name of its own.
            count: How many are wanted.

        Raises:
            UserError: A file cannot be written, or the engine cannot be started.
        """
        self._candidates = candidates
        run = self._run = RunDirectory.create(capture / _FOLDER)
        listed = write_capture(Capture(run.root, tuple(map(View, candidates))), name=_CANDIDATES_NAME)
        (run.root / PROPOSED_NAME).unlink(missing_ok=True)
        command = propose_command(self._python, capture, run, listed, count, self._seed)
        self._engine = self._start(command, run)

    def answer(self) -> list[Camera] | None:
        """Returns the chosen cameras, best first; None as long as the engine is at work.

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
        chosen = named_among(self._candidates, self._run.root / PROPOSED_NAME)
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
