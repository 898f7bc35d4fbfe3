"""The kernels' sources as one text a module, which is what NVRTC gets: it has no files to include from.

They lie in csrc of a checkout, and in a wheel as package data (``sources`` beside this file; setup.py puts them there). Each
``csrc/cuda/NAME.cu`` is a module. Standard library only: setup.py uses this file in an environment without torch.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

PACKAGED = "sources"
"""Folder beside this file that a wheel has csrc/include and csrc/cuda in."""

_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
_DROPPED = re.compile(r"\s*#\s*(pragma\s+once|include\s*<)")
_OPENS = re.compile(r"\s*#\s*if")
_CLOSES = re.compile(r"\s*#\s*endif")


class SourceError(Exception):
    """The sources are not there, or cannot be made into one text."""


def source_root() -> Path:
    """The folder that holds ``include`` and ``cuda``.

    Raises:
        SourceError: neither a wheel's nor a checkout's is there.
    """
    here = Path(__file__).resolve().parent
    for root in (here / PACKAGED, here.parents[2] / "csrc"):
        if (root / "cuda").is_dir():
            return root
    raise SourceError(
        f"The kernels' sources are neither in {here / PACKAGED} nor in {here.parents[2] / 'csrc'}."
    )


def source_files(root: Path) -> list[Path]:
    """All files that kernels are made of, relative to the root, in a fixed order."""
    found = [
        path
        for folder in ("cuda", "include")
        for path in (root / folder).iterdir()
        if path.suffix in (".cu", ".h")
    ]
    return sorted(path.relative_to(root) for path in found)


def module_names(root: Path | None = None) -> list[str]:
    """Names of all modules: one a .cu file."""
    return sorted(path.stem for path in ((root or source_root()) / "cuda").glob("*.cu"))


def module_text(module: str, root: Path | None = None) -> str:
    """One module as a single text.

    Every included file stands once, where it is first named; ``#pragma once`` and ``#include <...>`` are left out, and
    ``#line`` keeps the compiler's messages at the files' own lines.

    Args:
        module: a name of ``module_names``.
        root: the folder of the sources; default ``source_root()``.

    Raises:
        SourceError: a file is missing, or includes another one inside #if, which a single text cannot follow.
    """
    root = (root or source_root()).resolve()
    return "\n".join(_inlined(root / "cuda" / f"{module}.cu", root, set())) + "\n"


def _inlined(path: Path, root: Path, seen: set[Path]) -> list[str]:
    seen.add(path)
    name = path.relative_to(root).as_posix()
    lines, depth = [f'#line 1 "{name}"'], 0
    for number, line in enumerate(_read(path).splitlines(), 1):
        depth += bool(_OPENS.match(line)) - bool(_CLOSES.match(line))
        include = _INCLUDE.match(line)
        if include is None:
            lines.append("" if _DROPPED.match(line) else line)
            continue
        if depth > 0:
            raise SourceError(f"{name}:{number} includes {include[1]} inside #if.")
        included = (path.parent / include[1]).resolve()
        if included not in seen:
            lines += _inlined(included, root, seen)
        lines.append(f'#line {number + 1} "{name}"')
    return lines


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(f"The source {path} cannot be read: {error.strerror}.") from error


def fingerprint(root: Path | None = None) -> str:
    """A number, as hexadecimal text, that changes with any source of any module; what compiled kernels are known by."""
    root = root or source_root()
    digest = hashlib.sha256()
    for module in module_names(root):
        digest.update(f"{module}\0{module_text(module, root)}\0".encode())
    return digest.hexdigest()[:32]
