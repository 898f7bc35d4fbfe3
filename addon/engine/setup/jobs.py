"""A set-up or a check of the engine, in a thread of its own: started, polled for its progress, cancelled."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError

from .download import Cancelled, OpenUrl, open_url
from .place import locked
from .plan import Plan
from .programs import Runner, without_python
from .steps import Meter, Tools, check, set_up

_logger = logging.getLogger(__name__)


class Job:
    """Work in a thread.

    Attributes:
        phase: What is being done.
        detail: More of it: a file, bytes of bytes.
        share: How much of the whole is done, 0 to 1.
        facts: What the check found, in the end.
        error: Why it failed.
        is_cancelled: Whether it was told to stop, and has.
        is_over: Whether it has ended, in whatever way.
        changed: Set at every step; for those who wait.
    """

    def __init__(
        self, work: Callable[[Job], dict[str, Any]], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.phase, self.detail, self.share = "", "", 0.0
        self.facts: dict[str, Any] = {}
        self.error: UserError | None = None
        self.is_cancelled = False
        self.is_over = False
        self.changed = threading.Event()
        self.runner = Runner(log, environment)
        self._meter: Meter | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name="splatfit-engine-setup", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def cancel(self, wait_s: float = 0.0) -> None:
        """Ends it, with all programs it has started; waits for that up to ``wait_s``."""
        self.runner.cancel()
        if wait_s and self._thread.is_alive():
            self._thread.join(wait_s)

    def wait_for_news(self, wait_s: float) -> bool:
        """Waits for a change, up to ``wait_s``; returns whether the job goes on."""
        self.changed.wait(wait_s)
        self.changed.clear()
        return not self.is_over

    def watch(self, meter: Meter | None) -> None:
        """Takes what measures the work while it tells nothing by itself; None when that is over."""
        self._meter = meter

    def measure(self) -> None:
        """Looks at the meter, if there is one: for those who show the job, once a second or so."""
        meter = self._meter
        if meter is not None:
            share, self.detail = meter()
            self.share = max(self.share, share)

    def say(self, phase: str, share: float | None, detail: str) -> None:
        """Notes where the work is."""
        self.phase, self.detail = phase, detail
        self.share = self.share if share is None else max(self.share, share)
        self.changed.set()

    def _run(self) -> None:
        try:
            self.facts = self._work(self)
        except Cancelled:
            self.is_cancelled = True
        except UserError as error:
            self.error = error
            _logger.info("engine: %s", error)
        except Exception as error:
            _logger.exception("the engine's set-up failed")
            self.error = UserError(
                f"Splatfit failed: {type(error).__name__}: {error}", "Please report this.", error
            )
        finally:
            self.is_over = True
            self.changed.set()


def setup_job(plan: Plan, environment: Mapping[str, str] = os.environ, opener: OpenUrl = open_url) -> Job:
    """Returns a job that makes the engine's environment."""

    def work(job: Job) -> dict[str, Any]:
        with locked(plan.place) as descriptor:
            job.runner.held = descriptor
            return set_up(plan, Tools(job.runner, job.say, job.watch, opener))

    return Job(work, plan.place.log, without_python(environment))


def check_job(
    python: Path, log: Path, environment: Mapping[str, str], probe: Callable[[Path], object]
) -> Job:
    """Returns a job that lets an engine examine itself.

    Args:
        python: The engine's Python.
        log: The file that what it says is added to.
        environment: What it inherits.
        probe: Looks first whether Python, torch and engine are there; raises UserError with what to install.
    """

    def work(job: Job) -> dict[str, Any]:
        log.parent.mkdir(parents=True, exist_ok=True)
        job.say("Looking at the engine's Python", 0.1, str(python))
        probe(python)
        return check(python, Tools(job.runner, job.say, job.watch))

    return Job(work, log, environment)
