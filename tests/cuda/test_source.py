"""The one text that NVRTC gets for a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from splat_engine.ops._cuda import source
from splat_engine.ops._cuda.source import SourceError, fingerprint, module_names, module_text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two modules that share a header."""
    files = {
        "include/deep.h": "#pragma once\n#if A\n#include <cstdint>\n#endif\nint deep;\n",
        "include/wide.h": '#pragma once\n#include "deep.h"\nint wide;\n',
        "cuda/own.h": '#include "../include/deep.h"\nint own;\n',
        "cuda/a.cu": '// head\n#include "own.h"\n#include "../include/wide.h"\nint a;\n',
        "cuda/b.cu": "int b;\n",
        "cuda/resources.json": "{}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_file_stands_once_with_its_lines(root: Path) -> None:
    """In the order of the includes; what NVRTC cannot read is left out; #line names file and line of all that follows."""
    expected = """
#line 1 "cuda/a.cu"
// head
#line 1 "cuda/own.h"
#line 1 "include/deep.h"

#if A

#endif
int deep;
#line 2 "cuda/own.h"
int own;
#line 3 "cuda/a.cu"
#line 1 "include/wide.h"

#line 3 "include/wide.h"
int wide;
#line 4 "cuda/a.cu"
int a;
"""
    assert module_text("a", root) == expected.lstrip()
    assert module_names(root) == ["a", "b"]


@pytest.mark.parametrize("file", ["include/deep.h", "include/wide.h", "cuda/own.h", "cuda/a.cu", "cuda/b.cu"])
def test_the_fingerprint_follows_each_file(root: Path, file: str) -> None:
    """A change of any of them changes it; a new module, too; nothing else does."""
    before = fingerprint(root)
    (root / "cuda" / "notes.md").write_text("x")
    assert fingerprint(root) == before
    (root / file).write_text((root / file).read_text() + "int more;\n")
    changed = fingerprint(root)
    (root / "cuda" / "c.cu").write_text("int c;\n")
    assert len({before, changed, fingerprint(root)}) == 3


def test_what_one_text_cannot_follow_is_refused(root: Path) -> None:
    """An include inside #if, and a file that is not there, each with its place."""
    (root / "cuda/b.cu").write_text('#if A\n#include "own.h"\n#endif\n')
    with pytest.raises(SourceError, match=r"cuda/b\.cu:2 includes own\.h inside #if"):
        module_text("b", root)
    (root / "cuda/b.cu").write_text('#include "gone.h"\n')
    with pytest.raises(SourceError, match=r"gone\.h cannot be read"):
        module_text("b", root)


def test_a_wheels_sources_come_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the module if they are there, else in the checkout, else that is said."""
    package = root / "splat_engine" / "ops" / "_cuda"
    package.mkdir(parents=True)
    monkeypatch.setattr(source, "__file__", str(package / "source.py"))
    with pytest.raises(SourceError, match="neither in"):
        source.source_root()
    (root / "csrc" / "cuda").mkdir(parents=True)
    assert source.source_root() == root / "csrc"
    (package / "sources" / "cuda").mkdir(parents=True)
    assert source.source_root() == package / "sources"
