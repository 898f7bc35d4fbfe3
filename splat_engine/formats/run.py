"""The directory of one fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import read_json, write_failure, write_json


@dataclass(frozen=True)
class RunDirectory:
    """Names of what a run leaves on disk. Every file is written aside and renamed, but the two logs.

    Attributes:
        root: The run's folder.
    """

    root: Path

    @classmethod
    def create(cls, root: str | Path) -> RunDirectory:
        """Makes the folder if need be.

        Raises:
            UserError: The folder cannot be made.
        """
        root = Path(root)
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise write_failure(root, error) from error
        return cls(root)

    @classmethod
    def open(cls, root: str | Path) -> RunDirectory:
        """Opens an existing run.

        Raises:
            UserError: There is no run.
        """
        run = cls(Path(root))
        if not run.settings.is_file():
            raise UserError(
                f"There is no run at {root}.", "A run's folder holds settings.json; check the path."
            )
        return run

    @property
    def settings(self) -> Path:
        """The settings the run was started with."""
        return self.root / "settings.json"

    @property
    def events(self) -> Path:
        """Every event, a JSON line each; appended to."""
        return self.root / "events.jsonl"

    @property
    def log(self) -> Path:
        """The engine's stderr; appended to."""
        return self.root / "engine.log"

    @property
    def lock(self) -> Path:
        """Held by the engine that writes the run; see ``locks``."""
        return self.root / "run.lock"

    @property
    def preview(self) -> Path:
        """The newest preview picture."""
        return self.root / "preview.png"

    @property
    def snapshot(self) -> Path:
        """The newest splats while the fit goes on."""
        return self.root / "snapshot.ply"

    @property
    def checkpoint(self) -> Path:
        """All that a resume needs."""
        return self.root / "checkpoint.pt"

    @property
    def splats(self) -> Path:
        """The result."""
        return self.root / "splats.ply"

    @property
    def metrics(self) -> Path:
        """The result's figures."""
        return self.root / "metrics.json"

    def write_metrics(self, metrics: dict[str, Any]) -> None:
        """Writes metrics.json; keys that stand there already and are not given stay.

        Raises:
            UserError: The file cannot be written, or what stands there is not a table.
            ValueError: A number is not finite.
        """
        kept = read_json(self.metrics, "metrics file") if self.metrics.is_file() else {}
        if not isinstance(kept, dict):
            raise FormatError(
                f"{self.metrics} is not a table of figures.", "Remove it, or choose another run."
            )
        write_json(self.metrics, {**kept, **metrics})
