"""A capture in rounds: a few even views first, then those that the engine asks for after a short fit to them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

import bpy

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, View, read_capture, write_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import CaptureSettings

from .capture import CaptureProgress, CaptureSteps, capture_steps, scene_of
from .fingerprint import scene_fingerprint
from .plan import GENERATED_RIGS, Offer, offer_cameras
from .render import RenderOptions, Stage

log = logging.getLogger(__name__)

ROUNDS = 3
LEAST_VIEWS = 2 * ROUNDS
"""With fewer training views there is nothing to learn from a first round."""
CANDIDATES_A_VIEW, LEAST_CANDIDATES, MOST_CANDIDATES = 3, 64, 240


class Adviser(Protocol):
    """Who chooses cameras: the engine."""

    def ask(self, capture: Path, candidates: Sequence[Camera], count: int) -> None:
        """Begins to choose among candidates for a capture; raises UserError."""

    def answer(self) -> list[str] | None:
        """Returns the names of the chosen ones, best first; None as long as there is none yet. May wait a moment. Raises UserError."""

    def close(self) -> None:
        """Ends, with or without an answer; leaves nothing behind."""


def round_sizes(settings: CaptureSettings) -> tuple[list[int], int]:
    """Returns the training views of each round, and the number of held-out views: as many as a fixed rig holds out."""
    every = settings.hold_out
    held_out = len(range(every // 2, settings.views, every)) if every else 0
    training = settings.views - held_out
    ends = [round(training * part / ROUNDS) for part in range(ROUNDS + 1)]
    return [last - first for first, last in zip(ends, ends[1:], strict=False)], held_out


def unsuitable(settings: CaptureSettings) -> str:
    """Returns in a sentence why a capture with these settings cannot choose its views, or ""."""
    if settings.rig not in GENERATED_RIGS:
        return "The scene's own cameras are captured as they are: views are chosen on a sphere, dome or ring only."
    if not settings.render:
        return "Without rendering there is nothing to choose views by, so all of them are placed evenly."
    if sum(round_sizes(settings)[0]) < LEAST_VIEWS:
        return f"With fewer than {LEAST_VIEWS} training views, all of them are placed evenly."
    return ""


def adaptive_steps(
    source: bpy.types.Context | bpy.types.Scene,
    settings: CaptureSettings,
    out_dir: str | Path,
    adviser: Adviser,
) -> CaptureSteps:
    """Captures a scene in rounds; arguments, errors and steps as of ``capture_steps``.

    After each round the capture on disk is whole. What was asked for is remembered beside the views, so a capture that was
    interrupted goes on without asking again. The scene is set aside only while views are rendered.

    Args:
        source: A context, or a scene.
        settings: ``views`` is the budget of all rounds; not ``unsuitable``.
        out_dir: The capture's folder.
        adviser: Chooses; closed at the end.
    """
    root = Path(out_dir).absolute()
    sizes, held_out = round_sizes(settings)
    first = replace(settings, views=sizes[0], hold_out=0)
    try:
        offer = _offer(source, settings, sum(sizes), held_out)
        memory = _Memory(root, _key(source, settings))
        extra: list[Camera] = []
        for number, size in enumerate([*sizes[1:], 0]):
            left = [camera for camera in offer.candidates if camera not in extra]
            asked = memory.recall(number, left) if size else None
            if asked is None:
                made = yield from _of_all(
                    settings.views,
                    capture_steps(source, first, root, extra_cameras=extra, held_out_cameras=offer.held_out),
                )
                asked = (yield from _answer(adviser, made, left, size)) if size else []
                memory.keep(number, asked)
            extra += asked
        memory.forget_others()
        return made
    finally:
        adviser.close()


def _offer(
    source: bpy.types.Context | bpy.types.Scene, settings: CaptureSettings, training: int, held_out: int
) -> Offer:
    scene, view_layer = scene_of(source)
    view_layer.update()
    wanted = min(max(CANDIDATES_A_VIEW * training, LEAST_CANDIDATES), MOST_CANDIDATES)
    with Stage(scene, view_layer, RenderOptions(engine=settings.engine)) as stage:
        return offer_cameras(stage, settings, max(wanted, training), held_out)


def _of_all(total: int, steps: CaptureSteps) -> CaptureSteps:
    """Passes the steps of a round on, counted against the views of all rounds."""
    try:
        while True:
            state = next(steps)
            left_s = state.seconds_per_view * (total - state.done)
            yield replace(state, total=total, seconds_left=left_s)
    except StopIteration as ending:
        made: Capture = ending.value
        return made
    finally:
        steps.close()


def _answer(
    adviser: Adviser, made: Capture, candidates: Sequence[Camera], size: int
) -> Generator[CaptureProgress, None, list[Camera]]:
    """Asks which views to render next; yields while there is no answer."""
    adviser.ask(made.root, candidates, size)
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
    """Cameras that were asked for, a file a round: an interrupted capture goes on with them.

    Args:
        root: The capture's folder.
        key: Of scene and settings; what was asked for under another is not recalled.
    """

    def __init__(self, root: Path, key: str) -> None:
        self.root, self.key = root, key

    def _name(self, number: int) -> str:
        return f"views/asked-{self.key}-{number + 1}.json"

    def recall(self, number: int, candidates: Sequence[Camera]) -> list[Camera] | None:
        """Returns which candidates were asked for after a round, or None; a damaged file counts as none."""
        path = self.root / self._name(number)
        try:
            if not path.is_file():
                return None
            return _named([view.camera.name for view in read_capture(path).views], candidates)
        except UserError as error:
            log.warning("%s", error)
            return None

    def keep(self, number: int, cameras: Sequence[Camera]) -> None:
        """Writes down what is asked for, if anything; raises UserError."""
        if not cameras:
            return
        write_capture(Capture(self.root, tuple(map(View, cameras))), name=self._name(number))

    def forget_others(self) -> None:
        """Removes what was asked for under other keys."""
        for path in (self.root / "views").glob("asked-*.json"):
            if not path.name.startswith(f"asked-{self.key}-"):
                path.unlink(missing_ok=True)
