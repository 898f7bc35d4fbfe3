"""The whole loop put together: a scene is captured, the engine started, the result brought back."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.capture import Capture, write_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_failure
from splat_engine.formats.locks import Lock, holder_of
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import CaptureSettings, RunSettings
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats

from ..capture.adaptive import adaptive_steps, unsuitable
from ..capture.capture import CaptureSteps, capture_steps
from ..capture.checks import scene_warnings
from ..engine import engine_process
from ..scene.results import as_fitted, made_by, result_name
from ..scene.splat_object import (
    Added,
    Provenance,
    add_splats,
    replace_splats,
)
from . import background
from .adviser import EngineAdviser
from .capture_process import CaptureJob
from .session import CaptureStep, Session

LOCK_NAME = "capture.lock"
"""In a capture's folder; held while views are rendered."""


@dataclass(frozen=True)
class FitRequest:
    """What is to be captured and fitted.

    Attributes:
        scene: What is captured.
        capture_directory, run_directory: Where capture and run go.
        capture: How views are chosen and rendered.
        run: How splats are fitted.
        engine_python: The engine's Python.
        resume: Go on from the run's checkpoint.
        use_capture: Fit to the capture that is there, as it is.
        in_place: Render the views in this Blender; else another renders a copy of the file.
        source: What the capture says it is of; "": the open file.
    """

    scene: Any
    capture_directory: Path
    run_directory: Path
    capture: CaptureSettings = field(default_factory=CaptureSettings)
    run: RunSettings = field(default_factory=RunSettings)
    engine_python: str = ""
    resume: bool = False
    use_capture: bool = False
    in_place: bool = True
    source: str = ""


def default_folder(blend: str) -> Path:
    """Returns the folder for captures and runs beside a .blend file.

    Raises:
        UserError: The file was never saved.
    """
    if not blend:
        raise UserError(
            "This file was never saved.", "Save it, or choose folders for the capture and the run."
        )
    path = Path(blend)
    return path.with_name(f"{path.stem}.splatfit")


def fit_session(request: FitRequest) -> Session:
    """Returns a session, not yet started, that captures and fits.

    The engine's Python is looked at first, so that nobody waits for a capture in vain.

    Raises:
        UserError: The engine cannot run, or the run's folder cannot be made.
    """
    python = engine_process.find_python(request.engine_python)
    engine_process.check_python(python)
    run = RunDirectory.create(request.run_directory)
    refuse_busy(run)
    command = engine_process.train_command(
        python, request.capture_directory, run, request.run, resume=request.resume
    )
    warnings: list[str] = []
    steps = None if request.use_capture else _capture_for(request, warnings)
    session = Session(run, lambda: engine_process.EngineProcess(command, run), steps)
    session.capture_directory = request.capture_directory
    session.report.warnings = warnings
    return session


def resume_session(run: RunDirectory, capture: Path, engine_python: str = "") -> Session:
    """Returns a session, not yet started, that goes on with an interrupted run, as it was meant.

    Args:
        run: The run.
        capture: The views that it is fitted to.
        engine_python: The engine's Python.

    Raises:
        UserError: The engine cannot run, or another writes the run.
    """
    python = engine_process.find_python(engine_python)
    engine_process.check_python(python)
    refuse_busy(run)
    command = engine_process.train_command(python, capture.absolute(), run, None, resume=True)
    session = Session(run, lambda: engine_process.EngineProcess(command, run))
    session.capture_directory = capture
    return session


def refuse_busy(run: RunDirectory) -> None:
    """Refuses a run that another engine writes; the engine itself looks again.

    Raises:
        UserError: One does.
    """
    holder = holder_of(run.lock)
    if holder is not None:
        raise UserError(
            f"The run {run.root} is being written by another Splatfit ({holder}).",
            "Watch it under Unfinished, wait for its end, or choose another run folder.",
        )


def capture_session(request: FitRequest) -> Session:
    """Returns a session, not yet started, that captures and does not fit.

    Raises:
        UserError: The capture is adaptive, and the engine cannot run.
    """
    if _is_adaptive(request.capture):
        engine_process.check_python(engine_process.find_python(request.engine_python))
    warnings: list[str] = []
    session = Session(RunDirectory(request.run_directory), None, _capture_for(request, warnings))
    session.report.warnings = warnings
    return session


def _is_adaptive(settings: CaptureSettings) -> bool:
    return settings.adaptive and not unsuitable(settings)


def _steps_of(request: FitRequest) -> CaptureSteps:
    """Returns the steps of a capture with a fixed rig, or of one whose views the engine chooses."""
    settings = request.capture
    if not _is_adaptive(settings):
        return capture_steps(request.scene, settings, request.capture_directory)
    python = engine_process.find_python(request.engine_python)
    adviser = EngineAdviser(python, settings.seed)
    return adaptive_steps(request.scene, settings, request.capture_directory, adviser)


def _capture_for(request: FitRequest, warnings: list[str]) -> Iterator[CaptureStep]:
    if request.in_place:
        return _capture_steps(request, warnings)
    out = request.capture_directory.absolute()
    job = CaptureJob(
        copy=background.copy_path(out),
        source=bpy.data.filepath,
        scene=request.scene.name,
        out=out,
        run=request.run_directory.absolute(),
        settings=request.capture,
        engine_python=request.engine_python,
    )
    return background.BackgroundCapture(job, warnings)


def _capture_steps(request: FitRequest, warnings: list[str]) -> Iterator[CaptureStep]:
    """Captures step by step for a session; closing it puts the scene back.

    Splats are fitted to the scene, not to their own picture: what this run made before is hidden meanwhile, and originals
    that were hidden for a result are shown.
    """
    with as_fitted(request.scene, request.run_directory):
        if request.capture.adaptive and unsuitable(request.capture):
            warnings.append(unsuitable(request.capture))
        warnings += scene_warnings(request.scene)  # what is missing is known before hours of rendering
        with closing(_steps_of(request)) as steps, _alone_in(request.capture_directory):
            made = yield from _told(steps)
        if request.source:
            write_capture(replace(made, info=replace(made.info, source=request.source)))
        warnings += [note for note in made.notes if note not in warnings]


def _told(steps: CaptureSteps) -> Generator[CaptureStep, None, Capture]:
    """Passes the steps of a capture on in a session's words."""
    while True:
        try:
            state = next(steps)
        except StopIteration as ending:
            made: Capture = ending.value
            return made
        yield CaptureStep(state.done, state.total, state.message, state.seconds_left)


def _alone_in(capture: Path) -> Lock:
    """Keeps another Blender from rendering into the same capture.

    Raises:
        UserError: One does, or the folder cannot be written.
    """
    try:
        capture.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(capture, error) from error
    return Lock(capture / LOCK_NAME, f"The capture {capture}")


def import_run(scene: bpy.types.Scene, run: RunDirectory, psnr_db: float | None = None) -> Added:
    """Brings a run's result into a scene; an object that the same run made before gets the new splats.

    Args:
        scene: Where the object goes.
        run: A finished run.
        psnr_db: On held-out views, if known.

    Raises:
        UserError: The run has no result, or it cannot be drawn.
    """
    if not run.splats.is_file():
        raise UserError(f"The run {run.root} has no result yet.", "Finish the fit first.")
    splats, _, notes = read_splat_ply(run.splats)
    provenance = _provenance(splats, run.root, psnr_db)
    earlier = [item for item in made_by(scene, run.root) if item.type == "POINTCLOUD"]
    if earlier:
        added = replace_splats(earlier[0], splats, provenance)
    else:
        added = add_splats(splats, scene, result_name(run.root), provenance)
    return replace(added, notes=(*notes, *added.notes))


def import_ply(scene: bpy.types.Scene, path: Path) -> Added:
    """Brings the splats of a PLY file into a scene, as an object of its own.

    Args:
        scene: Where the object goes.
        path: The file.

    Raises:
        UserError: The file is missing or damaged, or holds nothing to draw.
    """
    splats, _, notes = read_splat_ply(path)
    added = add_splats(splats, scene, path.stem, _provenance(splats, path, None))
    return replace(added, notes=(*notes, *added.notes))


def _provenance(splats: Splats, origin: Path, psnr_db: float | None) -> Provenance:
    said = splats.metadata
    return Provenance(
        run=str(origin.resolve()),
        formation=said.get("formation", ""),
        version=said.get("version", ""),
        splats=len(splats),
        psnr_db=psnr_db,
    )


def timed_import(scene: Any, run: RunDirectory, psnr_db: float | None) -> tuple[Added, float]:
    """Does ``import_run`` and returns how many seconds it took."""
    since_s = time.monotonic()
    added = import_run(scene, run, psnr_db)
    return added, time.monotonic() - since_s
