"""A capture in two rounds: even views first, then those that the engine asks for after a short fit to them."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import bpy

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, View, read_capture, write_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import AROUND_RIGS, CaptureSettings

from .capture import CaptureProgress, CaptureSteps, capture_steps, scene_of
from .fingerprint import scene_fingerprint
from .plan import RIG_SIZE_PX, Offer, offer_cameras, place_names
from .render import RenderOptions, Stage

log = logging.getLogger(__name__)

FIRST_SHARE = 2 / 3
"""Of the training views are placed evenly; docs/views.md has the figures."""
LEAST_VIEWS = 6
"""With fewer training views there is nothing to learn from a first round."""
CANDIDATES_A_VIEW, LEAST_CANDIDATES, MOST_CANDIDATES = 2, 64, 128
PROBE_SHRINKING, LEAST_PROBE_PX = 4, 16
"""A probe has a fourth of a view's side and samples: 64 of them cost what one view costs, and what it costs to begin a view."""
PROBES_FOLDER = "probes"


class Adviser(Protocol):
    """Who chooses cameras: the engine."""

    def ask(self, capture: Path, candidates: Path, count: int) -> None:
        """Begins to choose for a capture among the cameras of a capture of probes; raises UserError."""

    def answer(self) -> list[str] | None:
        """Returns the names of the chosen ones, best first; None as long as there is none yet. May wait a moment. Raises UserError."""

    def close(self) -> None:
        """Ends, with or without an answer; leaves nothing behind."""


class Shares(NamedTuple):
    """How the views of an adaptive capture are divided.

    Attributes:
        even: Training views of the first round.
        chosen: Training views that the engine asks for.
        held_out: As many as a fixed rig holds out.
    """

    even: int
    chosen: int
    held_out: int


def shares_of(settings: CaptureSettings) -> Shares:
    """Returns how ``settings.views`` are divided."""
    every = settings.hold_out
    held_out = len(range(every // 2, settings.views, every)) if every else 0
    training = settings.views - held_out
    even = round(FIRST_SHARE * training)
    return Shares(even, training - even, held_out)


def unsuitable(settings: CaptureSettings) -> str:
    """Returns in a sentence why a capture with these settings cannot choose its views, or ""."""
    if settings.rig not in AROUND_RIGS:
        return "Views are chosen on a sphere, dome or ring only: the scene's own cameras, those on faces and those inside a room are captured as they are."
    if not settings.render:
        return "Without rendering there is nothing to choose views by, so all of them are placed evenly."
    if settings.views - shares_of(settings).held_out < LEAST_VIEWS:
        return f"With fewer than {LEAST_VIEWS} training views, all of them are placed evenly."
    return ""


def adaptive_steps(
    source: bpy.types.Context | bpy.types.Scene,
    settings: CaptureSettings,
    out_dir: str | Path,
    adviser: Adviser,
) -> CaptureSteps:
    """Captures a scene in two rounds; arguments, errors and steps as of ``capture_steps``.

    After each round the capture on disk is whole. What was asked for is remembered beside the views, so a capture that was
    interrupted goes on without asking again. The scene is set aside only while views are rendered.

    Args:
        source: A context, or a scene.
        settings: ``views`` is the budget of both rounds; not ``unsuitable``.
        out_dir: The capture's folder.
        adviser: Chooses; closed at the end.
    """
    root = Path(out_dir).absolute()
    shares = shares_of(settings)
    first = replace(settings, views=shares.even, hold_out=0)
    try:
        offer = _offer(source, settings, shares)
        memory = _Memory(root, _key(source, settings))
        asked = memory.recall(offer.candidates)
        if asked is None:
            made = yield from _of_all(
                settings.views, capture_steps(source, first, root, held_out_cameras=offer.held_out)
            )
            probes = yield from _probes(source, settings, root, offer.candidates)
            asked = yield from _answer(adviser, made, probes, offer.candidates, shares.chosen)
            memory.keep(asked)
            shutil.rmtree(root / PROBES_FOLDER, ignore_errors=True)
        return (
            yield from capture_steps(
                source, first, root, extra_cameras=asked, held_out_cameras=offer.held_out
            )
        )
    finally:
        adviser.close()


def _offer(source: bpy.types.Context | bpy.types.Scene, settings: CaptureSettings, shares: Shares) -> Offer:
    scene, view_layer = scene_of(source)
    view_layer.update()
    with Stage(scene, view_layer, RenderOptions(engine=settings.engine)) as stage:
        return offer_cameras(stage, settings, _candidate_count(settings), shares.held_out)


def _of_all(total: int, steps: CaptureSteps, verb: str = "Rendering") -> CaptureSteps:
    """Passes the steps of a part on, counted against all views, with a word for what is done."""
    try:
        while True:
            state = next(steps)
            left_s = state.seconds_per_view * (total - state.done)
            message = state.message.replace("Rendering", verb)
            yield replace(state, total=total, message=message, seconds_left=left_s)
    except StopIteration as ending:
        made: Capture = ending.value
        return made
    finally:
        steps.close()


def _probes(
    source: bpy.types.Context | bpy.types.Scene,
    settings: CaptureSettings,
    root: Path,
    candidates: Sequence[Camera],
) -> Generator[CaptureProgress, None, Path]:
    """Renders every candidate small and noisy, as a capture of its own; returns the list of the useful ones."""
    small = replace(
        settings,
        views=_candidate_count(settings),
        hold_out=0,
        resolution=max((settings.resolution or RIG_SIZE_PX) // PROBE_SHRINKING, LEAST_PROBE_PX),
        samples=max(settings.samples // PROBE_SHRINKING, 1),
        points=0,
        pictures=False,
    )
    steps = capture_steps(source, small, root / PROBES_FOLDER)
    made = yield from _of_all(small.views, steps, "Looking from")
    useful = {camera.name for camera in candidates}
    named = zip(place_names(len(made.views)), made.views, strict=True)
    views = [replace(view, camera=replace(view.camera, name=name)) for name, view in named if name in useful]
    return write_capture(replace(made, views=tuple(views)), name="candidates.json")


def _candidate_count(settings: CaptureSettings) -> int:
    return min(max(CANDIDATES_A_VIEW * settings.views, LEAST_CANDIDATES), MOST_CANDIDATES)


def _answer(
    adviser: Adviser, made: Capture, probes: Path, candidates: Sequence[Camera], size: int
) -> Generator[CaptureProgress, None, list[Camera]]:
    """Asks which views to render next; yields while there is no answer."""
    adviser.ask(made.root, probes, size)
    done = len(made.views)
    while (names := adviser.answer()) is None:
        yield CaptureProgress(done, done + size, "Choosing the next views")
    return _named(names, candidates)


def _named(names: Sequence[str], candidates: Sequence[Camera]) -> list[Camera]:
    """Returns candidates by name: they themselves, for a file that holds cameras rounds them.

    Raises:
        UserError: A name is no candidate's.
    """
    by_name = {camera.name: camera for camera in candidates}
    strange = [name for name in names if name not in by_name]
    if strange:
        raise UserError(f"The view {strange[0]!r} was asked for, which was not offered.", "Capture again.")
    return [by_name[name] for name in names]


def _key(source: bpy.types.Context | bpy.types.Scene, settings: CaptureSettings) -> str:
    """Fingerprint of what decides which views are asked for."""
    facts = (scene_fingerprint(*scene_of(source)), asdict(settings))
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


class _Memory:
    """Cameras that were asked for: an interrupted capture goes on with them.

    Args:
        root: The capture's folder.
        key: Of scene and settings; what was asked for under another is not recalled.
    """

    def __init__(self, root: Path, key: str) -> None:
        self._root, self._name = root, f"views/asked-{key}.json"

    def recall(self, candidates: Sequence[Camera]) -> list[Camera] | None:
        """Returns which candidates were asked for, or None; a damaged file counts as none."""
        path = self._root / self._name
        try:
            if not path.is_file():
                return None
            return _named([view.camera.name for view in read_capture(path).views], candidates)
        except UserError as error:
            log.warning("%s", error)
            return None

    def keep(self, cameras: Sequence[Camera]) -> None:
        """Writes down what is asked for, in place of what was asked for under another key; raises UserError."""
        write_capture(Capture(self._root, tuple(map(View, cameras))), name=self._name)
        for path in (self._root / "views").glob("asked-*.json"):
            if path.name != Path(self._name).name:
                path.unlink(missing_ok=True)
