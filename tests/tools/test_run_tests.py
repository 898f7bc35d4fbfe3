"""make test: what it counts, and that a failure or a crash anywhere fails the whole."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import run_tests
from tools.run_tests import SUITES, Counts, Suite, read_counts

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert False\n"
SKIPPED = "import pytest\n@pytest.mark.skip(reason='x')\ndef test_skipped(): pass\n"
ERROR = "import no_such_module\n"
CRASH = GOOD + "def test_crash():\n    import os\n    os._exit(0)\n"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own with two suites, run by this Python."""
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    monkeypatch.setattr(run_tests, "REPORTS", tmp_path / "reports")
    monkeypatch.setattr(Suite, "python", Path(sys.executable))
    monkeypatch.setattr(
        run_tests, "SUITES", {n: Suite("engine", (f"{n}_test.py", "absent")) for n in ("one", "two")}
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of the time
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = *_test.py\n")
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second", "code", "closing"),
    [
        (GOOD + SKIPPED, GOOD, 0, "2 passed, 0 failed, 1 skipped"),
        (GOOD + BAD, GOOD, 1, "2 passed, 1 failed, 0 skipped"),
        (ERROR, GOOD, 1, "1 passed, 1 failed, 0 skipped"),
        (CRASH, GOOD, 1, "1 passed, 1 failed, 0 skipped"),
        ("", GOOD, 1, "1 passed, 1 failed, 0 skipped"),
        (SKIPPED, SKIPPED, 1, "0 passed, 0 failed, 2 skipped"),
    ],
    ids=["good", "failed", "import error", "crash", "no test", "all skipped"],
)
def test_all_suites_run_and_are_summed(
    house: Path, capsys: pytest.CaptureFixture[str], first: str, second: str, code: int, closing: str
) -> None:
    """A failed assertion, an import error, a process that vanishes with exit code 0, a suite without tests."""
    (house / "one_test.py").write_text(first)
    (house / "two_test.py").write_text(second)
    assert run_tests.main([]) == code
    assert capsys.readouterr().out.splitlines()[-1] == closing


def test_a_part_can_be_chosen(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By suite and by pytest's own options; a suite that a choice leaves empty is no failure."""
    (house / "one_test.py").write_text(GOOD + BAD)
    (house / "two_test.py").write_text(BAD)
    assert run_tests.main(["one", "-k", "good"]) == 0
    assert run_tests.main(["-k", "good"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    assert run_tests.main(["three"]) == 2


def test_a_report_that_is_not_whole_is_none(tmp_path: Path) -> None:
    """A process that was killed leaves no report, or half of one."""
    assert read_counts(tmp_path / "none.xml") is None
    (tmp_path / "half.xml").write_text("<testsuites><testsuite tests=")
    assert read_counts(tmp_path / "half.xml") is None
    (tmp_path / "whole.xml").write_text(
        '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/></testsuites>'
    )
    assert read_counts(tmp_path / "whole.xml") == Counts(2, 2, 1)


def test_every_test_folder_belongs_to_a_suite() -> None:
    """A new folder of tests must not be forgotten."""
    root = Path(__file__).resolve().parents[2]
    run = {path for suite in SUITES.values() for path in suite.paths}
    found = {f"tests/{p.parent.name}" for p in (root / "tests").glob("*/test_*.py")}
    found |= {f"tests/{p.name}" for p in (root / "tests").glob("test_*.py")}
    assert found <= run
