"""Runs that lie beside the file: which there are, how far each came, and their removal. Knows no bpy."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from splat_engine.formats import events
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import read_json, write_failure
from splat_engine.formats.locks import holder_of
from splat_engine.formats.run import RunDirectory

from ..engine.engine_process import RESULT_REASONS

_TAIL_BYTES = 1 << 12
"""Of events.jsonl: some twenty events, the last progress and ending among them. The panel reads this every few seconds."""
HISTORY_BYTES = 1 << 16
"""Some hundred events: the recent course of a fit."""


class RunState(enum.Enum):
    """What can be done with a run."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    BROKEN = "ended without a result"


@dataclass(frozen=True)
class EarlierRun:
    """A run as its files tell of it.

    Attributes:
        directory: The run's folder.
        state: Running in another program, interrupted with a checkpoint, finished, or of no use.
        step, steps: How far it came.
        splats: The last number that was told.
        psnr_db: On held-out views, of a finished run; None if it is not known.
        capture: The views it is fitted to; None if the run does not say.
        holder: Who runs it, in words; "" for nobody.
        changed_s: When it last told something, in seconds since 1970.
    """

    directory: Path
    state: RunState
    step: int = 0
    steps: int = 0
    splats: int = 0
    psnr_db: float | None = None
    capture: Path | None = None
    holder: str = ""
    changed_s: float = 0.0


def find_runs(folders: Iterable[Path]) -> list[EarlierRun]:
    """Returns the runs among folders and their direct subfolders, the newest first; what cannot be read is left out."""
    found = {}
    for folder in folders:
        for directory in (folder, *_subfolders(folder)):
            resolved = directory.resolve()
            run = read_run(resolved) if resolved not in found else None
            if run is not None:
                found[resolved] = run
    return sorted(found.values(), key=lambda run: run.changed_s, reverse=True)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [item for item in folder.iterdir() if item.is_dir()]
    except OSError:
        return []


def read_run(directory: Path) -> EarlierRun | None:
    """Returns what the files of a run tell; None where there is no run."""
    run = RunDirectory(directory)
    try:
        changed_s = run.events.stat().st_mtime
        if not run.settings.is_file():
            return None
        told = last_events(run)
    except OSError:
        return None
    holder = holder_of(run.lock)
    started = next((event for event in told if isinstance(event, events.Started)), events.Started())
    progress = [event for event in told if isinstance(event, (events.Progress, events.Finished))]
    last = progress[-1] if progress else None
    return EarlierRun(
        directory=directory,
        state=RunState.RUNNING if holder is not None else _state_at_rest(run, told),
        step=last.step if last is not None else started.first_step,
        steps=started.steps,
        splats=last.splats if last is not None else started.splats,
        psnr_db=_quality(run),
        capture=Path(started.capture) if started.capture else None,
        holder="" if holder is None else str(holder),
        changed_s=changed_s,
    )


def _state_at_rest(run: RunDirectory, told: list[events.Event]) -> RunState:
    ending = told[-1] if told else None
    if isinstance(ending, events.Finished) and ending.reason in RESULT_REASONS and run.splats.is_file():
        return RunState.FINISHED
    return RunState.INTERRUPTED if run.checkpoint.is_file() else RunState.BROKEN


def _quality(run: RunDirectory) -> float | None:
    try:
        found = read_json(run.metrics) if run.metrics.is_file() else {}
    except UserError:
        return None
    value = (
        found.get("engine.psnr") if isinstance(found, dict) and found.get("engine.split") == "test" else None
    )
    return float(value) if isinstance(value, (int, float)) else None


def last_events(run: RunDirectory, tail_bytes: int = _TAIL_BYTES) -> list[events.Event]:
    """Returns the start of a run's last fit, and the last events after it; lines that are none are left out.

    Args:
        run: The run.
        tail_bytes: How much of the file's end is looked at.

    Raises:
        OSError: The file cannot be read.
    """
    content = run.events.read_bytes()
    begin = max(content.rfind(b'{"event": "started"'), 0)
    first, _, rest = content[begin:].partition(b"\n")
    tail = rest[-tail_bytes:]
    lines = tail.split(b"\n")[len(tail) < len(rest) :]
    decoded = (event_of(line.decode("utf-8", "replace")) for line in (first, *lines))
    return [event for event in decoded if event is not None]


def event_of(line: str) -> events.Event | None:
    """Returns the event in a line; None where there is none, as in one that was cut off."""
    try:
        return events.decode_event(line)
    except FormatError:
        return None


def remove(directory: Path) -> list[str]:
    """Removes a run's files, and its folder if nothing else is in it.

    Returns:
        Notes for a person: what stays.

    Raises:
        UserError: An engine writes the run, or a file cannot be removed.
    """
    run = RunDirectory(directory)
    holder = holder_of(run.lock)
    if holder is not None:
        raise UserError(f"The run {directory} is being written ({holder}).", "Stop it first.")
    names = (
        run.settings,
        run.events,
        run.log,
        run.preview,
        run.snapshot,
        run.checkpoint,
        run.splats,
        run.metrics,
    )
    try:
        for path in (*names, *directory.glob(".*.part"), run.lock):
            path.unlink(missing_ok=True)
        if not directory.is_dir():
            return []
        others = sorted(item.name for item in directory.iterdir())
        if not others:
            directory.rmdir()
            return []
    except OSError as error:
        raise write_failure(directory, error) from error
    more = " and more" * (len(others) > 3)
    return [f"{directory} stays, for it holds what is not the run's: {', '.join(others[:3])}{more}."]
