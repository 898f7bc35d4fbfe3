"""A run: the trainer's steps with files, events and commands around them.

    begin      read the capture, place the first splats or load the checkpoint
    each step  obey commands, train, and now and then tell progress, write a snapshot, a preview, a checkpoint
    end        checkpoint, splats.ply, held-out evaluation, metrics.json

Pictures and snapshots that cannot be written are a warning; the fit goes on. A checkpoint or a result that cannot be
written is an error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from splat_engine.fit.checkpoint import load_checkpoint, save_checkpoint
from splat_engine.fit.commands import CommandSource, Interrupt, ParentGone, Unreadable
from splat_engine.fit.data import CaptureImages, reads_linear
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.losses import loss_space_of
from splat_engine.fit.memory import is_out_of_memory, measure, out_of_memory
from splat_engine.fit.metrics import ViewScore, mean_scores, score_views
from splat_engine.fit.model import SplatState
from splat_engine.fit.objects import has_object_indices, object_indices
from splat_engine.fit.pictures import draw_view, rgba8, write_png
from splat_engine.fit.place import CPU, Place
from splat_engine.fit.start import start_splats
from splat_engine.fit.strategies import strategy_of
from splat_engine.fit.trainer import StepResult, Trainer
from splat_engine.formats import events
from splat_engine.formats.cameras import Camera, camera_from_frame
from splat_engine.formats.capture import Capture, Split, read_capture
from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.formats.events import Command, Event
from splat_engine.formats.files import write_failure, write_json
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import RunSettings, to_dict
from splat_engine.formats.splat_ply import write_splat_ply
from splat_engine.formats.splats import Splats

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL_S = 0.25


@dataclass(frozen=True)
class FitRequest:
    """What is to be fitted, and where the result goes.

    Attributes:
        capture: The capture's folder or transforms.json.
        run: The run's folder. An earlier run in it is replaced, unless ``resume``.
        settings: All settings.
        resume: Go on from the run's checkpoint.
        version: Of the program, for the records.
        place: Where the fit is.
        notes: Warnings from before the run began.
    """

    capture: Path
    run: Path
    settings: RunSettings
    resume: bool = False
    version: str = ""
    place: Place = CPU
    notes: tuple[str, ...] = ()


def run_fit(request: FitRequest, emit: Callable[[Event], None], commands: CommandSource) -> events.Finished:
    """Fits splats to a capture, from reading it to metrics.json.

    Args:
        request: What and where.
        emit: Takes each event.
        commands: Where commands come from.

    Returns:
        The last event, which has been emitted too.

    Raises:
        OutOfMemory: It ran out; the run's checkpoint is of the last step before, if there was one.
        UserError: The input is bad, the fit diverged, or a result cannot be written.
    """
    fit = _FitRun(request, emit, commands)
    try:
        fit.begin()
        return fit.work()
    except (OutOfMemory, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise fit.out_of_memory(error) from error


class _Stop(Exception):
    """The fit ends before its last step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _FitRun:
    def __init__(self, request: FitRequest, emit: Callable[[Event], None], commands: CommandSource) -> None:
        self.request = request
        self.settings = request.settings
        self.run = RunDirectory.create(request.run)
        self._send = emit
        self._commands = commands
        self._began_s = time.monotonic()
        self._paused_s = 0.0
        self._seconds_before = 0.0
        self._preview_camera: Camera | None = None
        self._has_begun = False
        self._checkpoint_step: int | None = None

    # -- begin ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Reads everything; leaves an old run untouched if something is wrong with the input."""
        capture = self.capture = read_capture(self.request.capture)
        self.formation = ImageFormation.of(self.settings.fit.formation, capture.info)
        for note in (*self.request.notes, *capture.notes):
            self.warn(note)
        checkpoint = load_checkpoint(self.run.checkpoint) if self.request.resume else None
        self.images = self._images(capture, "train")
        self.test_images = self._images(capture, "test")
        self.trainer = self._trainer(capture, checkpoint)
        if checkpoint is None:
            self._remove_old_run()
        self._has_begun = True
        write_json(self.run.settings, to_dict(self.settings))
        self.emit(
            events.Started(
                version=self.request.version,
                device=str(self.request.place),
                steps=self.settings.fit.steps,
                first_step=self.trainer.step,
                splats=len(self.trainer.state),
                train_views=len(self.images),
                test_views=len(self.test_images),
                capture=self._capture_root,
            )
        )
        if not len(self.test_images):
            self.warn("The capture holds no view out: the figures will be of the training views.")

    def _images(self, capture: Capture, split: Split) -> CaptureImages:
        fit, loss = self.settings.fit, self.settings.loss
        training = split == "train"
        return CaptureImages(
            capture,
            split,
            self.formation,
            target=fit.target,
            with_depth=training and (loss.depth_weight > 0 or self._grows_at_depth(capture)),
            with_normals=training and loss.normal_weight > 0,
            budget_bytes=(fit.image_memory_mb << 20) if training else 0,
            device=self.request.place.device,
            device_bytes=self.request.place.views_bytes() if training else 0,
            warn=self.warn,
        )

    def _grows_at_depth(self, capture: Capture) -> bool:
        """Whether new splats are put at the views' own depth; pictures without one have the splats' in its place."""
        if self.settings.fit.strategy != "error":
            return False
        has_depth = reads_linear(capture, self.settings.fit.target) and "depth" in capture.info.passes
        if not has_depth:
            self.warn("The views have no depth: new splats come at the depth that is drawn so far.")
        return has_depth

    def _trainer(self, capture: Capture, checkpoint: dict[str, Any] | None) -> Trainer:
        fit = self.settings.fit
        if checkpoint is None:
            rng = np.random.default_rng(fit.seed)
            start = start_splats(capture, self.settings, rng, self.warn)
            state, extent = SplatState.from_splats(start.splats), start.extent
            strategy = strategy_of(fit.strategy, is_dense=start.is_dense)
        else:
            state = SplatState.from_state_dict(checkpoint["trainer"]["splats"])
            extent = float(checkpoint["trainer"]["extent"])
            strategy = checkpoint["strategy"] if fit.strategy == "auto" else fit.strategy
            self._checkpoint_step = int(checkpoint["trainer"]["step"])
            self._seconds_before = float(checkpoint["seconds"])
            if checkpoint["capture"] != str(capture.root.resolve()):
                self.warn(f"The checkpoint was made with another capture: {checkpoint['capture']}.")
        space = loss_space_of(capture.info, self.images.views, self.settings.loss)
        place = self.request.place
        trainer = Trainer(
            replace(
                self.settings,
                fit=replace(fit, strategy=strategy),
                loss=replace(self.settings.loss, loss_space=space),
            ),
            self.images,
            state.to(place.device),
            extent=extent,
            warn=self.warn,
            backend=place.backend,
            formation=self.formation,
        )
        if checkpoint is not None:
            trainer.load_state_dict(checkpoint["trainer"])
        self._capture_root = str(capture.root.resolve())
        return trainer

    def _remove_old_run(self) -> None:
        """A new run must not be mistaken for the one before, by --resume above all."""
        run = self.run
        for path in (run.checkpoint, run.splats, run.metrics, run.snapshot, run.preview):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise write_failure(path, error) from error

    # -- work ----------------------------------------------------------------------------------------------------

    def work(self) -> events.Finished:
        """Takes the steps and writes the result; see ``run_fit``."""
        try:
            self._take_steps()
            reason = "plateau" if self.trainer.step < self.settings.fit.steps else "done"
        except _Stop as stop:
            reason = stop.reason
        self.write_checkpoint()
        if reason in ("interrupted", "parent gone"):
            self.warn(f"The fit was {_WORDS[reason]} at step {self.trainer.step}; --resume continues it.")
            return self._finish(reason, {})
        return self._finish(reason, self._write_result())

    def _take_steps(self) -> None:
        fit, trainer = self.settings.fit, self.trainer
        progress = _Progress(trainer, self.seconds)
        while True:
            self._obey()
            if trainer.step >= trainer.schedule.last_step:
                break
            progress.add(trainer.train_step())
            is_last = trainer.step >= trainer.schedule.last_step
            if progress.is_due() or is_last:
                self.emit(progress.event())
            if _is_time(trainer.step, fit.snapshot_interval) and not is_last:
                self.write_snapshot()
            if _is_time(trainer.step, fit.checkpoint_interval) and not is_last:
                self.write_checkpoint()

    def _obey(self) -> None:
        """Carries out all commands that wait.

        Raises:
            _Stop: The fit shall end.
        """
        while command := self._commands.poll():
            if isinstance(command, events.Pause):
                self._pause()
            else:
                self._carry_out(command)

    def _pause(self) -> None:
        """Stands still until told to go on; other commands are obeyed meanwhile."""
        since_s = time.monotonic()
        self.emit(events.Paused(step=self.trainer.step))
        try:
            while not isinstance(command := self._commands.wait(), events.Resume):
                self._carry_out(command)
        finally:
            self._paused_s += time.monotonic() - since_s
        self.emit(events.Resumed(step=self.trainer.step))

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, events.Stop):
            raise _Stop("stopped")
        if isinstance(command, ParentGone):
            raise _Stop("parent gone")
        if isinstance(command, Interrupt):
            raise _Stop("interrupted")
        if isinstance(command, events.Save):
            self.write_checkpoint()
            self.write_snapshot()
        elif isinstance(command, events.Snapshot):
            self.write_splats()
        elif isinstance(command, events.Preview):
            self._set_preview_camera(command)
            self.write_preview()
        elif isinstance(command, Unreadable):
            self.warn(command.message)

    def _set_preview_camera(self, command: events.Preview) -> None:
        if not command.frame:
            return
        try:
            self._preview_camera = camera_from_frame(command.frame, {}, where="The preview's camera")
        except UserError as error:
            self.warn(str(error))

    def out_of_memory(self, error: BaseException) -> OutOfMemory:
        """Saves what there is, and returns the error in words.

        A step that runs out of memory has not touched the splats, or has finished with them; only splats that were
        being rearranged are lost, and the checkpoint is then the last one that was written.
        """
        place, splats = self.request.place, self.settings.fit.max_splats
        memory = measure(error, place)
        if self._has_begun:
            splats = len(self.trainer.state)
            try:
                if self.trainer.state.is_whole():
                    self.write_checkpoint()
            except (UserError, MemoryError, RuntimeError) as failure:
                self.warn(f"The fit could not be saved: {failure}")
        return out_of_memory(error, memory, place, splats=splats, checkpoint_step=self._checkpoint_step)

    # -- files and events ----------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Sends an event with its time."""
        self._send(replace(event, time_s=time.monotonic() - self._began_s))

    def warn(self, message: str) -> None:
        """Sends a warning."""
        logger.warning("%s", message)
        self.emit(events.Warned(message=message))

    def seconds(self) -> float:
        """Seconds of work in this run, those before a resume included, pauses left out."""
        return self._seconds_before + time.monotonic() - self._began_s - self._paused_s

    def _written(self, kind: str, path: Path, since_s: float | None = None) -> None:
        seconds = 0.0 if since_s is None else time.monotonic() - since_s
        self.emit(events.FileWritten(kind=kind, path=str(path), step=self.trainer.step, seconds=seconds))

    def write_checkpoint(self) -> None:
        """Writes checkpoint.pt."""
        values = {
            "trainer": self.trainer.state_dict(),
            "strategy": self.trainer.settings.fit.strategy,
            "seconds": self.seconds(),
            "capture": self._capture_root,
            "settings": to_dict(self.settings),
        }
        save_checkpoint(self.run.checkpoint, values)
        self._checkpoint_step = self.trainer.step
        self._written("checkpoint", self.run.checkpoint)

    def write_snapshot(self) -> None:
        """Writes snapshot.ply and preview.png; failing is a warning."""
        self.write_splats()
        self.write_preview()

    def write_splats(self) -> None:
        """Writes snapshot.ply; failing is a warning."""
        since_s = time.monotonic()
        try:
            write_splat_ply(self.run.snapshot, self._splats())
        except UserError as error:
            self.warn(str(error))
        else:
            self._written("snapshot", self.run.snapshot, since_s)

    def write_preview(self) -> None:
        """Writes preview.png; failing is a warning.

        The splats are widened by Blender's pixel filter: drawing through it would take nine times as long, and the fit waits.
        """
        since_s = time.monotonic()
        views = (*self.test_images.views, *self.images.views)
        camera = self._preview_camera or views[0].camera
        shown = ImageFormation(self.formation.name)
        drawn = draw_view(self.trainer.state.params, camera, shown, backend=self.request.place.backend)
        try:
            write_png(self.run.preview, rgba8(drawn, self.formation))
        except UserError as error:
            self.warn(str(error))
        else:
            self._written("preview", self.run.preview, since_s)

    def _splats(self) -> Splats:
        metadata = {
            "formation": self.formation.name,
            "version": self.request.version,
            "run": str(self.run.root.resolve()),
            "capture": self._capture_root,
            "steps": str(self.trainer.step),
            "seed": str(self.settings.fit.seed),
        }
        return self.trainer.state.to_splats(metadata)

    def _write_result(self) -> dict[str, Any]:
        seconds = self.seconds()
        splats, seconds_of_objects = self._with_objects(self._splats())
        write_splat_ply(self.run.splats, splats)
        self._written("splats", self.run.splats)
        self.write_preview()
        scores = self._evaluate()
        metrics: dict[str, Any] = {
            **mean_scores(scores),
            "engine.split": "test" if len(self.test_images) else "train",
            "engine.views": len(scores),
            "splats": len(self.trainer.state),
            "steps": self.trainer.step,
            "seed": self.settings.fit.seed,
            "formation": self.formation.name,
            "seconds.fit": seconds,
            **seconds_of_objects,
        }
        self.run.write_metrics(metrics)
        self._written("metrics", self.run.metrics)
        return metrics

    def _with_objects(self, splats: Splats) -> tuple[Splats, dict[str, float]]:
        """Tells which object each splat shows, if the capture knows; failing is a warning. Returns the seconds it took."""
        if not has_object_indices(self.capture):
            return splats, {}
        since_s = time.monotonic()
        try:
            indices = object_indices(splats, self.capture, torch.get_num_threads())
        except UserError as error:
            self.warn(f"Which object each splat shows is not known: {error}")
            return splats, {}
        splats = replace(splats, object_indices=indices, object_names=self.capture.info.object_names)
        return splats, {"seconds.object_index": time.monotonic() - since_s}

    def _evaluate(self) -> list[ViewScore]:
        images = self.test_images if len(self.test_images) else self.images
        backend = self.request.place.backend
        filtered = self.formation.is_filtered_anew("test" if images is self.test_images else "train")
        params = self.trainer.state.params
        scores = list(score_views(params, images, self.formation, backend, through_filter=filtered))
        means = mean_scores(scores)
        self.emit(
            events.Evaluated(
                step=self.trainer.step,
                psnr=means["engine.psnr"],
                ssim=means["engine.ssim"],
                views=len(scores),
            )
        )
        return scores

    def _finish(self, reason: str, metrics: dict[str, Any]) -> events.Finished:
        finished = events.Finished(
            step=self.trainer.step, reason=reason, splats=len(self.trainer.state), metrics=metrics
        )
        self.emit(finished)
        return finished


_WORDS = {"interrupted": "interrupted", "parent gone": "ended because its parent is gone"}


def _is_time(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0


class _Progress:
    """Loss between two progress events, PSNR with a short memory, and the time that is left; ``clock`` stands still in pauses."""

    def __init__(self, trainer: Trainer, clock: Callable[[], float]) -> None:
        self._trainer = trainer
        self._work_before = trainer.work_until(trainer.step)
        self._clock = clock
        self._began_s = self._told_s = clock()
        self._losses: list[float] = []
        self._psnr: float | None = None

    def add(self, result: StepResult) -> None:
        """Takes in one step."""
        if result.loss is not None:
            self._losses.append(result.loss)
        if result.psnr is not None:
            self._psnr = result.psnr if self._psnr is None else 0.7 * self._psnr + 0.3 * result.psnr

    def is_due(self) -> bool:
        """Whether it is time for an event."""
        return bool(self._losses) and self._clock() - self._told_s >= PROGRESS_INTERVAL_S

    def event(self) -> events.Progress:
        """Returns the event, and begins the next average; the last step is nearer once the fit is to end early."""
        self._told_s = self._clock()
        trainer, last_step = self._trainer, self._trainer.schedule.last_step
        done, whole = trainer.work_until(trainer.step), trainer.work_until(last_step)
        speed = (self._told_s - self._began_s) / max(1e-9, done - self._work_before)
        event = events.Progress(
            step=trainer.step,
            steps=last_step,
            loss=sum(self._losses) / len(self._losses),
            psnr=self._psnr or 0.0,
            splats=len(trainer.state),
            seconds_left=speed * (whole - done),
        )
        self._losses.clear()
        return event
