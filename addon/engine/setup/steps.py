"""The steps of a set-up: uv, an environment, the packages, the check, the stamp.

uv comes as its wheel from PyPI (a zip with one static program), by a download of our own that knows its hash: that
takes no Python and no pip, of which Blender need have neither. The environment is made anew each time, so no package
that was half installed when a set-up broke off can stay; what was downloaded is in the cache.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_aside

from . import download, place
from .plan import CPU_INDEX, PYTHON_RANGE, TORCH_VERSION, UV_VERSION, Plan
from .programs import Runner

_UV_PROJECT = "uv"
_PIP_PYTHONS = ("3.13", "3.12", "3.11", "3.14")
_PROBE = (
    "import sys, sysconfig, venv, ensurepip, ssl; "
    "sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15) or bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
)
_FREE_RESERVE_BYTES = 300_000_000
_INSTALL_SHARES = (0.12, 0.95)
"""Of the whole, where the installation begins and ends."""

Meter = Callable[[], tuple[float, str]]
"""Tells (share of the whole, detail in words) of something that goes on."""


@dataclass
class Tools:
    """What the steps work with.

    Attributes:
        runner: Runs programs.
        say: Told (what is being done, share of the whole so far or None, detail) as the work goes on.
        watch: Given a meter for as long as it has something to tell, then None.
        opener: Opens requests.
        free_bytes: Gives the free bytes where a folder lies.
    """

    runner: Runner
    say: Callable[[str, float | None, str], None]
    watch: Callable[[Meter | None], None]
    opener: download.OpenUrl = download.open_url
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free


def set_up(plan: Plan, tools: Tools) -> dict[str, Any]:
    """Makes the environment whole; the place must be locked.

    Returns:
        What the check found.

    Raises:
        UserError: It cannot be made; what has been downloaded stays for the next time.
        Cancelled: The runner was cancelled.
    """
    _refuse_full_disk(plan, tools)
    plan.place.stamp.unlink(missing_ok=True)
    uv: Path | None = None
    if plan.uv is not None:
        uv = get_uv(plan, tools)
        try:
            tools.runner.run("Starting uv", [uv, "--version"])
        except UserError as error:
            tools.say("uv does not run here: pip goes on in its place", None, error.headline)
            plan, uv = plan.as_pip(), None
    tools.say("Making the environment", 0.1, "")
    _make_environment(plan, tools, uv)
    tools.say("Installing PyTorch and the engine", _INSTALL_SHARES[0], "")
    _install(plan, tools, uv)
    facts = check(plan.place.python, tools)
    place.write_stamp(plan.place, plan.wheel, facts)
    return facts


def check(python: Path, tools: Tools) -> dict[str, Any]:
    """Lets the engine examine itself, with a fit of one second; returns its facts.

    Raises:
        UserError: It does not run, or does not learn.
    """
    tools.say("Checking the engine", _INSTALL_SHARES[1], "a fit of one second")
    lines = tools.runner.run("The check of the engine", [python, "-m", "splat_engine", "doctor", "--json"])
    text = "\n".join(lines)
    try:
        facts = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return {str(name): value for name, value in facts.items()}
    except (ValueError, AttributeError) as error:
        raise UserError(
            "The engine's check gave no answer that can be read.", f"The log is {tools.runner.log}.", text
        ) from error


def get_uv(plan: Plan, tools: Tools) -> Path:
    """Returns uv's program, fetched and unpacked if it is not there.

    Raises:
        UserError: It cannot be had.
    """
    assert plan.uv is not None
    program = plan.place.root / f"uv-{UV_VERSION}{'.exe' if sys.platform == 'win32' else ''}"
    if program.is_file():
        return program
    tools.say("Fetching uv, which fetches the rest", 0.0, "")
    archive = _uv_archive(plan, tools)
    name = f"uv-{UV_VERSION}.data/scripts/uv{'.exe' if sys.platform == 'win32' else ''}"
    try:
        with zipfile.ZipFile(archive) as zipped:
            content = zipped.read(name)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{archive} holds no uv.", "Remove that file and try again.", error) from error
    with write_aside(program) as stream:
        stream.write(content)
        stream.flush()
        os.chmod(stream.name, 0o755)
    if archive.parent == plan.place.root:
        archive.unlink()
    return program


def _uv_archive(plan: Plan, tools: Tools) -> Path:
    assert plan.uv is not None
    expected = plan.uv
    if plan.wheel_folder is not None and (plan.wheel_folder / expected.name).is_file():
        return plan.wheel_folder / expected.name
    if plan.is_offline:
        raise UserError(
            f"{plan.wheel_folder} has no {expected.name}, and Blender may not go online.",
            "Put that file there, or allow online access in Blender's preferences, System, Network.",
        )
    archive = plan.place.root / expected.name
    url = download.find_url(plan.index, _UV_PROJECT, expected.name, tools.opener)

    def progress(done: int) -> None:
        tools.say("Fetching uv, which fetches the rest", 0.1 * done / expected.size, _of(done, expected.size))

    download.fetch(
        url,
        archive,
        expected,
        opener=tools.opener,
        progress=progress,
        is_cancelled=tools.runner.is_cancelled,
    )
    return archive


def _make_environment(plan: Plan, tools: Tools, uv: Path | None) -> None:
    place = plan.place
    if uv is None:
        python = find_python(tools)
        tools.runner.run("Making the environment", [*python, "-m", "venv", "--clear", place.environment])
        return
    command: list[str | Path] = [uv, "venv", "--clear", "--no-project", "--no-progress"]
    command += ["--python", PYTHON_RANGE, place.environment]
    tools.runner.run("Making the environment", command, added=_uv_variables(plan))


def _install(plan: Plan, tools: Tools, uv: Path | None) -> None:
    """Installs torch and the engine in one resolution, so that they fit each other."""
    wanted = [f"torch=={TORCH_VERSION}", f"splat-engine[fit] @ {plan.wheel.resolve().as_uri()}"]
    links = ["--find-links", str(plan.wheel_folder)] if plan.wheel_folder is not None else []
    links += ["--no-index"] if plan.is_offline else []
    command: list[str | Path]
    if uv is not None:
        backend = [] if plan.has_own_torch or plan.is_offline else ["--torch-backend", "auto"]
        command = [uv, "pip", "install", "--python", plan.place.python, "--no-progress", *backend, *links]
    else:
        command = [plan.place.python, "-m", "pip", "install", "--disable-pip-version-check"]
        command += ["--progress-bar", "off", "--cache-dir", plan.place.cache, *links, *_pip_indexes(plan)]
    tools.watch(_disk_meter(plan, tools))
    try:
        tools.runner.run("Installing PyTorch and the engine", [*command, *wanted], added=_uv_variables(plan))
    finally:
        tools.watch(None)


def _pip_indexes(plan: Plan) -> list[str]:
    """PyPI's torch for Linux is for NVIDIA cards; where there is none, the CPU's comes from PyTorch's own index."""
    if plan.is_offline:
        return []
    cpu = sys.platform.startswith("linux") and not plan.has_card and not plan.has_own_torch
    return ["--index-url", CPU_INDEX, "--extra-index-url", plan.index] if cpu else ["--index-url", plan.index]


def _uv_variables(plan: Plan) -> dict[str, str]:
    """All of uv's files go into the place; certificates and proxies are the system's."""
    variables = {
        "UV_CACHE_DIR": str(plan.place.cache),
        "UV_PYTHON_INSTALL_DIR": str(plan.place.pythons),
        "UV_PYTHON_INSTALL_BIN": "0",
        "UV_SYSTEM_CERTS": "1",
        "UV_DEFAULT_INDEX": plan.index,
        "NO_COLOR": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    return {**variables, "UV_OFFLINE": "1"} if plan.is_offline else variables


def _disk_meter(plan: Plan, tools: Tools) -> Meter:
    """Returns what tells how far an installation is by the disk's free space: uv and pip tell it to terminals alone."""
    root, total = plan.place.root, plan.size.disk_bytes
    free_at_first = tools.free_bytes(root)
    first, last = _INSTALL_SHARES

    def measure() -> tuple[float, str]:
        written = min(max(free_at_first - tools.free_bytes(root), 0), total)
        return first + (last - first) * written / total, f"about {_of(written, total)} on the disk"

    return measure


def find_python(tools: Tools) -> list[str]:
    """Returns the command of a Python of this machine that environments for the engine can be made from.

    Raises:
        UserError: There is none.
    """
    for command in _python_candidates():
        try:
            tools.runner.run("Looking for a Python", [*command, "-c", _PROBE])
        except UserError:
            continue
        return command
    raise UserError(
        "This machine has no Python from 3.11 to 3.14 that can make an environment.",
        "Install Python 3.12: from python.org, or on Debian and Ubuntu with `apt install python3-venv`.",
    )


def _python_candidates() -> Iterator[list[str]]:
    for name in [*(f"python{version}" for version in _PIP_PYTHONS), "python3", "python"]:
        found = shutil.which(name)
        if found is not None:
            yield [found]
    if sys.platform == "win32" and shutil.which("py"):
        yield from (["py", f"-{version}"] for version in _PIP_PYTHONS)
    for version in _PIP_PYTHONS:
        for pattern in (
            "/opt/homebrew/opt/python@{0}/bin/python{0}",
            "/Library/Frameworks/Python.framework/Versions/{0}/bin/python{0}",
        ):
            if Path(pattern.format(version)).is_file():
                yield [pattern.format(version)]


def _refuse_full_disk(plan: Plan, tools: Tools) -> None:
    plan.place.root.mkdir(parents=True, exist_ok=True)
    free = tools.free_bytes(plan.place.root)
    there = place.status(plan.place, plan.wheel) is not place.Status.ABSENT
    needed = _FREE_RESERVE_BYTES if there else plan.size.disk_bytes + _FREE_RESERVE_BYTES
    if free < needed:
        raise UserError(
            f"The disk has {free / 1e9:.1f} GB free; the engine needs {needed / 1e9:.1f} GB at {plan.place.root}.",
            "Free some space and try again.",
        )


def _of(done: int, size: int) -> str:
    return f"{done / 1e6:.0f} of {size / 1e6:.0f} MB"
