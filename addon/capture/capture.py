"""The capture of a scene: planned, rendered view by view, resumed where it stopped, and written down."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import bpy

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import (
    INIT_NAME,
    PARTIAL_NAME,
    TRANSFORMS_NAME,
    Capture,
    CaptureInfo,
    View,
    read_capture,
    write_capture,
)
from splat_engine.formats.errors import UserError
from splat_engine.formats.exr import PASS_CHANNELS, check_exr, read_passes
from splat_engine.formats.files import write_bytes, write_failure
from splat_engine.formats.point_ply import write_point_ply
from splat_engine.formats.settings import CaptureSettings

from .cameras import image_frame
from .checks import can_denoise, reads_object_index, scene_warnings
from .fingerprint import scene_fingerprint
from .pictures import write_picture
from .plan import Plan, SceneFacts, make_plan
from .points import gather_points
from .render import EEVEE_NAMES, PASS_PROPERTIES, RenderOptions, Stage
from .sources import GivenCameras
from .state import add_state, read_state

log = logging.getLogger(__name__)


class CaptureCancelled(UserError):
    """A person stopped the capture; what was rendered is kept."""


@dataclass(frozen=True)
class CaptureProgress:
    """How far a capture is.

    Attributes:
        done, total: Views.
        message: What happens next.
        seconds_per_view: Median of the views rendered in this call, 0 before the first.
        seconds_left: Estimate for the views that are left.
    """

    done: int
    total: int
    message: str
    seconds_per_view: float = 0.0
    seconds_left: float = 0.0


CaptureSteps = Generator[CaptureProgress, None, Capture]


def capture_scene(
    source: bpy.types.Context | bpy.types.Scene,
    settings: CaptureSettings,
    out_dir: str | Path,
    *,
    progress: Callable[[CaptureProgress], None] | None = None,
    should_cancel: Callable[[], bool] | None = None,
    extra_cameras: Sequence[Camera] = (),
) -> Capture:
    """Captures a scene to its end.

    Args:
        source: A context, or a scene.
        settings: What is captured.
        out_dir: The capture's folder; made if need be. A capture that was interrupted there goes on.
        progress: Called before each step.
        should_cancel: Asked before each step.
        extra_cameras: More training views, at the present frame.

    Returns:
        The capture; its ``notes`` are warnings for the user.

    Raises:
        CaptureCancelled: ``should_cancel`` said so. Finished views are kept and are listed in transforms.partial.json.
        UserError: Something is missing or cannot be written. The scene is as before in every case.
    """
    steps = capture_steps(source, settings, out_dir, extra_cameras=extra_cameras)
    try:
        while True:
            state = next(steps)
            if progress is not None:
                progress(state)
            if should_cancel is not None and should_cancel():
                steps.close()
                raise CaptureCancelled(
                    f"The capture was cancelled after {state.done} of {state.total} views.",
                    "Capture into the same folder to go on.",
                )
    except StopIteration as finished:
        capture: Capture = finished.value
        return capture


def capture_steps(
    source: bpy.types.Context | bpy.types.Scene,
    settings: CaptureSettings,
    out_dir: str | Path,
    *,
    extra_cameras: Sequence[Camera] = (),
    held_out_cameras: Sequence[Camera] = (),
) -> CaptureSteps:
    """Captures a scene step by step, for a modal operator or a loop: about one view between two yields.

    A capture that is there already gets more views by more ``extra_cameras``: what it has is not rendered again, its held-out
    views stay, its start points are merged anew, and until the new list is written the old one stands.

    The scene stays set aside from the first yield until the generator ends or is closed; close it to cancel, and
    let the user change nothing meanwhile. Arguments and errors as for ``capture_scene``.

    Yields:
        The state before each step.

    Returns:
        The capture.
    """
    scene, view_layer = scene_of(source)
    root = _prepared(Path(out_dir).absolute())
    warnings = scene_warnings(scene)
    view_layer.update()
    facts = SceneFacts(image_frame(scene.render), GivenCameras.of(scene, view_layer), _fps(scene))
    scene_digest = scene_fingerprint(scene, view_layer) if settings.render else ""
    options, lent = _options(scene, settings)
    if not lent:
        warnings.append("A material or driver reads object indices, so the views have no object index pass.")
    if (settings.denoise or settings.test_denoise) and not can_denoise():
        warnings.append("This Blender has no denoiser: the views stay noisy. Take 64 samples or more.")
    with Stage(scene, view_layer, options) as stage:
        yield CaptureProgress(0, 0, "Looking at the scene")
        plan = make_plan(stage, settings, facts, extra_cameras, held_out_cameras)
        warnings += plan.notes
        job = _Job(root, settings, plan, stage, scene_digest)
        if not settings.render:
            return job.finish(None, (), warnings)
        names = stage.number_objects(list(plan.objects)) if "object_index" in options.passes else ()
        yield from job.render_all()
        warnings += job.warnings
    yield CaptureProgress(len(plan.views), len(plan.views), "Making start points")
    init = job.make_points(warnings)
    return job.finish(init, names, warnings)


def plan_capture(source: bpy.types.Context | bpy.types.Scene, settings: CaptureSettings) -> Plan:
    """Returns what ``capture_steps`` would capture, without rendering; the scene is as before.

    Args:
        source: A context, or a scene.
        settings: What is captured.

    Raises:
        UserError: As of ``capture_steps``.
    """
    scene, view_layer = scene_of(source)
    view_layer.update()
    facts = SceneFacts(image_frame(scene.render), GivenCameras.of(scene, view_layer), _fps(scene))
    with Stage(scene, view_layer, RenderOptions(engine=settings.engine)) as stage:
        return make_plan(stage, settings, facts)


def scene_of(source: bpy.types.Context | bpy.types.Scene) -> tuple[bpy.types.Scene, bpy.types.ViewLayer]:
    """Returns the scene and the view layer that are captured."""
    if isinstance(source, bpy.types.Scene):
        active = bpy.context.view_layer
        own = bpy.context.scene == source and active is not None
        return source, active if own else source.view_layers[0]
    return source.scene, source.view_layer


def _prepared(root: Path) -> Path:
    """Makes the folders, and makes sure that they can be written."""
    try:
        (root / "views").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(root, error) from error
    probe = root / "views" / ".writable"
    write_bytes(probe, b"")
    probe.unlink(missing_ok=True)
    return root


def _fps(scene: bpy.types.Scene) -> float:
    return scene.render.fps / scene.render.fps_base


def _options(scene: bpy.types.Scene, settings: CaptureSettings) -> tuple[RenderOptions, bool]:
    """Returns how views are rendered, and whether objects can be numbered if the engine knows that pass."""
    eevee = settings.engine == "EEVEE" or (settings.engine == "scene" and scene.render.engine in EEVEE_NAMES)
    lent = eevee or not reads_object_index()
    passes = tuple(name for name in PASS_PROPERTIES if name != "object_index" or (lent and not eevee))
    options = RenderOptions(
        engine=settings.engine,
        samples=settings.samples,
        denoise=settings.denoise,
        transparent=settings.transparent,
        passes=passes,
    )
    return options, lent


class _Job:
    """The rendering of a plan into a folder."""

    def __init__(
        self, root: Path, settings: CaptureSettings, plan: Plan, stage: Stage, scene_digest: str
    ) -> None:
        self.root, self.settings, self.plan, self.stage = root, settings, plan, stage
        self.scene_digest = scene_digest
        self.warnings: list[str] = []
        self.seconds: list[float] = []
        self.info = self._describe(stage.scene)

    def _describe(self, scene: bpy.types.Scene) -> CaptureInfo:
        view, framing = scene.view_settings, self.plan.framing
        look = f", {view.look}" if view.look not in ("", "None") else ""
        sampling = self.stage.scene_samples
        return CaptureInfo(
            source=bpy.data.filepath,
            unit_scale_m=scene.unit_settings.scale_length,
            view_transform=f"{view.view_transform}{look}",
            samples=self.settings.samples or sampling,
            denoised=self.settings.denoise,
            box_filtered=self.settings.box_filter and self.settings.render and not self.settings.pictures,
            engine="EEVEE" if scene.render.engine in EEVEE_NAMES else scene.render.engine,
            bounds_min=tuple(framing.bounds_min.tolist()) if framing else None,
            bounds_max=tuple(framing.bounds_max.tolist()) if framing else None,
        )

    def render_all(self) -> Generator[CaptureProgress, None, None]:
        """Renders what is not there yet; on leaving early, writes down what is."""
        views = self.plan.views
        digests = [self._digest(number, view) for number, view in enumerate(views)]
        kept = self._kept(digests)
        done = [number for number in range(len(views)) if number in kept]
        self._forget_lists_of({str(view.exr) for n, view in enumerate(views) if n not in kept})
        if done:
            log.info("%d of %d views are kept from an earlier capture", len(done), len(views))
        complete = False
        try:
            for number, view in enumerate(views):
                if number not in kept:
                    yield self._progress(len(done), view)
                    self._render(number, view, digests[number])
                    done.append(number)
                self._picture(view)
            complete = True
        finally:
            if not complete and done:
                self._write_partial([views[number] for number in sorted(done)])

    def _progress(self, done: int, view: View) -> CaptureProgress:
        later = self.seconds[1:] or self.seconds  # the first view also loads the scene
        each = statistics.median(later) if later else 0.0
        total = len(self.plan.views)
        message = f"Rendering {view.camera.name}"
        return CaptureProgress(done, total, message, each, each * (total - done))

    def _samples(self, view: View) -> int:
        held_out = view.split == "test" and self.settings.test_samples
        return self.settings.test_samples if held_out else self.settings.samples

    def _denoise(self, view: View) -> bool:
        return self.settings.denoise or (view.split == "test" and self.settings.test_denoise)

    def _is_box_filtered(self, view: View) -> bool:
        return self.info.box_filtered and view.split == "train"

    def _seed(self, number: int) -> int:
        return (self.settings.seed * 1_000_003 + number * 7919) % (2**31 - 1)

    def _digest(self, number: int, view: View) -> str:
        """Fingerprint of all that decides a view's pixels."""
        facts = (
            self.scene_digest,
            bpy.app.version_string,
            view.camera.to_frame(),
            (view.camera.near, view.camera.far, view.frame, self._samples(view), self._seed(number)),
            self._is_box_filtered(view),
            # The view's own samples stand above.
            asdict(replace(self.stage.options, samples=0, denoise=self._denoise(view))),
        )
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _kept(self, digests: list[str]) -> set[int]:
        """Numbers of the views that are there already, complete, and as they would be rendered now."""
        state = read_state(self.root)
        kept = set()
        for number, (view, digest) in enumerate(zip(self.plan.views, digests, strict=True)):
            path = self.root / str(view.exr)
            entry = state.get(str(view.exr), {})
            if entry.get("fingerprint") != digest or not path.is_file():
                continue
            try:
                check_exr(path)
            except UserError:
                continue  # cut off or damaged: rendered again
            kept.add(number)
        return kept

    def _forget_lists_of(self, changing: set[str]) -> None:
        """An earlier capture's list must not name views that are about to change; another stays until it is replaced."""
        for name in (TRANSFORMS_NAME, PARTIAL_NAME):
            path = self.root / name
            try:
                if changing and path.is_file() and not changing.isdisjoint(_listed(path, changing)):
                    path.unlink()
            except OSError as error:
                raise write_failure(path, error) from error

    def _render(self, number: int, view: View, digest: str) -> None:
        path = self.root / str(view.exr)
        start = time.perf_counter()
        self.stage.set_frame(view.frame)
        self.stage.render_view(
            view.camera,
            path,
            samples=self._samples(view),
            seed=self._seed(number),
            denoise=self._denoise(view),
            box_filter=self._is_box_filtered(view),
        )
        if view.image:
            (self.root / view.image).unlink(missing_ok=True)
        self.seconds.append(time.perf_counter() - start)
        log.info("%s: %.2f s", view.exr, self.seconds[-1])
        entry = {"exr": view.exr, "fingerprint": digest, "seconds": round(self.seconds[-1], 3)}
        add_state(self.root, entry)
        if len(self.seconds) == 1:
            self._check_space(path)

    def _check_space(self, path: Path) -> None:
        needed = path.stat().st_size * len(self.plan.views)
        free = shutil.disk_usage(self.root).free
        if needed > free:
            self.warnings.append(
                f"The capture needs about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free in {self.root}."
            )

    def _picture(self, view: View) -> None:
        if view.image is None or (self.root / view.image).is_file():
            return
        path = self.root / view.image
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise write_failure(path.parent, error) from error
        write_picture(self.stage.scene, self.root / str(view.exr), path, exposure=self.stage.film_exposure)

    def _write_partial(self, views: list[View]) -> None:
        partial = Capture(self.root, tuple(views), self._info_with_passes(()))
        try:
            write_capture(partial, name=PARTIAL_NAME)
        except UserError as error:  # the reason for stopping matters more
            log.warning("%s", error)

    def _info_with_passes(self, names: Sequence[str]) -> CaptureInfo:
        rendered = [view for view in self.plan.views if view.exr and (self.root / view.exr).is_file()]
        if not rendered:
            return self.info
        present = read_passes(self.root / str(rendered[0].exr), tuple(PASS_CHANNELS))
        passes = tuple(name for name in self.stage.options.passes if name in present)
        return replace(self.info, passes=passes, object_names=tuple(names))

    def make_points(self, warnings: list[str]) -> Path | None:
        """Writes init.ply from the training views."""
        if not self.settings.points:
            return None
        train = [v for v in self.plan.views if v.split == "train"]
        pairs = [(self.root / str(view.exr), view.camera) for view in train]
        points, empty = gather_points(pairs, self.settings.points, self.settings.seed)
        if empty:
            warnings.append(f"{empty} of {len(train)} training views are black or see nothing.")
        if not len(points):
            warnings.append("No surface is visible in any training view, so there are no start points.")
            return None
        path = self.root / INIT_NAME
        write_point_ply(path, points)
        return path

    def finish(self, init: Path | None, names: Sequence[str], warnings: Sequence[str]) -> Capture:
        """Writes transforms.json and removes what no longer belongs to the capture."""
        capture = Capture(
            root=self.root,
            views=self.plan.views,
            info=self._info_with_passes(names) if self.settings.render else self.info,
            init=init,
            notes=tuple(dict.fromkeys(warnings)),
        )
        write_capture(capture)
        if self.settings.render:
            self._remove_leftovers(init)
        return capture

    def _remove_leftovers(self, init: Path | None) -> None:
        (self.root / PARTIAL_NAME).unlink(missing_ok=True)
        if init is None:
            (self.root / INIT_NAME).unlink(missing_ok=True)
        planned = {view.exr for view in self.plan.views}
        for name in set(read_state(self.root)) - planned:
            (self.root / name).unlink(missing_ok=True)
            (self.root / "images" / f"{Path(name).stem}.png").unlink(missing_ok=True)


def _listed(path: Path, changing: set[str]) -> set[str | None]:
    """EXR names in an earlier capture's list; one that cannot be read is taken for naming what changes."""
    try:
        return {view.exr for view in read_capture(path).views}
    except UserError:
        return set(changing)
