"""The check of a wheel: the right one passes, and each thing that can be wrong with one is said."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path

import pytest

from splat_engine.native import build, structs
from splat_engine.ops._cuda import prebuilt, source
from splat_engine.ops._cuda.cubin import KernelFacts
from tools import wheels
from tools.library_file import LibraryFacts
from tools.wheels import WheelError, check_wheel, library_faults

TARGET = build.TARGETS["macos-arm64"]
ENTRY_POINTS = frozenset(f"splat_{op}_{scalar}" for op in structs.OPS for scalar in structs.SCALARS)
RIGHT = LibraryFacts(
    "darwin",
    "aarch64",
    ENTRY_POINTS | {"splat_abi_version", "splat_isa", "_mh_dylib_header"},
    frozenset({"/usr/lib/libSystem.B.dylib"}),
    (11, 0),
    "@rpath/libsplat_cpu.dylib",
    signed=True,
)
LIBRARY = b"library built from " + build.build_id().encode() if build.source_root().is_dir() else b""
KERNEL_SOURCES = {
    f"splat_engine/ops/_cuda/sources/{file.as_posix()}": (wheels.ROOT / "csrc" / file).read_bytes()
    for file in (source.source_files(wheels.ROOT / "csrc") if build.source_root().is_dir() else [])
}
pytestmark = pytest.mark.skipif(not build.source_root().is_dir(), reason="needs a checkout: csrc")


def make_wheel(folder: Path, target: build.Target = TARGET, tag: str = "", **changes: bytes | None) -> Path:
    """A wheel with its least files; the changes, by file name with ``__`` for a slash and ``_dot_`` for a dot."""
    tag = tag or target.wheel_tag
    metadata = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-{target.wheel_tag}\n"
    files: dict[str, bytes | None] = {
        "splat_engine/__init__.py": b"",
        **KERNEL_SOURCES,
        f"splat_engine/native/{build.library_file(None, target).name}": LIBRARY,
        "splat_engine-0.1.0.dist-info/WHEEL": metadata.encode(),
    }
    files |= {name.replace("__", "/").replace("_dot_", "."): content for name, content in changes.items()}
    path = folder / f"splat_engine-0.1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            if content is not None:
                archive.writestr(name, content)
    return path


@pytest.fixture(autouse=True)
def right_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library says of itself is not the subject here (test_library_file.py has it)."""
    monkeypatch.setattr(wheels, "read_library", lambda data: RIGHT)


def test_the_right_wheel_passes(tmp_path: Path) -> None:
    """And its library's facts come back."""
    assert check_wheel(make_wheel(tmp_path), TARGET) == RIGHT


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tag": "macosx_11_0_x86_64"}, "its name should end in py3-none-macosx_11_0_arm64"),
        ({"splat_engine-0_dot_1_dot_0_dot_dist-info__WHEEL": b"Tag: py3-none-any\n"}, "the one tag py3-none-macosx"),
        ({"splat_engine-0_dot_1_dot_0_dot_dist-info__WHEEL": b"Tag: py3-none-any\n"}, "Root-Is-Purelib: false"),
        ({"splat_engine__native__libsplat_cpu_dot_dylib": None}, "found none"),
        ({"splat_engine__native__splat_cpu_dot_dll": b""}, "splat_cpu.dll"),
        ({"splat_engine__native__libsplat_cpu_dot_so_dot_1": b""}, "libsplat_cpu.so.1"),
        ({"splat_engine__paths_dot_py": str(wheels.ROOT / "csrc").encode()}, "paths.py holds a path of this machine"),
        ({"splat_engine__native__libsplat_cpu_dot_dylib": b"of other sources"}, "built from other sources"),
        ({"splat_engine__ops___cuda__sources__cuda__adam_dot_cu": None}, "sources/cuda/adam.cu is not csrc/cuda/adam.cu"),
        ({"splat_engine__ops___cuda__sources__include__adam_dot_h": b"//"}, "sources/include/adam.h is not csrc/include/adam.h"),
        ({"splat_engine__ops___cuda__kernels_dot_zip": b"any"}, "CUDA kernels, which macOS cannot run"),
    ],
)  # fmt: skip
def test_a_wrong_wheel_is_refused(tmp_path: Path, changes: dict[str, bytes | None], words: str) -> None:
    """Wrong name or tag, no library or a second one, a path of this machine, a stale library."""
    with pytest.raises(WheelError) as caught:
        check_wheel(make_wheel(tmp_path, **changes), TARGET)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's words, after the name of the file."""
    monkeypatch.undo()
    with pytest.raises(WheelError, match=r"libsplat_cpu\.dylib: neither ELF, PE nor"):
        check_wheel(make_wheel(tmp_path), TARGET)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": "x86_64"}, "expected darwin on aarch64"),
        ({"system": "linux"}, "is for linux on aarch64"),
        ({"exports": RIGHT.exports | {"_Znwm"}}, "exports 1 names that are not ours, such as _Znwm"),
        ({"exports": RIGHT.exports - {"splat_ssim_bwd_f64"}}, "lacks splat_ssim_bwd_f64"),
        ({"needs": RIGHT.needs | {"/usr/lib/libc++.1.dylib"}}, "needs /usr/lib/libc++.1.dylib"),
        ({"least_system": (12, 0)}, "needs darwin 12.0, its wheel promises 11.0"),
        ({"own_name": "@rpath/libsplat_cpu.dylib.123.new"}, "calls itself"),
        ({"signed": False}, "no valid signature"),
    ],
)
def test_a_wrong_library_is_refused(changes: dict[str, object], words: str) -> None:
    """Each thing that a library's headers can give away, with what was expected."""
    assert library_faults(RIGHT, LIBRARY, TARGET) == []
    (fault,) = library_faults(dataclasses.replace(RIGHT, **changes), LIBRARY, TARGET)  # type: ignore[arg-type]
    assert words in fault


@pytest.mark.parametrize(
    ("name", "needs", "fits"),
    [
        ("linux-arm64", "ld-linux-aarch64.so.1", True),
        ("linux-x64", "libstdc++.so.6", False),
        ("windows-x64", "api-ms-win-crt-heap-l1-1-0.dll", True),
        ("windows-x64", "KERNEL32.dll", True),
        ("windows-x64", "libwinpthread-1.dll", False),
    ],
)
def test_what_every_system_has(name: str, needs: str, fits: bool) -> None:
    """The C library and the system's own may be needed; a compiler's run-time library may not."""
    target = build.TARGETS[name]
    facts = dataclasses.replace(
        RIGHT, system=target.system, machine=target.machine, needs=frozenset({needs}), least_system=(2, 2), own_name=""
    )  # fmt: skip
    assert (library_faults(facts, LIBRARY, target) == []) == fits


def test_an_unknown_platform_is_said() -> None:
    """With the names that there are."""
    with pytest.raises(WheelError, match="linux-x64, linux-arm64, windows-x64, macos-arm64, macos-x64"):
        wheels.target_named("amiga-m68k")


def kernels_fault(files: dict[str, bytes]) -> str:
    """What is wrong with the kernels of a wheel for Linux with these files beside the right sources."""
    return "\n".join(wheels.kernel_faults(KERNEL_SOURCES | files, build.TARGETS["linux-x64"]))


def test_a_wheel_for_cards_has_their_kernels() -> None:
    """Those of these sources, by the compiler whose kernels older drivers load, for every architecture, every module."""
    name = f"splat_engine/ops/_cuda/{prebuilt.ARCHIVE}"
    assert "no compiled CUDA kernels" in kernels_fault({})
    assert "damaged" in kernels_fault({name: b"no archive"})
    sources = source.fingerprint()
    stale = prebuilt.archive_bytes("0" * 32, (12, 8), {"sm_86": {}})
    assert "kernels.zip was built from other sources" in kernels_fault({name: stale})
    newer = prebuilt.archive_bytes(sources, (13, 5), {each: {} for each in prebuilt.ARCHITECTURES})
    assert "NVRTC (13, 5)'s, expected (12, 8)'s" in kernels_fault({name: newer})
    few = prebuilt.archive_bytes(sources, (12, 8), {"sm_86": {}})
    assert "kernels for sm_86 alone" in kernels_fault({name: few})
    assert "of the CUDA kernels for sm_86, there are" in kernels_fault({name: few})


def test_a_kernel_that_cannot_be_launched_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """More registers than a block may have, in a wheel that is right but for that."""
    fact = KernelFacts("a_f32", 255, 0, 0, 512, 8, 100)
    monkeypatch.setattr(wheels.kernel_module("cubin"), "kernel_facts", lambda data: [fact])
    cubins = {each: dict.fromkeys(source.module_names(), b"") for each in prebuilt.ARCHITECTURES}
    archive = prebuilt.archive_bytes(source.fingerprint(), (12, 8), cubins)
    name = f"splat_engine/ops/_cuda/{prebuilt.ARCHIVE}"
    assert "a_f32 on sm_75: registers of a block 131072" in kernels_fault({name: archive})
    fits = KernelFacts("a_f32", 128, 0, 0, 512, 8, 100)
    monkeypatch.setattr(wheels.kernel_module("cubin"), "kernel_facts", lambda data: [fits])
    assert kernels_fault({name: archive}) == ""
