"""addon.runs.adviser: what the engine is asked, what its answer is taken for, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from addon.runs.adviser import EngineAdviser
from splat_engine.formats import events
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import PROPOSED_NAME, Capture, View, write_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory

THIRD = np.sqrt(1 / 3)
POSE = np.eye(4)
POSE[:3, :3] = [
    [THIRD, -np.sqrt(0.5), -np.sqrt(1 / 6)],
    [THIRD, np.sqrt(0.5), -np.sqrt(1 / 6)],
    [THIRD, 0, np.sqrt(2 / 3)],
]
CAMERAS = [Camera(32, 24, 40.0, 40.0, 16, 12, POSE, name=f"place {number}") for number in range(1, 6)]

LISTED = Path("probes/candidates.json")


class Engine:
    """Is at work for two looks, then ends with an answer, an error, or nothing."""

    def __init__(self, command: Sequence[str], run: RunDirectory, ending: str) -> None:
        self.command, self.run, self.ending = list(command), run, ending
        self.looks, self.is_closed = 0, False

    def is_running(self) -> bool:
        return self.looks < 2 and not self.is_closed

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        self.looks += 1
        if self.looks == 2 and self.ending == "good":
            chosen = tuple(View(CAMERAS[number]) for number in (3, 0))
            write_capture(Capture(self.run.root, chosen), name=PROPOSED_NAME)
        return []

    def send(self, command: events.Command) -> bool:
        return False

    def error(self) -> UserError | None:
        over = not self.is_running() and not self.is_closed
        return UserError("It broke.", "Mend it.") if over and self.ending == "fails" else None

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def engines() -> list[Engine]:
    return []


def adviser(engines: list[Engine], ending: str = "good") -> EngineAdviser:
    def start(command: Sequence[str], run: RunDirectory) -> Any:
        engines.append(Engine(command, run, ending))
        return engines[-1]

    return EngineAdviser(Path("/engine/python"), seed=7, start=start)


def test_the_answer_names_what_was_chosen(tmp_path: Path, engines: list[Engine]) -> None:
    """None while the engine works; then the names of the chosen candidates, best first; its folder is gone."""
    asked = adviser(engines)
    asked.ask(tmp_path, LISTED, 2)
    assert asked.answer() is None
    assert asked.answer() == ["place 4", "place 1"]
    assert engines[0].is_closed and not (tmp_path / "proposal").exists()
    command = engines[0].command
    assert command[command.index("--candidates") + 1] == str(LISTED)
    assert command[:5] == ["/engine/python", "-m", "splat_engine", "propose", str(tmp_path)]
    assert command[command.index("--count") + 1] == "2" and command[command.index("--seed") + 1] == "7"
    asked.close()


def test_it_can_be_asked_again(tmp_path: Path, engines: list[Engine]) -> None:
    """Each question is a process of its own; an old answer is not taken for a new one."""
    asked = adviser(engines)
    for _ in range(2):
        asked.ask(tmp_path, LISTED, 2)
        assert asked.answer() is None and asked.answer() is not None
    assert len(engines) == 2


def test_a_failure_is_told_and_its_log_stays(tmp_path: Path, engines: list[Engine]) -> None:
    """The engine's words come through, with what is kept and what to do without."""
    asked = adviser(engines, "fails")
    asked.ask(tmp_path, LISTED, 2)
    assert asked.answer() is None
    with pytest.raises(UserError, match="could not be chosen: It broke") as caught:
        asked.answer()
    assert "Mend it." in caught.value.hint and "kept" in caught.value.hint
    asked.close()
    assert engines[0].is_closed and (tmp_path / "proposal").is_dir()


def test_an_engine_without_an_answer_is_an_error(tmp_path: Path, engines: list[Engine]) -> None:
    """It ended well and left no file."""
    asked = adviser(engines, "silent")
    asked.ask(tmp_path, LISTED, 2)
    asked.answer()
    with pytest.raises(UserError, match="There is no capture"):
        asked.answer()


def test_closing_half_way_ends_the_engine_and_leaves_nothing(tmp_path: Path, engines: list[Engine]) -> None:
    """A cancelled capture leaves no process and no folder."""
    asked = adviser(engines)
    asked.ask(tmp_path, LISTED, 2)
    asked.close()
    assert engines[0].is_closed and not (tmp_path / "proposal").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, engines: list[Engine]) -> None:
    """A file stands where the engine's folder must go: words, and no engine was started."""
    (tmp_path / "proposal").write_text("in the way")
    with pytest.raises(UserError, match="Cannot write"):
        adviser(engines).ask(tmp_path, LISTED, 2)
    assert not engines
