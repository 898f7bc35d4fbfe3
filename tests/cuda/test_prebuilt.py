"""The archive of compiled kernels: which one a card gets, what is refused, and where NVRTC takes over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import compile as compiler
from splat_engine.ops._cuda import kernels
from splat_engine.ops._cuda.cubin import entry_points
from splat_engine.ops._cuda.kernels import find_kernels
from splat_engine.ops._cuda.prebuild import PREFERRED
from splat_engine.ops._cuda.prebuilt import (
    ARCHITECTURES,
    PrebuiltError,
    architecture_of,
    archive_bytes,
    best_architecture,
    capability_of,
    open_archive,
)
from splat_engine.ops._cuda.source import fingerprint, source_files

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("capability", "chosen"),
    [
        ((7, 0), None),
        ((7, 5), "sm_75"),
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 7), None),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90"),
        ((10, 0), "sm_100"),
        ((10, 1), None),
        ((10, 3), "sm_100"),
        ((11, 0), None),
        ((12, 0), "sm_120"),
        ((12, 1), "sm_120"),
        ((13, 0), None),
    ],
)
def test_a_card_gets_the_closest_it_can_run(capability: tuple[int, int], chosen: str | None) -> None:
    """Of its own major number, with no later minor one; a card on the processor's chip none but NVRTC's."""
    assert best_architecture(capability, ARCHITECTURES) == chosen
    assert best_architecture(capability, ()) is None


def test_an_earlier_minor_number_serves() -> None:
    """8.6 runs 8.0's, but not the other way round."""
    assert best_architecture((8, 6), ("sm_80", "sm_90")) == "sm_80"
    assert best_architecture((8, 0), ("sm_86", "sm_90")) is None
    assert [architecture_of(capability_of(name)) for name in ARCHITECTURES] == list(ARCHITECTURES)


@pytest.fixture(scope="module")
def cubin() -> bytes:
    """One module, compiled."""
    try:
        compiler.compiler_version()
    except UserError as error:
        pytest.skip(f"{error.headline} (there is none for macOS)")
    return compiler.compile_module("adam", "sm_80")


@pytest.fixture
def archive(tmp_path: Path, cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of these sources with one module, where ``find_kernels`` looks for it; nothing else can be compiled."""
    path = tmp_path / "kernels.zip"
    path.write_bytes(archive_bytes(fingerprint(), (12, 8), {"sm_80": {"adam": cubin}}))
    monkeypatch.setattr(kernels, "archive_path", lambda: path)
    monkeypatch.setenv(compiler.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "module_names", lambda: ["adam"])
    return path


def test_a_fitting_cubin_is_taken(archive: Path, cubin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it lies in the archive, with its entry points, and NVRTC is not even looked for."""
    monkeypatch.setattr(compiler, "compiler_version", None)
    found = find_kernels((8, 6), 12000)
    assert found.origin == "sm_80 in kernels.zip, by NVRTC 12.8"
    assert found.modules == {"adam": cubin}
    assert found.module_of == {"adam_step_f32": "adam", "adam_step_f64": "adam"}


def test_nvrtc_takes_over_for_another_card(archive: Path) -> None:
    """Whose kernels then are for exactly its architecture, and are kept."""
    version = compiler.compiler_version()
    found = find_kernels((9, 0), 1000 * version[0])
    assert found.origin.startswith(f"sm_90 by NVRTC {version[0]}.{version[1]}, kept in ")
    assert entry_points(found.modules["adam"]) == ["adam_step_f32", "adam_step_f64"]
    assert list((archive.parent / "cache" / "entries").iterdir())


def test_an_archive_of_other_sources_is_not_used(archive: Path, cubin: bytes) -> None:
    """NVRTC compiles these ones instead."""
    archive.write_bytes(archive_bytes("0" * 32, (12, 8), {"sm_80": {"adam": cubin}}))
    with pytest.raises(PrebuiltError, match="built from other sources"):
        open_archive(archive, fingerprint())
    assert "by NVRTC" in find_kernels((8, 0), 1000 * compiler.compiler_version()[0]).origin
    assert "kernels.zip" not in find_kernels((8, 0), 1000 * compiler.compiler_version()[0]).origin


@pytest.mark.parametrize(
    ("capability", "driver", "words"),
    [
        ((9, 0), 13000, ["has no kernels for sm_90", "not installed"]),
        (
            (8, 6),
            11080,
            ["need an NVIDIA driver for CUDA 12 (525 or newer)", "for CUDA 11.8", "not installed"],
        ),
        ((6, 1), 13000, ["6.1, is too low: 7.5"]),
    ],
)
def test_without_nvrtc_the_reason_is_said(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], driver: int, words: list[str]
) -> None:
    """Why the package's own kernels do not serve, that there is no compiler, and how to get one."""

    def none() -> tuple[int, int]:
        raise compiler.NoCompiler(
            "NVRTC, the compiler of CUDA kernels, is not installed.", compiler.NO_COMPILER_HINT
        )

    monkeypatch.setattr(compiler, "compiler_version", none)
    with pytest.raises(UserError) as caught:
        find_kernels(capability, driver)
    assert all(word in caught.value.headline for word in words)
    assert "splat-engine[cuda12]" in caught.value.hint or "device cpu" in caught.value.hint


@pytest.mark.parametrize("keep", [0, 1, 100, 2000, -30])
def test_a_damaged_archive_is_refused(archive: Path, keep: int) -> None:
    """Cut anywhere, it is an error in words."""
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(PrebuiltError, match="damaged"):
        open_archive(archive, fingerprint())


def test_a_damaged_member_is_refused(archive: Path) -> None:
    """A wrong bit in a cubin is found when it is read."""
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        info = opened.getinfo("sm_80/adam.cubin")
    data[info.header_offset + 200] ^= 1
    archive.write_bytes(data)
    with pytest.raises(PrebuiltError, match="damaged"):
        open_archive(archive).modules("sm_80")


def test_no_archive_is_said(tmp_path: Path) -> None:
    """A package built without NVRTC has none."""
    with pytest.raises(PrebuiltError, match="built without compiled kernels"):
        open_archive(tmp_path / "kernels.zip")


def test_the_same_kernels_give_the_same_bytes(cubin: bytes) -> None:
    """So that two builds of a wheel are one."""
    contents = {"sm_80": {"adam": cubin}}
    assert archive_bytes("a", (12, 8), contents) == archive_bytes("a", (12, 8), contents)


WITHOUT_TORCH = """
import ast, importlib, sys
from pathlib import Path
from types import ModuleType
sys.modules |= dict.fromkeys(("torch", "numpy", "cuda"))
ROOT = Path({root!r})
tree = ast.parse((ROOT / "setup.py").read_text())
tree.body = [node for node in tree.body if getattr(node, "name", "") == "load_kernel_builder"]
exec(compile(tree, "setup.py", "exec"))
builder = load_kernel_builder()
print(len(builder.copy_sources(ROOT / "csrc", Path({folder!r}))))
try:
    builder.build_archive()
except builder.NoCompiler as error:
    print(error.headline)
"""


def test_a_build_environment_needs_neither_torch_nor_numpy(tmp_path: Path) -> None:
    """setup.py's way to the kernels: the sources are packed as they are, and that they are not compiled is said."""
    if not (ROOT / "csrc").is_dir():
        pytest.skip("needs a checkout: csrc")
    code = WITHOUT_TORCH.format(root=str(ROOT), folder=str(tmp_path))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, headline = done.stdout.splitlines()
    assert int(count) == len(source_files(ROOT / "csrc")) > 10
    assert headline == "NVRTC, the compiler of CUDA kernels, is not installed."
    assert fingerprint(tmp_path / "sources") == fingerprint(ROOT / "csrc")


PREBUILD = "from splat_engine.ops._cuda import source, prebuild, prebuilt, compile; "
ONLY_ADAM = "source.module_names = prebuild.module_names = lambda root=None: ['adam']; "


def prebuilt_by(out: Path, first: str) -> dict[str, bytes]:
    """Runs the command in a process of its own, for one module; returns index and cubins by name."""
    code = f"{PREBUILD}{ONLY_ADAM}{first}; raise SystemExit(prebuild.main(['--out', {str(out)!r}]))"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        compiler.CACHE_VARIABLE: str(ROOT / "build" / "kernels"),
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    with zipfile.ZipFile(out) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_command_builds_for_all(tmp_path: Path, cubin: bytes) -> None:
    """Every architecture, of the sources as they are, by the compiler that it says."""
    files = prebuilt_by(tmp_path / "kernels.zip", "prebuild.prefer_oldest_compiler = lambda: None")
    index = json.loads(files["index.json"])
    assert index["architectures"] == list(ARCHITECTURES)
    assert tuple(index["compiler"]) == compiler.compiler_version()
    for architecture in ARCHITECTURES:
        assert entry_points(files[f"{architecture}/adam.cubin"]) == ["adam_step_f32", "adam_step_f64"]


def test_nvrtc_12_makes_what_older_drivers_load(tmp_path: Path) -> None:
    """Version 7 of the cubin's ABI before Blackwell, 8 from there on, where NVRTC 13 writes 8 for all.

    Drivers for CUDA 12 know 7, and the first that know Blackwell know 8: this is why wheels have NVRTC 12.8's kernels.
    """
    try:
        metadata.version(PREFERRED)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PREFERRED} is not installed")
    files = prebuilt_by(tmp_path / "kernels.zip", "pass")
    assert json.loads(files["index.json"])["compiler"] == [12, 8]
    versions = {name: files[f"{name}/adam.cubin"][8] for name in ARCHITECTURES}
    assert versions == {name: 7 if capability_of(name) < (10, 0) else 8 for name in ARCHITECTURES}
