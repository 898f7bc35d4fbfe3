"""A second Blender that renders the views of a saved copy: its command line and its process. Knows no bpy.

It says how far it is as events, and its own words (stderr, and what Blender prints) go to the capture's capture.log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from splat_engine.formats import events
from splat_engine.formats.settings import CaptureSettings, FitSettings, declarations

from ..engine.child_process import ChildProcess, checkout
from ..engine.engine_process import setting_options

COPY_NAME = "source.blend"
LOG_NAME = "capture.log"
CAPTURE_PREFIX = "capture"
"""Of options whose name a setting of the fit has too."""


@dataclass(frozen=True)
class CaptureJob:
    """What the second Blender is to capture.

    Attributes:
        copy: The saved copy of the file.
        source: The file itself, for the capture's records; "" if it was never saved.
        scene: Name of the scene.
        out: The capture's folder.
        run: The run that is fitted to it, whose earlier splats are not in the picture.
        settings: How views are chosen and rendered.
        engine_python: The engine's Python, for a capture that is adaptive.
    """

    copy: Path
    source: str
    scene: str
    out: Path
    run: Path
    settings: CaptureSettings
    engine_python: str = ""


def bare_options() -> set[str]:
    """Returns the capture's settings whose options go without a prefix: a fit has none of the same name."""
    return set(declarations(CaptureSettings)) - set(declarations(FitSettings))


def capture_options(settings: CaptureSettings) -> list[str]:
    """Returns the options of ``capture`` that give these settings."""
    return setting_options(settings, CaptureSettings(), CAPTURE_PREFIX, bare_options())


def capture_words(job: CaptureJob) -> list[str]:
    """Returns the words after the command's name; the copy is not among them."""
    words = ["--out", str(job.out), "--run", str(job.run), f"--scene={job.scene}", "--commands"]
    words += ["--progress", "json"]
    words += [f"--source={job.source}"] if job.source else []
    words += [f"--engine-python={job.engine_python}"] if job.engine_python else []
    return words + capture_options(job.settings)


def blender_command(program: str, module: str, job: CaptureJob, *, scripts: bool) -> list[str]:
    """Returns the command line for a Blender.

    Args:
        program: Its path.
        module: Name that the add-on has there.
        job: What is captured.
        scripts: Whether Python scripts in the file may run, as they may in the file that was copied.
    """
    trust = "--enable-autoexec" if scripts else "--disable-autoexec"
    command = [program, "--background", trust, str(job.copy), "--addons", module]
    return [*command, "--command", "splatfit", "capture", *capture_words(job)]


def module_command(program: str, module: str, job: CaptureJob, *, scripts: bool) -> list[str]:
    """Returns the same for a Python with the bpy module."""
    trust = ["--scripts"] if scripts else []
    return [program, "-m", module, "capture", str(job.copy), *trust, *capture_words(job)]


class CaptureProcess(ChildProcess):
    """A Blender that captures.

    Args:
        command: The command line.
        log: File that its words are appended to.

    Raises:
        UserError: It cannot be started, or the log cannot be written.
    """

    name = "The Blender that renders the views"
    start_hint = "Turn on Render in Place to render the views in this Blender."

    def __init__(self, command: Sequence[str], log: Path) -> None:
        environment = dict(os.environ)
        root = checkout()
        if root is not None:
            environment["PYTHONPATH"] = os.pathsep.join(
                filter(None, [str(root), environment.get("PYTHONPATH")])
            )
        super().__init__(command, log, environment)

    def event_of(self, line: str) -> events.Event | None:
        """Returns the event in a line; what Blender prints before our command has the word is none."""
        return super().event_of(line) if line.startswith("{") else None
