"""Views rendered in the background: the open file is saved as a copy, which a second Blender renders.

The user's file and scene are not touched, and Blender stays free meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats import events
from splat_engine.formats.files import write_failure

from .. import package
from ..scene import blend_file
from .capture_process import COPY_NAME, LOG_NAME, CaptureJob, CaptureProcess, blender_command, module_command
from .session import CaptureStep

_CLOSE_S = 1.0
"""Finished views are on disk: one that is being rendered is not waited for."""


class BackgroundCapture(Iterator[CaptureStep]):
    """Steps of a capture by a second Blender, for a session; the file is copied at the first step.

    Args:
        job: What is captured.
        warnings: Takes what the capture warns of.
        start: Starts the process; for tests.

    Attributes:
        wait_s: How long a step waits for news.
    """

    def __init__(
        self,
        job: CaptureJob,
        warnings: list[str],
        start: Callable[[Sequence[str], Path], CaptureProcess] = CaptureProcess,
    ) -> None:
        self.wait_s = 0.0
        self._job, self._warnings, self._start = job, warnings, start
        self._process: CaptureProcess | None = None
        self._last = CaptureStep(0, 0, "Starting a Blender in the background")
        self._is_over = False

    def __next__(self) -> CaptureStep:
        """Returns how far the capture is.

        Raises:
            UserError: The copy cannot be written, or the capture failed.
        """
        if self._is_over:
            raise StopIteration
        if self._process is None:
            self._begin()
            return self._last
        for event in self._process.new_events(self.wait_s):
            self._take(event)
        if not self._process.is_running():
            error = self._process.error()
            self.close()
            if error is not None:
                raise error
            raise StopIteration
        return self._last

    def close(self) -> None:
        """Ends the second Blender, if it is at work, and removes the copy; finished views stay."""
        self._is_over = True
        process, self._process = self._process, None
        if process is not None:
            process.close(_CLOSE_S)
        remove_copy(self._job.copy)

    def _begin(self) -> None:
        self._warnings += unsaved_pictures()
        save_copy(self._job.copy)
        try:
            self._process = self._start(_command(self._job), self._job.out / LOG_NAME)
        except BaseException:
            self.close()
            raise

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.Captured):
            remove_copy(self._job.copy)  # it has been read
            self._last = CaptureStep(event.done, event.total, event.message, event.seconds_left)
        elif isinstance(event, events.Warned):
            self._warnings.append(event.message)


def unsaved_pictures() -> list[str]:
    """Returns, in a sentence or none, which pictures are in the open Blender's memory alone: no copy of the file has them."""
    names = [
        image.name
        for image in bpy.data.images
        if image.is_dirty
        and image.users
        and image.source not in ("VIEWER", "MOVIE")
        and not image.packed_file
    ]
    if not names:
        return []
    more = f" and {len(names) - 5} more" * (len(names) > 5)
    return [
        f"Changed and not saved, so rendered as on disk: {', '.join(names[:5])}{more}. Save or pack them."
    ]


def copy_path(out: Path) -> Path:
    """Returns where the copy of a capture's source goes."""
    return out / COPY_NAME


def save_copy(path: Path) -> None:
    """Saves the open file, with what was not saved yet, as a copy that is read once.

    Raises:
        UserError: It cannot be written; nothing is left then.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(path.parent, error) from error
    remove_copy(path)  # or Blender would keep it as a backup
    try:
        blend_file.save(path, compress=False)  # a person waits, and it is read once
    except BaseException:
        remove_copy(path)
        raise


def remove_copy(path: Path) -> None:
    """Removes a copy, and what Blender leaves of one that it could not finish."""
    for item in (path, path.with_name(f"{path.name}@"), path.with_name(f"{path.name}1")):
        with contextlib.suppress(OSError):
            item.unlink(missing_ok=True)


def _command(job: CaptureJob) -> list[str]:
    app: Any = bpy.app
    scripts = not app.autoexec_fail
    if app.module:
        return module_command(sys.executable, package.NAME, job, scripts=scripts)
    return blender_command(app.binary_path, package.NAME, job, scripts=scripts)
