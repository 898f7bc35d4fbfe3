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
from splat_engine.formats.capture import PROPOSED_NAME, Capture, View, read_capture, write_capture
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
        candidates: A capture of probes: small views from the cameras to choose from.
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
        UserError: The input is bad, a file cannot be written, or no candidate is drawn wrongly.
    """
    offered = read_capture(request.candidates)
    endings: list[Finished] = []

    def pass_on(event: Event) -> None:
        if isinstance(event, Finished):
            endings.append(event)
        else:
            emit(event)

    finished = run_fit(request.fit, pass_on, commands)
    if finished.reason in ("done", "stopped"):
        run = RunDirectory(request.fit.run)
        views = _chosen(request, offered)
        path = write_capture(Capture(run.root, views), name=PROPOSED_NAME)
        emit(FileWritten(kind="proposed", path=str(path), step=finished.step))
    emit(endings[-1])
    return finished


def _chosen(request: ProposalRequest, offered: Capture) -> tuple[View, ...]:
    """Returns the chosen cameras as views without files."""
    fit, place = request.fit, request.fit.place
    formation = ImageFormation.of(fit.settings.fit.formation, offered.info)
    splats, _, _ = read_splat_ply(RunDirectory(fit.run).splats)
    probes = CaptureImages(offered, "train", formation, target=fit.settings.fit.target, device=place.device)
    params = SplatState.from_splats(splats).to(place.device).params
    chosen = choose_views(params, probes, request.count, formation, place.backend)
    if not chosen:
        raise UserError(
            "No candidate shows anything that is drawn wrongly.",
            "Check that the views show the target, or turn adaptive views off.",
        )
    return tuple(View(probes.views[number].camera) for number in chosen)
