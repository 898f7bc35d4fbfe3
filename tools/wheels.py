"""Builds and checks the engine's wheels: one for each platform in splat_engine/native/build.py's TARGETS.

What tools/build_wheels, tools/build_extension and tools/test_wheels share. Standard library only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.cuda_resources import faults as resource_faults
from tools.cuda_resources import records_of
from tools.library_file import LibraryFacts, LibraryFileError, read_library

if TYPE_CHECKING:
    from splat_engine.native.build import Target

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
ENGINE = ROOT / ".venv" / "engine" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
ZIP_EPOCH = "315532800"
"""SOURCE_DATE_EPOCH of all wheels, 1980: the same sources give the same wheel."""

# What every system of a kind has; Windows 10 is the first with the C runtime that is named here.
SYSTEM_LIBRARIES = {
    "linux": ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-*.so.*"),
    "win32": ("kernel32.dll", "ntdll.dll", "api-ms-win-crt-*.dll"),
    "darwin": ("/usr/lib/libSystem.B.dylib",),
}
KERNELS = "splat_engine/ops/_cuda"
"""Folder of a wheel with the CUDA kernels."""
CUBIN_COMPILER = (12, 8)
"""The NVRTC of the compiled kernels: splat_engine/ops/_cuda/prebuild.py says why."""
LINKER_NAMES = frozenset({"__dso_handle", "_mh_dylib_header"})
"""Names of the file itself, which zig's linker for macOS exports from every library."""


class WheelError(Exception):
    """A wheel cannot be built, or is not what it should be, in words."""


def native_module(name: str) -> Any:
    """A module of splat_engine/native by its path, such as "build": the package itself needs numpy."""
    return _module(f"native/{name}.py")


def kernel_module(name: str) -> Any:
    """A module of splat_engine/ops/_cuda by its path, such as "prebuilt": the package itself needs torch."""
    return _module(f"ops/_cuda/{name}.py")


def _module(file: str) -> Any:
    known = "splat_" + file.removesuffix(".py").replace("/", "_")
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, ROOT / "splat_engine" / file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        spec.loader.exec_module(module)
    return sys.modules[known]


def target_named(name: str | None) -> Target:
    """The platform of a name, None for this machine's.

    Raises:
        WheelError: there is none of that name.
    """
    build = native_module("build")
    try:
        target: Target = build.target_named(name)
    except build.BuildError as error:
        raise WheelError(str(error)) from error
    return target


def build_wheel(target: Target, directory: Path) -> Path:
    """Compile and pack the engine's wheel for a platform, with the engine's own Python, or with this one.

    Raises:
        WheelError: pip or the compiler failed; their words went to stderr.
    """
    python = str(ENGINE if ENGINE.is_file() else sys.executable)
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory)]
    if subprocess.run([python, "-c", "import setuptools, wheel"], capture_output=True).returncode == 0:
        command.append("--no-build-isolation")  # needs no network
    environment = {
        **os.environ,
        native_module("build").TARGET_VARIABLE: target.name,
        "SOURCE_DATE_EPOCH": ZIP_EPOCH,
    }
    done = subprocess.run([*command, str(ROOT)], env=environment, stdout=sys.stderr)
    wheels = list(directory.glob("splat_engine-*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise WheelError(f"The wheel for {target.name} could not be built.")
    return wheels[0]


def check_wheel(wheel: Path, target: Target) -> LibraryFacts:
    """Look into a wheel: tags, its one library, its CUDA kernels, and that no path of this machine has got in.

    Returns:
        What the library says of itself.

    Raises:
        WheelError: anything is not as it should be; the text names it all.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    faults = [*_tag_faults(wheel, files, target), *_path_faults(files), *kernel_faults(files, target)]
    libraries = [name for name in files if re.search(r"\.(so|dll|dylib|pyd)(\.|$)", name)]
    expected = f"splat_engine/native/{native_module('build').library_file(None, target).name}"
    facts = None
    if libraries != [expected]:
        faults.append(f"expected one library, {expected}, and found {', '.join(libraries) or 'none'}")
    else:
        try:
            facts = read_library(files[expected])
        except LibraryFileError as error:
            faults.append(f"{expected}: {error}")
        else:
            faults += library_faults(facts, files[expected], target)
    if faults or facts is None:
        raise WheelError(f"{wheel.name} is not right:\n  " + "\n  ".join(faults))
    return facts


def kernel_faults(files: dict[str, bytes], target: Target) -> list[str]:
    """What is wrong with a wheel's CUDA kernels, in words: their sources, and what was compiled of them.

    Args:
        files: all files of the wheel.
        target: its platform; macOS has no CUDA and so no compiled kernels.
    """
    source, prebuilt = kernel_module("source"), kernel_module("prebuilt")
    faults, csrc = [], ROOT / "csrc"
    for file in source.source_files(csrc):
        name = f"{KERNELS}/{source.PACKAGED}/{file.as_posix()}"
        if files.get(name) != (csrc / file).read_bytes():
            faults.append(f"{name} is not csrc/{file.as_posix()}")
    archive = files.get(f"{KERNELS}/{prebuilt.ARCHIVE}")
    if target.system == "darwin":
        return [*faults, "it has CUDA kernels, which macOS cannot run"] if archive else faults
    if archive is None:
        return [*faults, "it has no compiled CUDA kernels: nvidia-cuda-nvrtc-cu12 and cuda-core make them"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / prebuilt.ARCHIVE
        path.write_bytes(archive)
        try:
            return faults + _archive_faults(prebuilt.open_archive(path, source.fingerprint(csrc)))
        except prebuilt.PrebuiltError as error:
            return [*faults, str(error).replace(str(path), prebuilt.ARCHIVE)]


def _archive_faults(archive: Any) -> list[str]:
    prebuilt, cubin, modules = (
        kernel_module("prebuilt"),
        kernel_module("cubin"),
        set(kernel_module("source").module_names()),
    )
    faults = []
    if archive.compiler != CUBIN_COMPILER:
        faults.append(
            f"its CUDA kernels are NVRTC {archive.compiler}'s, expected {CUBIN_COMPILER}'s: older drivers load those"
        )
    if archive.architectures != prebuilt.ARCHITECTURES:
        faults.append(f"it has CUDA kernels for {', '.join(archive.architectures)} alone")
    for architecture in archive.architectures:
        cubins = archive.modules(architecture)
        if cubins.keys() != modules:
            faults.append(f"of the CUDA kernels for {architecture}, there are {', '.join(cubins)}")
        for module, data in cubins.items():
            records = records_of(architecture, module, cubin.kernel_facts(data))
            faults += [f"its kernel {fault}" for fault in resource_faults(records)]
    return faults


def _tag_faults(wheel: Path, files: dict[str, bytes], target: Target) -> list[str]:
    expected = f"py3-none-{target.wheel_tag}"
    faults = []
    if not wheel.stem.endswith("-" + expected):
        faults.append(f"its name should end in {expected}")
    (metadata,) = [content.decode() for name, content in files.items() if name.endswith(".dist-info/WHEEL")]
    lines = metadata.splitlines()
    if [line for line in lines if line.startswith("Tag: ")] != [f"Tag: {expected}"]:
        faults.append(f"its WHEEL file should have the one tag {expected}")
    if "Root-Is-Purelib: false" not in lines:
        faults.append("its WHEEL file should say Root-Is-Purelib: false")
    return faults


def local_paths() -> list[str]:
    """Paths of this machine that a wheel must not hold: checkout, home, Python and compiler."""
    found = {str(ROOT), str(ROOT.resolve()), str(Path.home()), sys.prefix, sys.base_prefix, "site-packages"}
    return sorted(path if path == "site-packages" else path + os.sep for path in found - {"/", "/usr"})


def _path_faults(files: dict[str, bytes]) -> list[str]:
    return [
        f"{name} holds a path of this machine: {path}"
        for name, content in files.items()
        for path in local_paths()
        if path.encode() in content and (path != "site-packages" or not name.endswith(".py"))
    ]


def library_faults(facts: LibraryFacts, data: bytes, target: Target) -> list[str]:
    """What is wrong with a library, in words; empty if it is right for a platform and built from these sources."""
    build, structs = native_module("build"), native_module("structs")
    faults = []
    if (facts.system, facts.machine) != (target.system, target.machine):
        faults.append(
            f"the library is for {facts.system} on {facts.machine}, expected {target.system} on {target.machine}"
        )
        return faults
    foreign = sorted(name for name in facts.exports - LINKER_NAMES if not name.startswith("splat_"))
    if foreign:
        faults.append(f"the library exports {len(foreign)} names that are not ours, such as {foreign[0]}")
    wanted = {f"splat_{op}_{scalar}" for op in structs.OPS for scalar in structs.SCALARS}
    missing = sorted((wanted | {"splat_abi_version", "splat_isa"}) - facts.exports)
    if missing:
        faults.append(f"the library lacks {', '.join(missing)}")
    for name in sorted(facts.needs):
        if not any(fnmatch(name.lower(), pattern.lower()) for pattern in SYSTEM_LIBRARIES[target.system]):
            faults.append(f"the library needs {name}, which not every system has")
    if facts.own_name and not facts.own_name.endswith(build.library_file(None, target).name):
        faults.append(f"the library calls itself {facts.own_name}")
    if build.build_id().encode() not in data:
        faults.append("the library was built from other sources than csrc")
    return faults + _system_faults(facts, build)


def _system_faults(facts: LibraryFacts, build: Any) -> list[str]:
    promised = {"linux": build.LEAST_GLIBC, "darwin": build.LEAST_MACOS}.get(facts.system)
    faults = []
    if promised and facts.least_system > tuple(int(part) for part in promised.split(".")):
        least = ".".join(str(part) for part in facts.least_system)
        faults.append(f"the library needs {facts.system} {least}, its wheel promises {promised}")
    if (facts.system, facts.machine) == ("darwin", "aarch64") and not facts.signed:
        faults.append("the library has no valid signature, so Apple's processors refuse it")
    return faults
