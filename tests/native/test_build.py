"""The build: what is compiled, what is found out of date, and what is said when it cannot be done."""

from __future__ import annotations

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


@needs_sources
def test_only_what_changed_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second build compiles nothing; a changed source compiles that one, and what holds the fingerprint."""
    root = tmp_path / "csrc" / "cpu"
    root.mkdir(parents=True)
    (root / "a.cpp").write_text('extern "C" int splat_a() { return 1; }\n')
    (root / "dispatch.cpp").write_text('extern "C" const char* splat_build_id() { return SPLAT_BUILD_ID; }\n')
    (root / "b_kernel.cpp").write_text("namespace SPLAT_ISA { int b() { return 2; } }\n")
    compiled: list[str] = []
    compile_unit = build._compile

    def counted(unit: build.Unit) -> bool:
        done = compile_unit(unit)
        if done:
            compiled.append(unit.object.name)
        return done

    monkeypatch.setattr(build, "_compile", counted)

    def make() -> list[str]:
        compiled.clear()
        build.build(build.library_file(tmp_path), tmp_path / "objects", tmp_path / "csrc")
        return sorted(compiled)

    assert len(make()) == 2 + len(build.instruction_sets())
    assert make() == []
    (root / "a.cpp").write_text('extern "C" int splat_a() { return 3; }\n')
    assert make() == ["a.base.o", "dispatch.base.o"]


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
