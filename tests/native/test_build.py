"""The build: what is compiled, what is found out of date, and what is said when it cannot be done."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from splat_engine.native import build

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
