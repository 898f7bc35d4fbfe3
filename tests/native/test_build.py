"""The build: what is compiled, what is found out of date, and what is said when it cannot be done."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from splat_engine.native import build
from splat_engine.native.build import TARGETS, Target

needs_sources = pytest.mark.skipif(not build.source_root().is_dir(), reason="needs a checkout: csrc")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of csrc that a test may change."""
    return Path(shutil.copytree(build.source_root(), tmp_path / "csrc"))


@needs_sources
def test_the_fingerprint_follows_every_source(sources: Path) -> None:
    """Any changed byte in any source or header changes the build id; a line ending of Windows does not."""
    before = build.build_id(sources)
    assert before == build.build_id()
    for path in [build.sources(sources)[0], build.headers(sources)[-1]]:
        original = path.read_bytes()
        path.write_bytes(original + b"// a change\n")
        assert build.build_id(sources) != before
        path.write_bytes(original.replace(b"\n", b"\r\n"))
        assert build.build_id(sources) == before
        path.write_bytes(original)


@needs_sources
def test_kernels_are_compiled_once_for_each_instruction_set(tmp_path: Path) -> None:
    """Every *_kernel.cpp has one unit an instruction set, other sources one; no two units share an object."""
    units = build.plan(build.find_compiler(), tmp_path, [], build.source_root())
    levels = len(build.instruction_sets())
    for source in build.sources():
        expected = levels if source.name.endswith("_kernel.cpp") else 1
        assert sum(unit.source == source for unit in units) == expected, source.name
    assert len({unit.object for unit in units}) == len(units)
    assert not any(
        "march=native" in " ".join(unit.command) or "fast-math" in " ".join(unit.command) for unit in units
    )


ZIG = build.Compiler(("python3", "-m", "ziglang", "c++"), True)
GCC = build.Compiler(("g++",), False)


@pytest.mark.parametrize(
    ("name", "zig", "tag", "library"),
    [
        ("linux-x64", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", "libsplat_cpu.so"),
        ("linux-arm64", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64", "libsplat_cpu.so"),
        ("windows-x64", "x86_64-windows-gnu", "win_amd64", "splat_cpu.dll"),
        ("macos-arm64", "aarch64-macos.11.0", "macosx_11_0_arm64", "libsplat_cpu.dylib"),
        ("macos-x64", "x86_64-macos.11.0", "macosx_11_0_x86_64", "libsplat_cpu.dylib"),
    ],
)
def test_what_a_platform_is_called(name: str, zig: str, tag: str, library: str, tmp_path: Path) -> None:
    """By Blender, by zig, by pip and by its loader; the wheel's tag and what zig links against agree."""
    target = TARGETS[name]
    assert (target.name, target.zig, target.wheel_tag) == (name, zig, tag)
    assert build.library_file(tmp_path, target) == tmp_path / library
    assert build.wheel_platform(ZIG, target) == tag
    assert build.target_named(name) == target


def test_this_platform_is_the_default() -> None:
    """No name means this one, whether it is in the table or not."""
    here = build.this_target()
    assert build.target_named(None) == build.target_named("") == build.target_named(here.name) == here
    assert here.system == sys.platform
    assert build.library_file() == build.library_file(None, here)
    assert build.instruction_sets() == build.instruction_sets(here)


def test_an_unknown_platform_is_refused() -> None:
    """With the names that there are."""
    with pytest.raises(build.BuildError, match="amiga-m68k.*linux-x64, linux-arm64, windows-x64"):
        build.target_named("amiga-m68k")


@needs_sources
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_the_commands_of_a_platform(tmp_path: Path, target: Target) -> None:
    """The platform decides, not this machine: its name, three levels on x64 and one on arm64, PIC where there is any."""
    units = build.plan(ZIG, tmp_path, [], build.source_root(), target)
    spaces = {unit.object.name.split(".")[1] for unit in units}
    arm = target.machine == "aarch64"
    assert spaces == {"base", *(["isa_base"] if arm else ["isa_v2", "isa_v3", "isa_v4"])}
    for unit in units:
        command = unit.command
        assert command[command.index("-target") + 1] == target.zig
        assert ("-fPIC" in command) == (target.system != "win32")
        assert ("-DSPLAT_HIDDEN_NEW" in command) == (target.system == "darwin")
        assert any(word.startswith("-mcpu=x86_64") for word in command) != arm


def test_platforms_share_no_objects() -> None:
    """Each platform, compiler and set of flags has a directory of its own, which a later build finds again."""
    directories = [build.object_directory(ZIG, [], target) for target in TARGETS.values()]
    directories += [build.object_directory(GCC, []), build.object_directory(ZIG, ["-g"])]
    assert len(set(directories)) == len(directories)
    assert build.object_directory(ZIG, []) == build.object_directory(ZIG, [], build.this_target())


def another_target() -> Target:
    """A platform that this one is not."""
    return next(target for target in TARGETS.values() if target.system not in ("linux", sys.platform))


@needs_sources
def test_only_zig_builds_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another compiler builds for this machine, and is refused in words for any other: library and tag."""
    monkeypatch.setenv("CXX", "g++")
    other = another_target()
    build.check_compiler(GCC, build.this_target())
    with pytest.raises(build.BuildError, match=f"g.. builds for this machine alone.*{other.name}.*ziglang"):
        build.build(tmp_path / "library", tmp_path / "objects", target=other)
    with pytest.raises(build.BuildError, match="this machine alone"):
        build.wheel_platform(GCC, other)
    assert not (tmp_path / "objects").exists()


def test_the_tag_of_another_compiler_is_this_systems() -> None:
    """g++ links against what this machine has, so its wheel promises no more."""
    assert build.wheel_platform(GCC) == sysconfig.get_platform().replace("-", "_").replace(".", "_")


@pytest.fixture
def recorded_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets CXX to a program that only writes its output and a line of a log; the real one would build a C++ library.

    Returns:
        The log: the name of each output.
    """
    program, log = tmp_path / "compiler.py", tmp_path / "compiler.log"
    program.write_text(
        "import sys, pathlib\n"
        "out = pathlib.Path(sys.argv[sys.argv.index('-o') + 1])\n"
        "out.write_bytes(b'object')\n"
        f"open({str(log)!r}, 'a').write(out.name + '\\n')\n"
    )
    monkeypatch.setenv("CXX", shlex.join([sys.executable, str(program)]))
    return log


def test_only_what_changed_is_compiled_again(tmp_path: Path, recorded_compiler: Path) -> None:
    """A second build runs no compiler; a changed source compiles that one, and what holds the fingerprint."""
    cpu, library = tmp_path / "csrc" / "cpu", build.library_file(tmp_path)
    cpu.mkdir(parents=True)
    for name in ("a.cpp", "dispatch.cpp", "b_kernel.cpp", "b.h"):
        (cpu / name).write_text("int first;\n")

    def outputs() -> list[str]:
        recorded_compiler.write_text("")
        build.build(library, tmp_path / "objects", tmp_path / "csrc")
        # what is linked first gets a name of its own, so that a library in use is never half written
        return sorted(
            name for name in recorded_compiler.read_text().split() if not name.startswith(library.name)
        )

    kernels = [f"b_kernel.{entry.namespace}.o" for entry in build.instruction_sets()]
    assert outputs() == ["a.base.o", *kernels, "dispatch.base.o"]
    assert library.is_file()
    assert outputs() == [] and recorded_compiler.read_text() == ""
    (cpu / "a.cpp").write_text("int second;\n")
    assert outputs() == ["a.base.o", "dispatch.base.o"]
    (cpu / "b.h").write_text("int second;\n")
    assert outputs() == ["a.base.o", *kernels, "dispatch.base.o"]
    library.unlink()
    assert outputs() == [] and library.is_file()


def test_another_platforms_library_stays_with_its_objects(
    tmp_path: Path, recorded_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built without a place of its own, it does not lie where this machine's is loaded from."""
    cpu, objects, other = tmp_path / "csrc" / "cpu", tmp_path / "objects", another_target()
    cpu.mkdir(parents=True)
    (cpu / "a.cpp").write_text("int first;\n")
    monkeypatch.setenv("CXX", os.environ["CXX"] + " ziglang")  # passes for zig
    library = build.build(None, objects, tmp_path / "csrc", target=other)
    assert library == build.library_file(objects, other) and library.is_file()
    assert recorded_compiler.read_text().split() == ["a.base.o", library.name]
    assert [path.name for path in objects.iterdir() if path.is_dir()] == []


def test_it_is_linked_again_for_other_flags(
    tmp_path: Path, recorded_compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag that concerns the link alone compiles nothing, and still makes a new library."""
    cpu, library = tmp_path / "csrc" / "cpu", build.library_file(tmp_path)
    cpu.mkdir(parents=True)
    (cpu / "a.cpp").write_text("int first;\n")
    for flag, expected in (("-s", ["a.base.o", library.name]), ("-s", []), ("-g", [library.name])):
        monkeypatch.setattr(build, "_link_flags", lambda *_, flag=flag: ["-shared", flag])
        recorded_compiler.write_text("")
        build.build(library, tmp_path / "objects", tmp_path / "csrc")
        assert recorded_compiler.read_text().split() == expected


@needs_sources
def test_a_source_that_does_not_compile(tmp_path: Path) -> None:
    """The compiler's message is in the error, and no library is left."""
    root = tmp_path / "csrc" / "cpu"
    root.mkdir(parents=True)
    (root / "a.cpp").write_text("int a() { return undeclared_name; }\n")
    with pytest.raises(build.BuildError, match="undeclared_name"):
        build.build(build.library_file(tmp_path), tmp_path / "objects", tmp_path / "csrc")
    assert not build.library_file(tmp_path).exists()


def test_no_sources(tmp_path: Path) -> None:
    """An installed wheel has no csrc: the error says where sources are needed."""
    with pytest.raises(build.BuildError, match="build from a checkout"):
        build.build(build.library_file(tmp_path), tmp_path / "objects", tmp_path / "csrc")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any compiler the error names the ways to get one."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(build.BuildError, match="pip install ziglang"):
        build.find_compiler()


def test_cxx_has_the_first_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """CXX, with arguments, comes before zig and the compilers on the PATH."""
    monkeypatch.setenv("CXX", "ccache clang++ -stdlib=libc++")
    assert build.find_compiler() == build.Compiler(("ccache", "clang++", "-stdlib=libc++"), False)
    monkeypatch.setenv("CXX", "python3 -m ziglang c++")
    assert build.find_compiler().is_zig


def test_the_build_runs_without_the_package() -> None:
    """setup.py runs build.py by its path, where numpy is missing: it imports the standard library alone."""
    path = build.package_directory() / "build.py"
    code = f"import runpy; runpy.run_path({str(path)!r}, run_name='not main')"
    result = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
