"""The engine as a subprocess: found, checked, started, listened to, told, and ended. Knows no bpy.

The engine runs in a Python of its own (torch is never loaded into Blender). Its stdout is a stream of
events, its stdin takes commands; a closed stdin tells it that its parent is gone, so that it never
outlives Blender. Its stderr goes to the run's engine.log.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import splat_engine
from splat_engine.formats import events
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import write_failure
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import (
    RUN_PREFIXES,
    RunSettings,
    declarations,
    option_name,
    run_with_preset,
)

PYTHON_VARIABLE = "SPLATFIT_ENGINE_PYTHON"
PYTHON_MIN = (3, 10)
TORCH_MIN = (2, 6)
_PROBE_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 20.0
_LOG_LINES = 8
_RESULT_REASONS = ("done", "plateau", "stopped")
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

_logger = logging.getLogger(__name__)


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


def checkout() -> Path | None:
    """Returns the repository that ``splat_engine`` was imported from, or None for an installed one."""
    root = Path(splat_engine.__file__).resolve().parents[1]
    return root if (root / "pyproject.toml").is_file() else None


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
            stdin=subprocess.DEVNULL, **_window_options(),
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
    python: Path, capture: Path, run: RunDirectory, settings: RunSettings, *, resume: bool = False
) -> list[str]:
    """Returns the command line that fits a capture."""
    command = [str(python), "-m", "splat_engine", "train", str(capture), "--out", str(run.root)]
    command += ["--commands", "--progress", "json"]
    command += ["--resume"] if resume else []
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


def setting_options(settings: Any, base: Any, prefix: str = "") -> list[str]:
    """Returns the options for those settings of a group that are not as in ``base``, another of its class."""
    options: list[str] = []
    for name, (kind, _, _) in declarations(type(settings)).items():
        value = getattr(settings, name)
        option = option_name(name, prefix)
        if value == getattr(base, name):
            continue
        if kind is bool:
            options.append(option if value else f"--no-{option[2:]}")
        else:
            options.append(f"{option}={value}")
    return options


class EngineProcess:
    """A running engine.

    Args:
        command: The command line.
        run: The run's directory, where engine.log is.

    Raises:
        UserError: The process cannot be started or the log cannot be written.
    """

    def __init__(self, command: Sequence[str], run: RunDirectory) -> None:
        self.run = run
        self.ending: events.Finished | events.Failed | None = None
        self._events: queue.SimpleQueue[events.Event | None] = queue.SimpleQueue()
        self._is_over = False
        self._process = _started(command, run)
        self._reader = threading.Thread(target=self._listen, name="splatfit-engine", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def is_running(self) -> bool:
        """Tells whether the process lives, or has left events that were not yet fetched."""
        return not self._is_over

    def new_events(self, wait_s: float = 0.0) -> list[events.Event]:
        """Returns the events since the last call.

        Args:
            wait_s: How long to wait for the first one, or for the end.
        """
        found: list[events.Event] = []
        try:
            event = self._events.get(timeout=wait_s) if wait_s > 0 else self._events.get_nowait()
            while event is not None:
                found.append(event)
                event = self._events.get_nowait()
            self._is_over = True
        except queue.Empty:
            return found
        return found

    def send(self, command: events.Command) -> bool:
        """Tells the engine something; False if it no longer listens (its end will say why)."""
        stdin = self._process.stdin
        try:
            if stdin is None or stdin.closed:
                return False
            stdin.write(events.encode(command))
            stdin.flush()
        except OSError:
            return False
        return True

    def error(self) -> UserError | None:
        """Returns why the engine ended without a result; None while it runs or if it ended well."""
        code = self._process.poll()
        if code is None or not self._is_over:
            return None
        if isinstance(self.ending, events.Finished):
            return None if self.ending.reason in _RESULT_REASONS else _interrupted(self.ending.step)
        if self.ending is not None:
            return self.ending.error()
        lines = _last_lines(self.run.log)
        hint = f"Its log is {self.run.log}."
        hint += f" The last lines:\n{lines}" if lines else " It is empty."
        return UserError(f"The splat engine {_exit_words(code)}.", hint, f"exit status {code}")

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; False if the engine still runs after that time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._reader.join(timeout_s)
        return True

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Ends the engine: closes its stdin, upon which it saves and exits; kills it after ``timeout_s``."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                _logger.debug("the engine was gone before its stdin was closed")
        if not self.wait(timeout_s):
            _logger.warning("the engine did not exit within %.0f s and is killed", timeout_s)
            self.kill()

    def kill(self) -> None:
        """Ends the engine at once; what it has not saved is lost."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _listen(self) -> None:
        """Runs in the reader thread: turns stdout's lines into events; None after the last."""
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            for line in stdout:
                event = _event_of(line)
                if isinstance(event, (events.Finished, events.Failed)):
                    self.ending = event
                if event is not None:
                    self._events.put(event)
        self._process.wait()
        self._events.put(None)


def _event_of(line: str) -> events.Event | None:
    if not line.strip():
        return None
    try:
        return events.decode_event(line)
    except FormatError:
        return events.Warned(message=f"The engine said something that is no event: {line.strip()[:200]}")


def _started(command: Sequence[str], run: RunDirectory) -> subprocess.Popen[str]:
    log: IO[bytes] | None = None
    try:
        log = run.log.open("ab")
        log.write(f"$ {subprocess.list2cmdline(command)}\n".encode())
        log.flush()
        return subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=engine_environment(),
            text=True,
            encoding="utf-8",
            errors="replace",
            **_window_options(),
        )
    except OSError as error:
        if log is None:
            raise write_failure(run.log, error) from error
        raise UserError(f"Cannot start {command[0]}: {error.strerror}.", _INSTALL_HINT, error) from error
    finally:
        if log is not None:
            log.close()


def _window_options() -> dict[str, Any]:
    """No console window on Windows; elsewhere a session of its own, so that Ctrl-C reaches us alone."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _last_lines(log: Path) -> str:
    try:
        text = log.read_bytes()[-8192:].decode("utf-8", "replace")
    except OSError as error:
        return f"(cannot be read: {error.strerror})"
    lines = [line for line in text.splitlines() if not line.startswith("$ ")]
    return "\n".join(lines[-_LOG_LINES:])


def _interrupted(step: int) -> UserError:
    return UserError(
        f"The fit was interrupted at step {step}.",
        "A checkpoint is saved: start the same fit again with resume.",
    )


def _exit_words(code: int) -> str:
    if code == 0:
        return "ended without saying how"
    if code > 0:
        return f"ended with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    reason = "; the system may have run out of memory" if name == "SIGKILL" else ""
    return f"was killed ({name}{reason})"
