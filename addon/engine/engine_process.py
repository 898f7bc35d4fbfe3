"""The engine: its Python found and checked, its command lines, and its process. Knows no bpy.

The engine runs in a Python of its own (torch is never loaded into Blender). Its stderr goes to the run's engine.log.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from splat_engine.formats import events
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import (
    RUN_PREFIXES,
    RunSettings,
    declarations,
    option_name,
    run_with_preset,
)

from .child_process import ChildProcess, checkout, window_options

PYTHON_VARIABLE = "SPLATFIT_ENGINE_PYTHON"
PYTHON_MIN = (3, 10)
TORCH_MIN = (2, 6)
_PROBE_TIMEOUT_S = 60.0
RESULT_REASONS = ("done", "plateau", "stopped")
"""Endings after which there is a result; after the others there is a checkpoint."""
_INSTALL_HINT = "Press Set Up the Engine in Splatfit's preferences, or choose another Python there; in a checkout run `make setup`."

_PROBE = """
import json, sys
from importlib import metadata, util
found = {"python": list(sys.version_info[:3])}
for package, distribution in (("torch", "torch"), ("splat_engine", "splat-engine")):
    if util.find_spec(package) is not None:
        try:
            found[package] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[package] = ""
print(json.dumps(found))
"""


@dataclass(frozen=True)
class EngineInfo:
    """An engine's Python that was looked at and is fit to be used.

    Attributes:
        python: Path of the interpreter.
        python_version: Such as "3.11.9".
        torch_version: Such as "2.13.0+cpu".
        engine_version: The installed splat-engine's; "" where it runs from a checkout.
    """

    python: Path
    python_version: str
    torch_version: str
    engine_version: str


def find_python(preference: str = "", environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the engine's Python: the preference, else $SPLATFIT_ENGINE_PYTHON, else the checkout's own.

    Args:
        preference: Path from the add-on's preferences, or "".
        environment: Where the variable is looked up.

    Raises:
        UserError: None is there.
    """
    for path, source in (
        (preference, "the preferences"),
        (environment.get(PYTHON_VARIABLE, ""), f"${PYTHON_VARIABLE}"),
    ):
        if path:
            python = Path(path).expanduser()
            if not python.is_file():
                raise UserError(
                    f"There is no engine Python at {python}, which {source} name{'s' * (source[0] == '$')}.",
                    _INSTALL_HINT,
                )
            return python
    root = checkout()
    if root is not None:
        python = root / ".venv" / "engine" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if python.is_file():
            return python
    raise UserError(
        "The splat engine has no Python yet.",
        "Press Set Up the Engine in Splatfit's panel or preferences, or choose a Python with torch there (or by "
        f"{PYTHON_VARIABLE}); in a checkout run `make setup`.",
    )


def engine_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment for the engine: without Blender's Python, with the checkout if there is one."""
    kept = {name: value for name, value in environment.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    root = checkout()
    if root is not None:
        kept["PYTHONPATH"] = str(root)
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}


def check_python(python: Path, *, timeout_s: float = _PROBE_TIMEOUT_S) -> EngineInfo:
    """Asks a Python for its version, torch and engine, without loading them.

    Raises:
        UserError: It does not run, is too old, or has no torch or no engine.
    """
    command = [str(python), "-c", _PROBE]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env=engine_environment(), check=True,
            stdin=subprocess.DEVNULL, **window_options(),
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
        version = tuple(found["python"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or error
        raise UserError(f"{python} does not run as a Python.", _INSTALL_HINT, str(detail)) from error
    if version < PYTHON_MIN:
        raise UserError(
            f"{python} is Python {'.'.join(map(str, version))}; the engine needs 3.10 or later.",
            _INSTALL_HINT,
        )
    if "torch" not in found:
        raise UserError(
            f"The engine's Python {python} has no torch.",
            f"Install it: {python} -m pip install torch. Or press Set Up the Engine in Splatfit's preferences.",
        )
    if _numbers(found["torch"]) < TORCH_MIN:
        raise UserError(
            f"The engine's Python {python} has torch {found['torch']}; it needs 2.6 or later.",
            f"Install a newer one: {python} -m pip install --upgrade torch.",
        )
    if "splat_engine" not in found:
        raise UserError(
            f"The engine's Python {python} has no splat-engine.",
            f"Install the wheel that came with Splatfit: {python} -m pip install splat_engine-....whl.",
        )
    return EngineInfo(python, ".".join(map(str, version)), found["torch"], found["splat_engine"])


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts) if version else TORCH_MIN


def train_command(
    python: Path, capture: Path, run: RunDirectory, settings: RunSettings | None, *, resume: bool = False
) -> list[str]:
    """Returns the command line that fits a capture; settings None: those that the run was started with."""
    command = [str(python), "-m", "splat_engine", "train", str(capture), "--out", str(run.root)]
    command += ["--commands", "--progress", "json"]
    command += ["--resume"] if resume else []
    if settings is None:
        return command
    base = run_with_preset(RunSettings(), settings.fit.preset)
    base = replace(base, fit=replace(base.fit, preset=RunSettings().fit.preset))
    for name, prefix in RUN_PREFIXES.items():
        command += setting_options(getattr(settings, name), getattr(base, name), prefix)
    return command


def propose_command(
    python: Path, capture: Path, run: RunDirectory, candidates: Path, count: int, seed: int = 0
) -> list[str]:
    """Returns the command line that chooses the next views of a capture."""
    command = [str(python), "-m", "splat_engine", "propose", str(capture), "--out", str(run.root)]
    command += ["--candidates", str(candidates), "--count", str(count), "--seed", str(seed)]
    return [*command, "--commands", "--progress", "json"]


def setting_options(settings: Any, base: Any, prefix: str = "", bare: Container[str] = ()) -> list[str]:
    """Returns the options for those settings of a group that are not as in ``base``, another of its class.

    Args:
        settings, base: The settings.
        prefix, bare: As given to ``add_arguments``.
    """
    options: list[str] = []
    for name, (kind, _, _) in declarations(type(settings)).items():
        value = getattr(settings, name)
        option = option_name(name, "" if name in bare else prefix)
        if value == getattr(base, name):
            continue
        if kind is bool:
            options.append(option if value else f"--no-{option[2:]}")
        else:
            options.append(f"{option}={value}")
    return options


class EngineProcess(ChildProcess):
    """A running engine.

    Args:
        command: The command line.
        run: The run's directory, where engine.log is.

    Raises:
        UserError: The process cannot be started or the log cannot be written.
    """

    name = "The splat engine"
    start_hint = _INSTALL_HINT

    def __init__(self, command: Sequence[str], run: RunDirectory) -> None:
        self.run = run
        super().__init__(command, run.log, engine_environment())

    def error_of(self, ending: events.Finished) -> UserError | None:
        """Tells of an ending that leaves a checkpoint and no result."""
        return None if ending.reason in RESULT_REASONS else _interrupted(ending.step)


def _interrupted(step: int) -> UserError:
    return UserError(
        f"The fit was interrupted at step {step}.",
        "A checkpoint is saved: start the same fit again with resume.",
    )
