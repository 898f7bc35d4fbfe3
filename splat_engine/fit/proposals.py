"""A short fit to the views that are there, and from it the cameras that a capture should render next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from splat_engine.fit.commands import CommandSource
from splat_engine.fit.data import CaptureImages
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.loop import FitRequest, run_fit
from splat_engine.fit.model import SplatState
from splat_engine.fit.next_views import choose_views
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import PROPOSED_NAME, Capture, read_capture, write_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Event, FileWritten, Finished
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import FitSettings, RunSettings
from splat_engine.formats.splat_ply import read_splat_ply

MOST_SPLATS = 20000
"""A short fit needs to know where something is wrong, not how it looks in detail."""


@dataclass(frozen=True)
class ProposalRequest:
    """What is asked.

    Attributes:
        fit: The short fit: capture, run, settings, place.
        candidates: A capture's file that lists cameras alone.
        count: How many of them are wanted.
    """

    fit: FitRequest
    candidates: Path
    count: int


def brief(settings: FitSettings, steps: int) -> RunSettings:
    """Returns the settings of a short fit: few splats, whose number stays, and nothing saved on the way."""
    fit = replace(
        settings,
        steps=steps,
        max_splats=MOST_SPLATS,
        strategy="none",
        snapshot_interval=0,
        checkpoint_interval=0,
    )
    return RunSettings(fit=fit)


def propose_views(
    request: ProposalRequest, emit: Callable[[Event], None], commands: CommandSource
) -> Finished:
    """Fits briefly and writes the chosen cameras, best first, into the run as ``proposed.json``.

    Args:
        request: The fit and the candidates.
        emit: Takes each event; Finished is the last, after the file is written.
        commands: Where commands come from.

    Returns:
        The last event. After an interrupted fit there are no cameras.

    Raises:
        UserError: The input is bad, a file cannot be written, or no candidate sees anything.
    """
    offered = read_capture(request.candidates).views
    endings: list[Finished] = []

    def pass_on(event: Event) -> None:
        if isinstance(event, Finished):
            endings.append(event)
        else:
            emit(event)

    finished = run_fit(request.fit, pass_on, commands)
    if finished.reason in ("done", "stopped"):
        run = RunDirectory(request.fit.run)
        views = tuple(offered[number] for number in _chosen(request, [view.camera for view in offered]))
        path = write_capture(Capture(run.root, views), name=PROPOSED_NAME)
        emit(FileWritten(kind="proposed", path=str(path), step=finished.step))
    emit(endings[-1])
    return finished


def _chosen(request: ProposalRequest, cameras: list[Camera]) -> list[int]:
    fit, place = request.fit, request.fit.place
    formation = ImageFormation(fit.settings.fit.formation)
    splats, _, _ = read_splat_ply(RunDirectory(fit.run).splats)
    images = CaptureImages(
        read_capture(fit.capture), "train", formation, target=fit.settings.fit.target, device=place.device
    )
    chosen = choose_views(
        SplatState.from_splats(splats).to(place.device).params,
        images,
        cameras,
        request.count,
        formation,
        seed=fit.settings.fit.seed,
        backend=place.backend,
    )
    if not chosen:
        raise UserError(
            "No candidate sees anything of what was fitted.",
            "Check that the views show the target, or turn adaptive off.",
        )
    return chosen
