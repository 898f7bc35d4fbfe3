"""Live preview: while a fit runs, its splats stand in the viewport and are renewed from the newest snapshot.

While the engine starts, the capture's points stand there as discs. Then, in rounds: the engine is asked for a snapshot, a thread reads it, and the main thread hands finished arrays to Blender.
Rounds are spaced so that the fit loses at most ``ENGINE_SHARE`` of its time to them and Blender ``MAIN_SHARE``.

What is shown is the run's own object, the one that ``workflow.import_run`` fills with the result. It is looked for by
its provenance in every round: a person may rename, move, delete it or undo meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from splat_engine.formats.errors import UserError

from ..runs import following
from ..runs.running import Running
from ..runs.session import Session
from ..scene import point_cloud, results, splat_object
from .engine_view import Requests, icon
from .first_look import read_first_look
from .snapshots import Reading, Snapshot, read_snapshot

LEAST_INTERVAL_S = 2.0
"""Between two rounds; a person sees progress at that pace, and it is no flicker."""
ENGINE_SHARE = 0.02
"""Of the fit's time that snapshots may take."""
MAIN_SHARE = 0.05
"""Of the time of Blender's main thread that updates may take."""
ELLIPSOIDS_MAX = 30_000
"""So many are shown where Blender draws no splats itself. Blender 4.5 needs 12 ms to go through as many instances in
every redraw, and 200 ms for ten times as many (bpy 4.5.15 on two cores)."""
_ANSWER_S = 60.0
"""A snapshot that has not come by then (the disk is full, say) is asked for anew."""
_logger = logging.getLogger(__name__)


class LivePreview:
    """Follows one session.

    Args:
        job: The session, and the scene that gets its result.
        clock: Seconds; for tests.

    Attributes:
        cost_s: What the last update took of Blender's main thread.
        shown_step: The fit's step when what is shown was asked for; -1 before anything is shown.
    """

    def __init__(self, job: Running, clock: Callable[[], float] = time.monotonic) -> None:
        session = job.session
        self.session = session
        self.cost_s = 0.0
        self.shown_step = -1
        self._job = job
        self._clock = clock
        self._reading: Reading | None = None
        self._has_begun = self._has_shown = self._is_round = False
        self._seen = session.report.snapshots
        self._asked_step: int | None = None
        self._asked_s = self._next_s = clock()

    def tick(self) -> None:
        """Does what there is to do, and returns at once."""
        target = self._target()
        if target is None:
            self._reading = None
        elif self._reading is not None:
            if self._reading.is_over and not following.is_rendering():
                self._take(target)
        elif self.session.report.snapshots != self._seen:
            self._read()
        elif not self._has_begun:
            self._begin(target)
        elif self._is_due():
            self._ask()

    def _target(self) -> Any:
        """Returns the scene where splats are to be shown now; None if they are not."""
        if not self.session.state.has_engine:
            return None
        target = following.scene_of(self._job)
        return target if target is not None and target.splatfit.live_preview else None

    def _is_due(self) -> bool:
        now_s = self._clock()
        if self._has_result():
            return False
        if self._asked_step is not None:
            return now_s - self._asked_s >= _ANSWER_S
        return now_s >= self._next_s and self.session.report.step != self.shown_step

    def _begin(self, target: Any) -> None:
        """Asks for the first splats; while the engine starts, the capture's points are shown if nothing else is."""
        self._has_begun, self._is_round = True, False
        self._ask()
        capture, most = self.session.capture_directory, _most()
        is_starting = not self.session.report.steps
        if capture is not None and is_starting and not results.made_by(target, self.session.run.root):
            self._reading = Reading(lambda: read_first_look(capture, most))

    def _ask(self) -> None:
        if self.session.snapshot():
            self._asked_step, self._asked_s = self.session.report.step, self._clock()

    def _read(self) -> None:
        self._seen, self._is_round = self.session.report.snapshots, True
        path, most = self.session.run.splats if self._has_result() else self.session.run.snapshot, _most()
        self._reading = Reading(lambda: read_snapshot(path, most))

    def _has_result(self) -> bool:
        """The engine takes no more commands then: it measures the result."""
        return "splats" in self.session.report.file_seconds

    def _take(self, target: Any) -> None:
        """Shows what was read, and says when the next round is."""
        reading, self._reading = self._reading, None
        assert reading is not None
        if isinstance(reading.error, UserError):
            _logger.info("no preview: %s", reading.error)
        elif reading.error is not None:
            raise reading.error
        elif reading.snapshot is not None:
            since_s = self._clock()
            show(target, self.session, reading.snapshot, is_first=not self._has_shown)
            self._has_shown = True
            self.cost_s = self._clock() - since_s
        if self._is_round:
            self._end_round()

    def _end_round(self) -> None:
        """Notes which step is shown, and when the next snapshot is to be asked for."""
        step, self._asked_step = self._asked_step, None
        self.shown_step = self.session.report.step if step is None else step
        engine_s = self.session.report.file_seconds.get("snapshot", 0.0)
        self._next_s = self._clock() + max(
            LEAST_INTERVAL_S, engine_s / ENGINE_SHARE, self.cost_s / MAIN_SHARE
        )


def show(target: Any, session: Session, snapshot: Snapshot, *, is_first: bool) -> Any:
    """Puts a snapshot into the run's object, made if there is none. No step of undo is made.

    Once it was made, the scene's ``preview_run`` says so. If that says so and there is no object, a person has deleted
    it, and it stays away until the result comes; after an undo to before the preview neither is there.

    Args:
        target: The scene.
        session: The run that the splats are of.
        snapshot: What is shown.
        is_first: Whether it is the session's first.

    Returns:
        The object; None if a person has deleted it, or is editing it.
    """
    run = session.run.root
    origin = str(run.resolve())
    found = [item for item in results.made_by(target, run) if splat_object.is_own_point_cloud(item)]
    chosen = target.splatfit
    if not found and not is_first and chosen.preview_run == origin:
        return None
    if found and found[0].mode != "OBJECT":
        return None
    if found:
        object = found[0]
        splat_object.refill(object, snapshot.attributes)
    else:
        object = splat_object.new_splat_object(results.result_name(run), snapshot.attributes)
        target.collection.objects.link(object)
    splat_object.set_provenance(object, _provenance(origin, snapshot))
    chosen.preview_run = origin
    return object


def _provenance(origin: str, snapshot: Snapshot) -> splat_object.Provenance:
    said = snapshot.metadata
    return splat_object.Provenance(
        run=origin,
        formation=said.get("formation", ""),
        version=said.get("version", ""),
        splats=snapshot.count,
    )


def _most() -> int | None:
    """Returns how many splats this Blender shows at most; None for all."""
    return None if point_cloud.has_native_splats() else ELLIPSOIDS_MAX


_live: LivePreview | None = None
_requests: Requests | None = None


def current() -> LivePreview | None:
    """Returns the preview of the last session that was followed."""
    return _live


def requests_of(job: Running) -> Requests:
    """Returns through what the engine of a session is asked for pictures."""
    global _requests
    if _requests is None or _requests.session is not job.session:
        _requests = Requests(job.session)
    return _requests


def tick(job: Running) -> None:
    """Called with every tick of a session: keeps its preview going, and ends it with the session."""
    global _live
    if _live is None or _live.session is not job.session:
        _live = LivePreview(job)
    _live.tick()
    target = following.scene_of(job)
    if target is not None and job.session.state.has_engine:
        requests_of(job).tick(follows=target.splatfit.follow_view)


def forget() -> None:
    """Forgets the session that was followed, and its pictures; called when Splatfit is switched off."""
    global _live, _requests
    _live = _requests = None
    icon.free()
