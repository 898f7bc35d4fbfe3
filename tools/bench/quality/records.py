"""Records on disk: one JSON file for each capture and for each fit, current as long as its inputs have not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import read_json, write_json
from tools.bench.quality.plan import ROOT, SCENES_FOLDER, Subject

Record = dict[str, Any]

ENGINE_SOURCES = ("splat_engine/**/*.py", "csrc/cpu/*", "csrc/include/*")


def digest_of(files: Iterable[Path], *words: str) -> str:
    """Returns a fingerprint of files' contents, in their order, and of words; where the files lie does not matter."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.read_bytes() + b"\0")
    digest.update("\0".join(words).encode())
    return digest.hexdigest()[:16]


def sources(patterns: tuple[str, ...]) -> list[Path]:
    """Returns the files of this checkout that match, sorted."""
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file())


def scene_scripts(subject: Subject) -> list[Path]:
    """Returns the scripts that build a scene."""
    return [
        SCENES_FOLDER / f"{subject.scene}.py",
        SCENES_FOLDER / "parts.py",
        ROOT / "tools" / "demo_scene.py",
    ]


def capture_digest(subject: Subject) -> str:
    """Returns the fingerprint of what a capture shows: the scene's script and the options.

    The capture's own code is left out: ``captured.jsonl`` in the capture's folder knows which of its views would be
    rendered otherwise now.
    """
    return digest_of(scene_scripts(subject), *subject.capture_options())


def fit_digest(capture: str, options: Iterable[str]) -> str:
    """Returns the fingerprint of all that decides a fit: the capture's, the engine's code, the options."""
    return digest_of(sources(ENGINE_SOURCES), capture, *options)


def read_current(path: Path, digest: str) -> Record | None:
    """Returns a record if it is there, whole and of these inputs; else None: it is to be made anew."""
    try:
        record = read_json(path, "record")
    except UserError:
        return None
    return record if isinstance(record, dict) and record.get("inputs") == digest else None


def write_record(path: Path, digest: str, values: Record) -> Record:
    """Writes a record, whole or not at all, and returns it."""
    record = {"inputs": digest, **values}
    write_json(path, record)
    return record
