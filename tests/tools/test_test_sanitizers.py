"""make test-sanitizers: what counts as a report and as a failure, and that its lists fit the checkout."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

PYTHONS_LEAK = """
=================================================================
==17037==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 48 byte(s) in 2 object(s) allocated from:
    #0 0x7ff3948b89cf in __interceptor_malloc ../../libsanitizer/asan/asan_malloc_linux.cpp:69
    #1 0x7ff394376c89 in PyFloat_FromDouble Objects/floatobject.c:149

SUMMARY: AddressSanitizer: 48 byte(s) leaked in 2 allocation(s).
"""
OUR_LEAK = PYTHONS_LEAK.replace(
    "SUMMARY",
    """Direct leak of 448 byte(s) in 1 object(s) allocated from:
    #0 0x7ff3948b89cf in operator new(unsigned long) ../../libsanitizer/asan/asan_new_delete.cpp:1
    #1 0x7ff394376c89 in splat::allocate(unsigned long) /work/main/csrc/cpu/abi.cpp:26

SUMMARY""",
)

UNSANITIZED = ("barriers", "device_discipline", "fit", "on_card", "out_of_memory")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/test_sanitizers as a module."""
    loader = SourceFileLoader("test_sanitizers_tool", str(ROOT / "tools" / "test_sanitizers"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # where dataclasses look for the names in annotations
    loader.exec_module(module)
    return module


def test_every_planted_bug_has_its_place(tool: ModuleType) -> None:
    """A changed source would make the self-check say so after minutes; here it says so at once."""
    for plant in tool.PLANTS:
        text = (ROOT / "csrc" / plant.source).read_text(encoding="utf-8")
        assert tool.with_bug(text, plant) != text
    for wrong in ("", "twice twice"):
        with pytest.raises(tool.SanitizerError, match="has no place in csrc/a.cpp"):
            tool.with_bug(wrong, tool.Plant("bug", "address", "a.cpp", "twice", "thrice", "report"))


def test_every_sanitizer_has_a_bug_to_find(tool: ModuleType) -> None:
    """A sanitizer without a planted bug would never be seen to fail."""
    assert {plant.sanitizer for plant in tool.PLANTS} == set(tool.SANITIZERS)


def test_no_file_of_native_tests_is_forgotten(tool: ModuleType) -> None:
    """All of tests/native runs but two files that call no kernel; every file listed exists."""
    native = {f"tests/native/{path.name}" for path in (ROOT / "tests" / "native").glob("test_*.py")}
    assert native - set(tool.NATIVE_TESTS) == {"tests/native/test_build.py", "tests/native/test_memory.py"}
    for test in (*tool.NATIVE_TESTS, *tool.OP_TESTS, *tool.LEFT_OUT):
        file, _, function = test.partition("::")
        assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8")


def test_no_file_of_emulated_tests_is_forgotten(tool: ModuleType) -> None:
    """All of tests/cuda runs that asks for the emulation, but whole fits, words, and what starts processes of its own."""
    files = (ROOT / "tests" / "cuda").glob("test_*.py")
    emulated = {f"tests/cuda/{path.name}" for path in files if "emulated" in path.read_text(encoding="utf-8")}
    others = {f"tests/cuda/test_{name}.py" for name in UNSANITIZED}
    assert set(tool.EMULATED_TESTS) == emulated - others and others <= emulated


def test_leaks_of_python_are_no_report(tool: ModuleType, tmp_path: Path) -> None:
    """Of leaks only those allocated in csrc count; every other report counts, from whatever process."""
    (tmp_path / "report.1").write_text(PYTHONS_LEAK)
    (tmp_path / "pytest.log").write_text("ERROR: AddressSanitizer in words of a test")
    assert tool.read_reports(tmp_path) == ()
    (tmp_path / "report.2").write_text(OUR_LEAK)
    (tmp_path / "report.3").write_text("WARNING: ThreadSanitizer: data race (pid=3)")
    leak, race = tool.read_reports(tmp_path)
    assert "448 byte(s)" in leak and "48 byte(s) in 2" not in leak
    assert "data race" in race


@pytest.mark.parametrize(
    ("test", "good", "passed"),
    [
        ("def test(): pass", True, 1),
        ("def test(): assert False", False, 0),
        ("import os\ndef test(): pass\ndef test_crash(): os._exit(0)", False, 0),
        ("import os\ndef test(): open(os.environ['REPORT'] + '.7', 'w').write('data race')", False, 1),
        ("import pytest\ndef test(): pytest.skip('x')", False, 0),
        ("", False, 0),
    ],
    ids=["good", "failed", "crash with exit code 0", "report alone", "all skipped", "no test"],
)
def test_what_fails_a_run(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, good: bool, passed: int
) -> None:
    """A failed test, a process that vanishes, a report although all tests passed, and a run without tests."""
    monkeypatch.setattr(tool, "BUILD", tmp_path)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "LEFT_OUT", ())
    monkeypatch.setattr(tool, "python_command", lambda sanitizer: [sys.executable])
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of the time
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(test)
    monkeypatch.setenv("REPORT", str(tmp_path / "reports" / "a_run" / "report"))
    outcome = tool.execute(tool.Run("a run", tool.SANITIZERS["thread"], tmp_path, "", ("test_it.py",)))
    assert (outcome.good, outcome.passed) == (good, passed), outcome.output
