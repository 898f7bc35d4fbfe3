"""Compiles csrc/cpu into the shared library beside this file: ``python -m splat_engine.native.build``.

Only what changed is compiled again. Every ``*_kernel.cpp`` is compiled once for each instruction set of the
architecture (x86-64-v2, v3, v4; one baseline elsewhere), every other ``.cpp`` once for the oldest CPU; the library picks
at run time. The compiler is, in this order: the command in the environment variable CXX; clang as it comes with the
Python package ziglang (1.3 to 1.7 times faster code than g++ 12); c++, g++ or clang++ on the PATH. zig also builds for
every other platform in TARGETS (``--target windows-x64``).

Standard library only, and no import of the package: setup.py runs this file in an environment without numpy.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

# -ffp-contract: fused multiply-add where the CPU has it; the others let the compiler vectorise and select without
# changing any value. No -ffast-math: NaN and Inf must be seen to be dropped.
FLAGS = (
    "-std=c++17 -O3 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ffp-contract=fast -fno-math-errno "
    "-fno-trapping-math -fno-signed-zeros -Wall -Wextra -Wno-psabi -pthread"
).split()
KERNEL_FLAGS = "-fno-exceptions -fno-rtti".split()
HIDDEN_NEW_FLAGS = "-DSPLAT_HIDDEN_NEW -fvisibility-global-new-delete=force-hidden".split()
"""For macOS by zig alone; csrc/cpu/hidden_new.cpp says why."""
OBJECT_VERSION = "1"
"""Part of every fingerprint; raise it when the way of building changes."""
LEAST_GLIBC = "2.17"
"""The glibc that zig links against on Linux: the library then runs on every distribution since 2014 (manylinux2014)."""
LEAST_MACOS = "11.0"
"""The macOS that zig links against: the first for Apple's own processors."""
TARGET_VARIABLE = "SPLAT_TARGET"
"""Environment variable: the platform that setup.py packs a wheel for, a name in TARGETS; default this machine's."""


class Target(NamedTuple):
    """A platform that the library is built for.

    Attributes:
        system: as in sys.platform: "linux", "win32" or "darwin".
        machine: "x86_64" or "aarch64".
    """

    system: str
    machine: str

    @property
    def name(self) -> str:
        """Blender's name of the platform, such as "macos-arm64"."""
        system = {"win32": "windows", "darwin": "macos"}.get(self.system, self.system)
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(self.machine, self.machine)
        return f"{system}-{machine}"

    @property
    def zig(self) -> str:
        """zig's name of the platform, with the oldest system that the library shall run on."""
        systems = {
            "linux": f"linux-gnu.{LEAST_GLIBC}",
            "darwin": f"macos.{LEAST_MACOS}",
            "win32": "windows-gnu",
        }
        return f"{self.machine}-{systems[self.system]}"

    @property
    def wheel_tag(self) -> str:
        """Platform tag of a wheel with the library as zig builds it."""
        arm = self.machine == "aarch64"
        return {
            "linux": f"manylinux_{LEAST_GLIBC.replace('.', '_')}_{self.machine}",
            "darwin": f"macosx_{LEAST_MACOS.replace('.', '_')}_{'arm64' if arm else self.machine}",
            "win32": "win_arm64" if arm else "win_amd64",
        }[self.system]


TARGETS = {
    target.name: target
    for target in (
        Target("linux", "x86_64"),
        Target("linux", "aarch64"),
        Target("win32", "x86_64"),
        Target("darwin", "aarch64"),
        Target("darwin", "x86_64"),
    )
}
"""Every platform that there are wheels for, by name."""


class InstructionSet(NamedTuple):
    """One compilation of the kernels: its C++ namespace, flags for gcc/clang, and zig's name of the CPU."""

    namespace: str
    flags: tuple[str, ...]
    zig_cpu: str


class Compiler(NamedTuple):
    """The command that compiles and links, and whether it is zig."""

    command: tuple[str, ...]
    is_zig: bool


class BuildError(Exception):
    """A compiler is missing or refused a file; the text has its message."""


def package_directory() -> Path:
    """Where the library lies: the directory of this file."""
    return Path(__file__).resolve().parent


def source_root() -> Path:
    """The csrc directory of the checkout that this package lies in (absent in an installed wheel)."""
    return package_directory().parent.parent / "csrc"


def library_file(directory: Path | None = None, target: Target | None = None) -> Path:
    """Path of the library for a platform, default this one."""
    system = (target or this_target()).system
    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(system, ".so")
    prefix = "" if system == "win32" else "lib"
    return (directory or package_directory()) / f"{prefix}splat_cpu{suffix}"


def machine() -> str:
    """Architecture in one spelling: "x86_64", "aarch64", or what the platform says."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def this_target() -> Target:
    """The platform that this Python runs on."""
    return Target(sys.platform, machine())


def target_named(name: str | None) -> Target:
    """The platform of a name in TARGETS; None or an empty name means this one.

    Raises:
        BuildError: there is none of that name.
    """
    here = this_target()
    if not name or name == here.name:
        return here
    if name not in TARGETS:
        raise BuildError(f"There is no platform {name!r}; choose one of {', '.join(TARGETS)}.")
    return TARGETS[name]


def instruction_sets(target: Target | None = None) -> list[InstructionSet]:
    """The compilations of the kernels for a platform (default this one), oldest CPU first."""
    if (target or this_target()).machine != "x86_64":
        return [InstructionSet("isa_base", (), "")]
    levels = {"isa_v2": "v2", "isa_v3": "v3", "isa_v4": "v4"}
    extra = {"v4": ("-mprefer-vector-width=512",)}
    return [
        InstructionSet(space, (f"-march=x86-64-{level}", *extra.get(level, ())), f"x86_64_{level}")
        for space, level in levels.items()
    ]


def find_compiler() -> Compiler:
    """The compiler to use.

    Raises:
        BuildError: there is none.
    """
    chosen = os.environ.get("CXX")
    if chosen:
        command = tuple(shlex.split(chosen))
        return Compiler(command, "zig" in Path(command[0]).name or "ziglang" in command)
    if importlib.util.find_spec("ziglang") is not None:
        return Compiler((sys.executable, "-m", "ziglang", "c++"), True)
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path:
            return Compiler((path,), False)
    raise BuildError("No C++ compiler: set CXX, or `pip install ziglang`, or install g++ or clang++.")


def check_compiler(compiler: Compiler, target: Target) -> None:
    """Refuse a compiler that cannot build for a platform.

    Raises:
        BuildError: the platform is not this one, and the compiler is not zig.
    """
    if target != this_target() and not compiler.is_zig:
        raise BuildError(
            f"{' '.join(compiler.command)} builds for this machine alone. To build for {target.name}, unset CXX "
            "and `pip install ziglang`."
        )


def wheel_platform(compiler: Compiler | None = None, target: Target | None = None) -> str:
    """Platform tag of a wheel that carries the library built here for a platform, default this one.

    zig links against an old system, so that the wheel is a manylinux one on Linux; other compilers link against this
    machine's.

    Raises:
        BuildError: this compiler cannot build for that platform.
    """
    compiler, target = compiler or find_compiler(), target or this_target()
    check_compiler(compiler, target)
    if compiler.is_zig:
        return target.wheel_tag
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def sources(root: Path | None = None) -> list[Path]:
    """All translation units, sorted."""
    return sorted(((root or source_root()) / "cpu").glob("*.cpp"))


def headers(root: Path | None = None) -> list[Path]:
    """All headers that any translation unit may include, sorted."""
    root = root or source_root()
    return sorted([*(root / "cpu").glob("*.h"), *(root / "include").glob("*.h")])


def build_id(root: Path | None = None) -> str:
    """Fingerprint of the sources: what a library built from them answers to splat_build_id()."""
    root = root or source_root()
    digest = hashlib.sha256(OBJECT_VERSION.encode())
    for path in [*sources(root), *headers(root)]:
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:16]


def object_directory(compiler: Compiler, extra: list[str], target: Target | None = None) -> Path:
    """Where the checkout keeps intermediate files: one directory a platform, compiler and set of further flags."""
    digest = hashlib.sha256(" ".join([*compiler.command, *extra]).encode()).hexdigest()[:8]
    return source_root().parent / "build" / "native" / f"{(target or this_target()).name}-{digest}"


class Unit(NamedTuple):
    """One compilation: a source, an instruction set or None, and the object it makes."""

    source: Path
    command: tuple[str, ...]
    object: Path
    stamp: str


def _command(
    compiler: Compiler, instruction_set: InstructionSet | None, extra: list[str], target: Target
) -> list[str]:
    flags = [*compiler.command, *FLAGS, *extra]
    if target.system == "win32" and "-fPIC" in flags:
        flags.remove("-fPIC")
    if compiler.is_zig:
        # zig's default checks trap on undefined behaviour at a cost; the sanitizer builds of the tests do that job.
        flags += ["-target", target.zig, "-fno-sanitize=undefined"]
        if target.system == "darwin":
            flags += HIDDEN_NEW_FLAGS
        if target.machine == "x86_64":
            flags.append(f"-mcpu={instruction_set.zig_cpu if instruction_set else 'x86_64'}")
        # clang would split 64-byte vectors of its own making, never ours
        if instruction_set and instruction_set.namespace == "isa_v4":
            flags.append("-mprefer-vector-width=512")
    elif instruction_set:
        flags += instruction_set.flags
    if instruction_set:
        flags += [*KERNEL_FLAGS, f"-DSPLAT_ISA={instruction_set.namespace}"]
    return flags


def plan(
    compiler: Compiler, objects: Path, extra: list[str], root: Path, target: Target | None = None
) -> list[Unit]:
    """The compilations that a library for a platform (default this one) consists of."""
    target = target or this_target()
    shared = hashlib.sha256(b"".join(path.read_bytes() for path in headers(root))).hexdigest()
    identity = f'-DSPLAT_BUILD_ID="{build_id(root)}"'
    units = []
    for source in sources(root):
        kernel = source.name.endswith("_kernel.cpp")
        for instruction_set in instruction_sets(target) if kernel else [None]:
            command = _command(compiler, instruction_set, extra, target)
            if source.name == "dispatch.cpp":
                command.append(identity)
            stamp = hashlib.sha256(
                "\0".join([OBJECT_VERSION, *command, shared]).encode() + source.read_bytes()
            )
            name = f"{source.stem}.{instruction_set.namespace if instruction_set else 'base'}.o"
            units.append(Unit(source, tuple(command), objects / name, stamp.hexdigest()))
    return units


def _run(command: list[str], what: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildError(f"{what} failed:\n{' '.join(command)}\n{result.stdout}{result.stderr}")
    if result.stderr.strip():
        logger.warning("%s: %s", what, result.stderr.strip())


def _compile(unit: Unit) -> bool:
    """Compile one unit unless its object is up to date; True if it was compiled."""
    stamp_file = unit.object.with_suffix(".stamp")
    if unit.object.is_file() and stamp_file.is_file() and stamp_file.read_text() == unit.stamp:
        return False
    stamp_file.unlink(missing_ok=True)
    _run([*unit.command, "-c", str(unit.source), "-o", str(unit.object)], f"compiling {unit.object.name}")
    stamp_file.write_text(unit.stamp)
    return True


def _link_flags(compiler: Compiler, target: Target, objects: Path) -> list[str]:
    """Flags that link a library which shows our entry points alone, and knows no path of this machine."""
    flags = ["-shared", "-pthread"]
    if compiler.is_zig:
        flags += ["-target", target.zig, "-s"]
    # Only our entry points are visible: the C++ library that zig links in must not meet Blender's or torch's.
    # On Windows __declspec(dllexport) alone sees to that.
    if target.system == "linux":
        script = objects / "exports.map"
        script.write_text("{ global: splat_*; local: *; };\n")
        flags.append(f"-Wl,--version-script={script}")
    elif target.system == "win32" and compiler.is_zig:
        flags.append("-Wl,/Brepro")  # a fingerprint in place of the date: the same sources give the same file
    elif target.system == "darwin":
        flags.append(f"-Wl,-install_name,@rpath/{library_file(objects, target).name}")
    return flags


def _link(command: list[str], units: list[Unit], library: Path, objects: Path, target: Target) -> None:
    # Under its own name, since Windows and macOS write it into the file, and where what else the linker makes
    # (import library, debug database) goes away.
    with tempfile.TemporaryDirectory(dir=objects) as directory:
        linked = library_file(Path(directory), target)
        _run([*command, *(str(unit.object) for unit in units), "-o", str(linked)], f"linking {library.name}")
        fresh = library.with_name(f"{library.name}.{os.getpid()}.new")
        shutil.copyfile(linked, fresh)
    os.replace(fresh, library)  # a running process keeps the library that it has loaded


def build(
    library: Path | None = None,
    objects: Path | None = None,
    root: Path | None = None,
    extra: list[str] | None = None,
    target: Target | None = None,
) -> Path:
    """Compile what changed and link the library.

    Args:
        library: where it shall lie; default beside this file, and among the intermediate files if it is for another
            platform than this one.
        objects: directory of the intermediate files; default one in build/native (see object_directory).
        root: the csrc directory.
        extra: further compiler flags (sanitizers); give another library and objects directory with them.
        target: the platform; default this one.

    Returns:
        The path of the library.

    Raises:
        BuildError: no compiler that can build for the platform, no sources, or the compiler refused a file.
    """
    root, target = root or source_root(), target or this_target()
    if not sources(root):
        raise BuildError(f"No sources in {root / 'cpu'}: build from a checkout or a source distribution.")
    compiler = find_compiler()
    check_compiler(compiler, target)
    extra = extra or []
    objects = objects or object_directory(compiler, extra, target)
    library = library or library_file(None if target == this_target() else objects, target)
    objects.mkdir(parents=True, exist_ok=True)
    library.parent.mkdir(parents=True, exist_ok=True)
    units = plan(compiler, objects, extra, root, target)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        compiled = list(pool.map(_compile, units))
    flags = [*extra, *_link_flags(compiler, target, objects)]
    if any(compiled) or not library.is_file() or not _linked_from(objects, library, units, flags):
        _link([*compiler.command, *flags], units, library, objects, target)
        _link_stamp(objects).write_text(_link_text(library, units, flags))
    logger.info("%s: %d of %d units compiled", library, sum(compiled), len(units))
    return library


def _link_stamp(objects: Path) -> Path:
    return objects / "library.stamp"


def _link_text(library: Path, units: list[Unit], flags: list[str]) -> str:
    return "\n".join([str(library), str(library.stat().st_mtime_ns), *flags, *(unit.stamp for unit in units)])


def _linked_from(objects: Path, library: Path, units: list[Unit], flags: list[str]) -> bool:
    stamp = _link_stamp(objects)
    return stamp.is_file() and stamp.read_text() == _link_text(library, units, flags)


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m splat_engine.native.build", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--target", metavar="NAME", help=f"platform: {', '.join(TARGETS)}; default this one")
    parser.add_argument("--library", type=Path, help="where the library shall lie")
    parser.add_argument("--objects", type=Path, help="directory for intermediate files")
    parser.add_argument("--flag", action="append", default=[], help="a further compiler flag, e.g. --flag=-g")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        build(options.library, options.objects, extra=options.flag, target=target_named(options.target))
    except BuildError as error:
        logger.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
