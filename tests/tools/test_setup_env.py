"""make setup: its pins are whole, it finds Pythons, runs each step once, and says what is missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import setup_env
from tools.setup_env import ENVIRONMENTS, Environment, SetupError

ROOT = Path(__file__).resolve().parents[2]
NO_VERSION = (2, 99)


def pins(path: Path) -> dict[str, str]:
    """Returns package to version of a requirements file, in pip's spelling of names."""
    lines = [line.partition(";")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            assert re.fullmatch(r"[\w.-]+==[\w.]+", line), f"{path.name}: {line!r} is not pinned"
            name, _, version = line.partition("==")
            found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=list(ENVIRONMENTS))
def test_every_package_is_pinned(environment: Environment) -> None:
    """One version each, so that all machines check with the same tools."""
    assert {"pytest", "hypothesis", "numpy"} <= pins(environment.requirements).keys()


def test_the_engines_dependencies_are_among_the_pins() -> None:
    """pip must not have to look for a version of anything that pyproject.toml asks for."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["fit"]
    names = {re.split(r"[<>=~! ]", item)[0].lower() for item in wanted}
    pinned = pins(ENVIRONMENTS["engine"].requirements).keys() | {setup_env.torch_spec().partition("==")[0]}
    assert names <= pinned, f"pin {names - pinned} in tools/requirements-engine.txt"


def test_test_tools_are_the_same_everywhere() -> None:
    """pytest and hypothesis in three Pythons must not differ."""
    lists = [pins(environment.requirements) for environment in ENVIRONMENTS.values()]
    for name in ("pytest", "hypothesis", "pluggy", "packaging"):
        assert len({versions[name] for versions in lists}) == 1, name


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment whose folder is the test's own, and steps that only note that they ran."""
    monkeypatch.setattr(setup_env, "VENVS", tmp_path)
    environment = Environment("engine", sys.version_info[:2], "pass")
    environment.executable.parent.mkdir(parents=True)
    environment.executable.touch()
    return environment


def test_steps_run_once_and_again_when_their_files_change(
    sandbox: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call does nothing; a changed list runs its step alone; a failed step is tried again."""
    listed, ran = tmp_path / "list.txt", []
    listed.write_text("a==1")

    def plain(_: Environment) -> None:
        ran.append("plain")

    def listing(_: Environment) -> None:
        ran.append("listing")
        if "broken" in listed.read_text():
            raise SetupError("no such package")

    steps = [("plain", plain, []), ("listing", listing, [listed])]
    monkeypatch.setattr(setup_env, "steps_of", lambda _: steps)
    assert setup_env.set_up(sandbox) and ran == ["plain", "listing"]
    assert not setup_env.set_up(sandbox) and len(ran) == 2
    listed.write_text("a==2 broken")
    for _ in range(2):
        with pytest.raises(SetupError):
            setup_env.set_up(sandbox)
    listed.write_text("a==2")
    assert setup_env.set_up(sandbox) and ran[2:] == ["listing"] * 3


def test_this_python_is_found() -> None:
    """The running version is always among the candidates, and complete."""
    version = sys.version_info[:2]
    assert setup_env.find_python(version)
    path, fault = setup_env.python_fault([sys.executable], version)
    assert path and not fault


@pytest.mark.parametrize(
    ("command", "words"),
    [("no-such-python", "No such file"), (sys.executable, "not a Python 2.99"), ("false", "not a")],
)
def test_what_is_wrong_with_a_python_is_said(command: str, words: str) -> None:
    """It is not there, it is another version, it does not answer (as a pyenv shim without its version)."""
    path, fault = setup_env.python_fault([command], NO_VERSION)
    assert not path and words in fault


def test_a_missing_python_gives_ways_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was tried, and a line for each system."""
    monkeypatch.setattr(setup_env, "python_candidates", lambda _: iter([[sys.executable]]))
    monkeypatch.setattr(setup_env, "fetched_candidates", lambda _: iter([]))
    with pytest.raises(SetupError) as caught:
        setup_env.find_python(NO_VERSION)
    text = str(caught.value)
    for words in (
        "Python 2.99 is needed",
        "not a Python 2.99",
        "apt-get install",
        "uv python install 2.99",
        "SPLATFIT_PYTHON_2_99",
    ):
        assert words in text


def test_a_chosen_python_is_the_only_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variable is obeyed, and a wrong one is an error rather than a reason to look elsewhere."""
    monkeypatch.setenv("SPLATFIT_PYTHON_2_99", "/no/python")
    assert list(setup_env.python_candidates(NO_VERSION)) == [["/no/python"]]
    with pytest.raises(SetupError, match="/no/python"):
        setup_env.find_python(NO_VERSION)


def test_uv_on_the_path_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv python install, then find, where nothing else serves."""
    log = tmp_path / "log"
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$2" = find ] && echo /found/by/uv\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert list(setup_env.fetched_candidates("2.99")) == [["/found/by/uv"]]
    assert log.read_text().splitlines() == ["python install 2.99", "python find 2.99"]


def test_missing_system_libraries_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words hold the command that installs them on Debian."""

    def load(name: str) -> Any:
        if name in ("libXi.so.6", "libxkbcommon.so.0"):
            raise OSError(name)

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(setup_env.ctypes, "CDLL", load)
    with pytest.raises(SetupError, match=r"libXi\.so\.6, libxkbcommon\.so\.0") as caught:
        setup_env.check_libraries()
    assert "apt-get install --no-install-recommends libxi6 libxkbcommon0" in str(caught.value)


def wheel_folder(tmp_path: Path) -> Path:
    """Returns a folder with torch wheels of several kinds, one of them ours."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    version = setup_env.torch_spec().partition("==")[2]
    for name in (
        f"{version}+cpu-{tag}-{tag}-linux",
        f"{version}-{tag}-{tag}-linux",
        f"{version}+cpu-cp36-cp36m-linux",
    ):
        (folder / f"torch-{name}.whl").touch()
    return folder


def test_a_cpu_wheel_on_this_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through pip's own configuration: PIP_FIND_LINKS or a find-links line."""
    monkeypatch.setattr(Environment, "executable", Path(sys.executable))
    environment = Environment("engine", sys.version_info[:2], "pass")
    folder = wheel_folder(tmp_path)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", f"/no/such/folder {folder}")
    (wheel,) = setup_env.local_torch_wheels(environment, setup_env.torch_spec())
    assert Path(wheel).parent == folder and "+cpu-cp3" in wheel
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert not setup_env.local_torch_wheels(environment, setup_env.torch_spec())


@pytest.mark.parametrize("card", [False, True])
def test_where_torch_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], card: bool
) -> None:
    """Without a wheel on this disk: the CPU index, then PyPI; straight from PyPI where there is an NVIDIA card."""
    tried: list[tuple[Any, ...]] = []

    def install(_: Environment, *arguments: Any) -> None:
        tried.append(arguments)
        if "--index-url" in arguments:
            raise SetupError("unreachable")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(setup_env, "local_torch_wheels", lambda *_: [])
    monkeypatch.setattr(setup_env, "pip_install", install)
    monkeypatch.setattr(
        setup_env.shutil, "which", lambda name: name if card and name == "nvidia-smi" else None
    )
    setup_env.install_torch(ENVIRONMENTS["engine"])
    spec = setup_env.torch_spec()
    assert [("--index-url" in words, words[-1]) for words in tried] == ([] if card else [(True, spec)]) + [
        (False, spec)
    ]
    assert ("NVIDIA cards of several GB" in capsys.readouterr().out) != card
