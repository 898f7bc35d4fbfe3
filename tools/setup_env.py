#!/usr/bin/env python3
"""Makes this checkout's virtual environments: ``python3 tools/setup_env.py [engine] [blender] [blender-lts]``.

| environment | Python | holds |
|---|---|---|
| .venv/engine | 3.11 | torch, the engine (editable), its native library, test and check tools |
| .venv/blender | 3.13 | Blender 5.3 as the module bpy, test tools |
| .venv/blender-lts | 3.11 | Blender 4.5 as the module bpy, test tools |

Every step leaves a fingerprint of what it depends on in the environment's setup.json, and runs again only when that
changes; the native library is brought up to date each time, by its own rules. Standard library only, any Python from
3.9 on: this runs before anything is installed.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENVS = ROOT / ".venv"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
UV_SPEC = "uv==0.13.9"
PYTHON_VARIABLE = "SPLATFIT_PYTHON_{}_{}"
"""Environment variable that names the Python of a version to use, such as SPLATFIT_PYTHON_3_13."""

# What the bpy wheels link to beyond the C and C++ runtimes (ldd over every library in the wheels 4.5.15 and 5.3.0).
DEBIAN_PACKAGES = {
    "libGL.so.1": "libgl1",
    "libOpenGL.so.0": "libopengl0",
    "libICE.so.6": "libice6",
    "libSM.so.6": "libsm6",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXfixes.so.3": "libxfixes3",
    "libXi.so.6": "libxi6",
    "libXrender.so.1": "libxrender1",
    "libXt.so.6": "libxt6",
    "libxkbcommon.so.0": "libxkbcommon0",
}


class SetupError(Exception):
    """Something the person at the keyboard has to mend; the text says what and how."""


@dataclass(frozen=True)
class Environment:
    """One virtual environment.

    Attributes:
        name: Its folder in .venv.
        python: (major, minor) of its Python.
        proof: Python code that must run in it once it is made.
    """

    name: str
    python: tuple[int, int]
    proof: str

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return VENVS / self.name

    @property
    def executable(self) -> Path:
        """Its Python."""
        if os.name == "nt":
            return self.folder / "Scripts" / "python.exe"
        return self.folder / "bin" / "python"

    @property
    def requirements(self) -> Path:
        """The list of its packages, pinned."""
        return ROOT / "tools" / f"requirements-{self.name}.txt"


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment("engine", (3, 11), "import torch, numpy, OpenEXR, splat_engine"),
        Environment("blender", (3, 13), "import bpy"),
        Environment("blender-lts", (3, 11), "import bpy"),
    )
}


def say(text: str) -> None:
    """Prints a line at once."""
    print(f"setup: {text}", flush=True)


# Finding a Python


def python_candidates(version: tuple[int, int]) -> Iterator[list[str]]:
    """Yields commands that may start a Python of a version, the most deliberate choice first."""
    dotted = "{}.{}".format(*version)
    chosen = os.environ.get(PYTHON_VARIABLE.format(*version))
    if chosen:
        yield [chosen]
        return
    if sys.version_info[:2] == version:
        yield [getattr(sys, "_base_executable", "") or sys.executable]
    found = shutil.which(f"python{dotted}")
    if found:
        yield [found]
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    patterns = [
        f"{pyenv}/versions/{dotted}.*/bin/python",
        f"/usr/local/bin/python{dotted}",
        f"/usr/bin/python{dotted}",
        f"/opt/homebrew/opt/python@{dotted}/bin/python{dotted}",
        f"/usr/local/opt/python@{dotted}/bin/python{dotted}",
        f"/Library/Frameworks/Python.framework/Versions/{dotted}/bin/python{dotted}",
    ]
    for pattern in patterns:
        for path in sorted(glob.glob(pattern), reverse=True):
            yield [path]
    if os.name == "nt" and shutil.which("py"):
        yield ["py", f"-{dotted}"]
    if shutil.which("uv"):
        yield from uv_candidates("uv", dotted, ["find"])


def uv_candidates(uv: str, dotted: str, verbs: list[str]) -> Iterator[list[str]]:
    """Yields what ``uv python find`` names, after the other verbs (``install``) have run."""
    for verb in verbs:
        result = subprocess.run([uv, "python", verb, dotted], capture_output=True, text=True, check=False)
        if verb == "find" and result.returncode == 0:
            yield [result.stdout.strip()]


def python_fault(command: list[str], version: tuple[int, int]) -> tuple[str, str]:
    """Tries a command.

    Returns:
        The interpreter's own path and "", or "" and what is wrong with it.
    """
    code = (
        "import sys, sysconfig; print(getattr(sys, '_base_executable', sys.executable)); print(sys.version_info[:2]);"
        "import venv, ensurepip, ssl, ctypes;"
        "sys.exit('free-threaded' if sysconfig.get_config_var('Py_GIL_DISABLED') else 0)"
    )
    try:
        result = subprocess.run(
            [*command, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{command[0]}: {error}"
    lines = result.stdout.splitlines()
    if len(lines) < 2 or lines[1] != str(version):
        return "", f"{command[0]}: not a Python {version[0]}.{version[1]}"
    if result.returncode != 0:
        missing = result.stderr.strip().splitlines()[-1:]
        return "", f"{command[0]}: incomplete ({''.join(missing)})"
    return lines[0], ""


def find_python(version: tuple[int, int]) -> str:
    """Returns the path of a complete Python of a version, fetched with uv if none is there.

    Raises:
        SetupError: There is none.
    """
    dotted = "{}.{}".format(*version)
    faults: list[str] = []
    for command in python_candidates(version):
        path, fault = python_fault(command, version)
        if path:
            return path
        if fault not in faults:
            faults.append(fault)
    if PYTHON_VARIABLE.format(*version) not in os.environ:
        say(f"no Python {dotted} on this machine; asking uv for one")
        for command in fetched_candidates(dotted):
            path, fault = python_fault(command, version)
            if path:
                return path
            faults.append(fault)
    raise SetupError(python_words(version, faults))


def fetched_candidates(dotted: str) -> Iterator[list[str]]:
    """Lets uv install a Python, with the uv on PATH or one installed into .venv/uv, and yields it."""
    uv = shutil.which("uv")
    if uv is None:
        folder = VENVS / "uv"
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        uv = str(python.with_name("uv.exe" if os.name == "nt" else "uv"))
        commands = [
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "-q", UV_SPEC],
        ]
        if not Path(uv).is_file() and any(subprocess.run(c, check=False).returncode for c in commands):
            return
    yield from uv_candidates(uv, dotted, ["install", "find"])


def python_words(version: tuple[int, int], faults: list[str]) -> str:
    """Returns what to tell a person whose machine lacks a Python."""
    dotted = "{}.{}".format(*version)
    tried = "".join(f"\n  tried {fault}" for fault in faults)
    return (
        f"Python {dotted} is needed and was not found.{tried}\n"
        f"Install it in one of these ways, then run this again:\n"
        f"  Debian, Ubuntu  sudo apt-get install python{dotted} python{dotted}-venv   (where the release has it)\n"
        f"  anywhere        uv python install {dotted}       (https://docs.astral.sh/uv)\n"
        f"  anywhere        pyenv install {dotted}           (https://github.com/pyenv/pyenv)\n"
        f"  macOS           brew install python@{dotted}\n"
        f"  Windows         winget install Python.Python.{dotted}\n"
        f"Or set {PYTHON_VARIABLE.format(*version)} to its path."
    )


# System libraries


def missing_libraries() -> list[str]:
    """Returns the system libraries that Blender needs and this machine lacks; Linux only."""
    if not sys.platform.startswith("linux"):
        return []
    missing = []
    for name in DEBIAN_PACKAGES:
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    return missing


def check_libraries() -> None:
    """Raises SetupError when Blender lacks a system library."""
    missing = missing_libraries()
    if missing:
        packages = " ".join(DEBIAN_PACKAGES[name] for name in missing)
        raise SetupError(
            f"Blender needs system libraries that are not here: {', '.join(missing)}.\n"
            f"  Debian, Ubuntu  sudo apt-get update && sudo apt-get install --no-install-recommends {packages}\n"
            f"  others          install the packages that hold them, then run this again."
        )


# Steps


def run(command: list[str | Path]) -> None:
    """Runs a command with its output shown.

    Raises:
        SetupError: It failed.
    """
    words = [str(word) for word in command]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONNOUSERSITE": "1"}
    if subprocess.run(words, check=False, cwd=ROOT, env=environment).returncode != 0:
        raise SetupError(f"This command failed (its own words stand above):\n  {' '.join(words)}")


def pip_install(environment: Environment, *arguments: str | Path) -> None:
    """Runs pip install in an environment, quietly unless a person watches."""
    quiet = [] if sys.stdout.isatty() else ["-qq", "--progress-bar", "off"]
    run([environment.executable, "-m", "pip", "install", *quiet, *arguments])


def make_venv(environment: Environment) -> None:
    """Makes the bare environment, unless it stands already with the right Python."""
    if environment.executable.exists():
        path, fault = python_fault([str(environment.executable)], environment.python)
        if path:
            return
        say(f"{fault}; making .venv/{environment.name} anew")
    python = find_python(environment.python)
    say(f".venv/{environment.name} from {python}")
    run([python, "-m", "venv", "--clear", environment.folder])


def install_requirements(environment: Environment) -> None:
    """Installs the pinned packages, which are all there are."""
    pip_install(environment, "--no-deps", "-r", environment.requirements)


def install_torch(environment: Environment) -> None:
    """Installs torch from the best place: a CPU wheel on this disk, the CPU index, PyPI.

    PyPI's build for Linux is for NVIDIA cards, several GB; it is right where there is such a card.
    """
    spec = torch_spec()
    local = local_torch_wheels(environment, spec)
    if local:
        say(f"{spec} from {local[0]}")
        return pip_install(environment, spec)
    if sys.platform.startswith("linux") and shutil.which("nvidia-smi") is None:
        say(f"{spec} for the CPU, from {CPU_INDEX}")
        try:
            return pip_install(
                environment, "--retries", "1", "--timeout", "20", "--index-url", CPU_INDEX, spec
            )
        except SetupError:
            say(
                f"that index does not serve it here; taking {spec} from PyPI, a build for NVIDIA cards of several GB"
            )
    else:
        say(f"{spec} from PyPI")
    return pip_install(environment, spec)


def torch_spec() -> str:
    """Returns the pinned requirement."""
    text = (ROOT / "tools" / "requirements-torch.txt").read_text(encoding="utf-8")
    return next(line.strip() for line in text.splitlines() if line.startswith("torch=="))


def local_torch_wheels(environment: Environment, spec: str) -> list[str]:
    """Returns the CPU wheels of torch in the folders that pip is configured to look at (find-links)."""
    result = subprocess.run(
        [str(environment.executable), "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if "find-links=" in line]
    folders = [word for line in lines for word in re.split(r"[\s'\"]+|\\n", line.partition("=")[2]) if word]
    name = f"torch-{spec.partition('==')[2]}+cpu-cp{environment.python[0]}{environment.python[1]}-*.whl"
    wheels = [
        path for folder in folders for path in glob.glob(os.path.join(folder.replace("file://", ""), name))
    ]
    return sorted(set(wheels))


def install_project(environment: Environment) -> None:
    """Installs the engine from this checkout, editable, with the build tools that are pinned here."""
    pip_install(environment, "--no-build-isolation", "-e", ".[fit]")


def prove(environment: Environment) -> None:
    """Checks that the packages fit each other and that what the environment is for can be imported."""
    run([environment.executable, "-m", "pip", "check", "--quiet"])
    run([environment.executable, "-c", environment.proof])


Step = Callable[[Environment], None]


def steps_of(environment: Environment) -> list[tuple[str, Step, list[Path]]]:
    """Returns (name, action, files it depends on) in order."""
    requirements = environment.requirements
    steps: list[tuple[str, Step, list[Path]]] = [
        ("venv", make_venv, []),
        ("packages", install_requirements, [requirements]),
    ]
    if environment.name == "engine":
        metadata = [
            ROOT / name for name in ("pyproject.toml", "setup.py", "blender_manifest.toml", "README.md")
        ]
        steps.append(("torch", install_torch, [ROOT / "tools" / "requirements-torch.txt"]))
        steps.append(("engine", install_project, metadata))
    everything = [path for _, _, files in steps for path in files]
    return [*steps, ("proof", prove, everything)]


def fingerprint(environment: Environment, action: Step, files: list[Path]) -> str:
    """Returns a digest of what a step's result depends on."""
    digest = hashlib.sha256(
        f"{environment.python} {environment.proof} {action.__name__} {environment.folder}".encode()
    )
    for path in files:
        digest.update(path.read_bytes() if path.is_file() else b"absent")
    return digest.hexdigest()[:16]


def set_up(environment: Environment) -> bool:
    """Brings one environment up to date; returns whether anything was done.

    Raises:
        SetupError: A step failed; what was done before it stays done.
    """
    stamp = environment.folder / "setup.json"
    done: dict[str, str] = {}
    if stamp.is_file() and environment.executable.exists():
        done = json.loads(stamp.read_text(encoding="utf-8"))
    changed = False
    for name, action, files in steps_of(environment):
        wanted = fingerprint(environment, action, files)
        if done.get(name) == wanted:
            continue
        start = time.monotonic()
        action(environment)
        done = {**done, name: wanted}
        stamp.write_text(json.dumps(done, indent=1), encoding="utf-8")
        say(f".venv/{environment.name}: {name} in {time.monotonic() - start:.0f} s")
        changed = True
    return changed


def build_native() -> None:
    """Brings the native library up to date with csrc."""
    build = ROOT / "splat_engine" / "native" / "build.py"
    if build.is_file():
        run([ENVIRONMENTS["engine"].executable, build])


def main() -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("environments", nargs="*", help=f"any of {', '.join(ENVIRONMENTS)}; default all")
    parser.add_argument(
        "--system-packages",
        action="store_true",
        help="print the Debian packages that Blender lacks, and do nothing",
    )
    options = parser.parse_args()
    if options.system_packages:
        print(" ".join(DEBIAN_PACKAGES[name] for name in missing_libraries()))
        return 0
    unknown = [name for name in options.environments if name not in ENVIRONMENTS]
    if unknown:
        parser.error(f"unknown environment {unknown[0]!r}; known: {', '.join(ENVIRONMENTS)}")
    names = options.environments or list(ENVIRONMENTS)
    try:
        if any(name.startswith("blender") for name in names):
            check_libraries()
        changed = [name for name in names if set_up(ENVIRONMENTS[name])]
        if "engine" in names:
            build_native()
    except SetupError as error:
        say(str(error))
        return 1
    if changed:
        say("done: " + ", ".join(f".venv/{name}" for name in changed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
