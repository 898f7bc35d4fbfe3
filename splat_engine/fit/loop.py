"""A run: the trainer's steps with files, events and commands around them.

begin      read the capture, place the first splats or load the checkpoint (splat_engine.fit.prepare)
each step  obey commands, train, and now and then tell progress, write a snapshot, a preview, a checkpoint
end        checkpoint, splats.ply, held-out evaluation, metrics.json (splat_engine.fit.results)
"""

from __future__ import annotations

from collections.abc import Callable

from splat_engine.fit.checkpoint import load_checkpoint
from splat_engine.fit.commands import CommandSource, Interrupt, ParentGone, Unreadable
from splat_engine.fit.journal import Journal, Progress
from splat_engine.fit.memory import is_out_of_memory, measure, out_of_memory
from splat_engine.fit.prepare import FitRequest, Prepared, prepare
from splat_engine.fit.results import Results
from splat_engine.formats import events
from splat_engine.formats.cameras import camera_from_frame
from splat_engine.formats.capture import read_capture
from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.formats.events import Command, Event
from splat_engine.formats.files import write_failure, write_json
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import to_dict

__all__ = ["FitRequest", "run_fit"]


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
    prepared: Prepared
    results: Results

    def __init__(self, request: FitRequest, emit: Callable[[Event], None], commands: CommandSource) -> None:
        self.request = request
        self.settings = request.settings
        self.run = RunDirectory.create(request.run)
        self.journal = Journal(emit)
        self._commands = commands
        self._has_begun = False
        self._checkpoint_step: int | None = None

    # -- begin ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Reads everything; leaves an old run untouched if something is wrong with the input."""
        capture = read_capture(self.request.capture)
        for note in (*self.request.notes, *capture.notes):
            self.journal.warn(note)
        checkpoint = load_checkpoint(self.run.checkpoint) if self.request.resume else None
        if checkpoint is not None:
            self._checkpoint_step = int(checkpoint["trainer"]["step"])
            self.journal.seconds_before = float(checkpoint["seconds"])
        if self.request.ahead is not None:
            self.journal.seconds_before += self.request.ahead.seconds
        self.prepared = prepare(self.request, capture, checkpoint, self.journal.warn)
        self.trainer = self.prepared.trainer
        self.results = Results(self.request, self.prepared, self.run, self.journal)
        if checkpoint is None:
            self._remove_old_run()
        self._has_begun = True
        write_json(self.run.settings, to_dict(self.settings))
        self._tell_start()

    def _tell_start(self) -> None:
        prepared = self.prepared
        self.journal.emit(
            events.Started(
                version=self.request.version,
                device=str(self.request.place),
                steps=self.settings.fit.steps,
                first_step=self.trainer.step,
                splats=len(self.trainer.state),
                train_views=len(prepared.images),
                test_views=len(prepared.test_images),
                capture=prepared.root,
            )
        )
        if not len(prepared.test_images):
            self.journal.warn("The capture holds no view out: the figures will be of the training views.")

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
        self._save()
        if reason in ("interrupted", "parent gone"):
            self.journal.warn(
                f"The fit was {_WORDS[reason]} at step {self.trainer.step}; --resume continues it."
            )
            return self._finish(reason, {})
        return self._finish(reason, self.results.write_result())

    def _take_steps(self) -> None:
        fit, trainer = self.settings.fit, self.trainer
        progress = Progress(trainer, self.journal.seconds)
        while True:
            self._obey()
            if trainer.step >= trainer.schedule.last_step:
                break
            progress.add(trainer.train_step())
            is_last = trainer.step >= trainer.schedule.last_step
            if progress.is_due() or is_last:
                self.journal.emit(progress.event())
            if _is_time(trainer.step, fit.snapshot_interval) and not is_last:
                self.results.write_snapshot()
            if _is_time(trainer.step, fit.checkpoint_interval) and not is_last:
                self._save()

    def _save(self) -> None:
        self.results.write_checkpoint()
        self._checkpoint_step = self.trainer.step

    def _finish(self, reason: str, metrics: dict[str, object]) -> events.Finished:
        finished = events.Finished(
            step=self.trainer.step, reason=reason, splats=len(self.trainer.state), metrics=metrics
        )
        self.journal.emit(finished)
        return finished

    # -- commands ------------------------------------------------------------------------------------------------

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
        with self.journal.pause():
            self.journal.emit(events.Paused(step=self.trainer.step))
            while not isinstance(command := self._commands.wait(), events.Resume):
                self._carry_out(command)
        self.journal.emit(events.Resumed(step=self.trainer.step))

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, events.Stop):
            raise _Stop("stopped")
        if isinstance(command, ParentGone):
            raise _Stop("parent gone")
        if isinstance(command, Interrupt):
            raise _Stop("interrupted")
        if isinstance(command, events.Save):
            self._save()
            self.results.write_snapshot()
        elif isinstance(command, events.Snapshot):
            self.results.write_splats()
        elif isinstance(command, events.Preview):
            self._set_preview_camera(command)
            self.results.write_preview()
        elif isinstance(command, Unreadable):
            self.journal.warn(command.message)

    def _set_preview_camera(self, command: events.Preview) -> None:
        if not command.frame:
            return
        try:
            self.results.preview_camera = camera_from_frame(command.frame, {}, where="The preview's camera")
        except UserError as error:
            self.journal.warn(str(error))

    # -- failure -------------------------------------------------------------------------------------------------

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
                    self._save()
            except (UserError, MemoryError, RuntimeError) as failure:
                self.journal.warn(f"The fit could not be saved: {failure}")
        return out_of_memory(error, memory, place, splats=splats, checkpoint_step=self._checkpoint_step)


_WORDS = {"interrupted": "interrupted", "parent gone": "ended because its parent is gone"}


def _is_time(step: int, interval: int) -> bool:
    return interval > 0 and step % interval == 0
