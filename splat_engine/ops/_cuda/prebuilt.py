"""The compiled kernels that a wheel carries: ``kernels.zip`` beside this file, with a folder for each architecture.

index.json says from which sources and by which NVRTC they were built. An archive of other sources than those beside it is
refused. A cubin runs on cards of its own major architecture with the same or a later minor number.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARCHIVE = "kernels.zip"
_INDEX = "index.json"
_FORMAT = 1
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""What wheels carry kernels for: every GeForce, RTX and data-centre card since Turing (2018)."""
TEGRA = frozenset({(7, 2), (8, 7), (8, 8), (10, 1), (11, 0)})
"""Cards on the processor's chip, which do not run the cubins of others (CUDA C++ Programming Guide, 3.1.2)."""

Capability = tuple[int, int]
"""Compute capability, such as (8, 6)."""


class PrebuiltError(Exception):
    """The archive cannot be used; the text says why."""


@dataclass(frozen=True)
class Prebuilt:
    """An archive of compiled kernels.

    Attributes:
        path: its file.
        sources: fingerprint of the sources that it was built from.
        compiler: version of NVRTC, such as (12, 8).
        architectures: what it has, in rising order.
    """

    path: Path
    sources: str
    compiler: tuple[int, int]
    architectures: tuple[str, ...]

    def modules(self, architecture: str) -> dict[str, bytes]:
        """Module to cubin of one architecture.

        Raises:
            PrebuiltError: the file is damaged.
        """
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name for name in archive.namelist() if name.startswith(f"{architecture}/")]
                return {Path(name).stem: archive.read(name) for name in names}
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise PrebuiltError(f"{self.path} is damaged: {error}") from error


def archive_path() -> Path:
    """Where the archive lies, if there is one."""
    return Path(__file__).resolve().parent / ARCHIVE


def open_archive(path: Path, sources: str | None = None) -> Prebuilt:
    """Reads what an archive says of itself.

    Args:
        path: the archive.
        sources: fingerprint that it must have been built from; None takes any.

    Raises:
        PrebuiltError: there is none, it is damaged, or it was built from other sources.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            index = json.loads(archive.read(_INDEX))
        found = Prebuilt(
            path,
            index["sources"],
            (index["compiler"][0], index["compiler"][1]),
            tuple(index["architectures"]),
        )
        kind = index["format"]
    except FileNotFoundError as error:
        raise PrebuiltError("This package was built without compiled kernels.") from error
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, IndexError, TypeError, ValueError) as error:
        raise PrebuiltError(f"{path} is damaged: {error}") from error
    if kind != _FORMAT or (sources is not None and found.sources != sources):
        raise PrebuiltError(f"{path} was built from other sources than those beside it.")
    return found


def capability_of(architecture: str) -> Capability:
    """Compute capability of an architecture's name: "sm_86" is (8, 6)."""
    return divmod(int(architecture.removeprefix("sm_")), 10)


def architecture_of(capability: Capability) -> str:
    """Name of a compute capability's architecture: (8, 6) is "sm_86"."""
    return f"sm_{10 * capability[0] + capability[1]}"


def best_architecture(capability: Capability, present: tuple[str, ...]) -> str | None:
    """Of the architectures that there are cubins for, the closest one that a card can run; None if there is none."""
    major, minor = capability
    if capability in TEGRA:
        return None
    fitting = [
        name
        for name in present
        if capability_of(name)[0] == major
        and capability_of(name)[1] <= minor
        and capability_of(name) not in TEGRA
    ]
    return max(fitting, key=capability_of, default=None)


def archive_bytes(sources: str, compiler: tuple[int, int], cubins: dict[str, dict[str, bytes]]) -> bytes:
    """An archive as bytes; the same contents give the same bytes.

    Args:
        sources: fingerprint of the sources.
        compiler: version of NVRTC.
        cubins: architecture to module to cubin.
    """
    index: dict[str, Any] = {
        "format": _FORMAT,
        "sources": sources,
        "compiler": list(compiler),
        "architectures": list(cubins),
    }
    files = {_INDEX: json.dumps(index, indent=1).encode()}
    for architecture, modules in cubins.items():
        files |= {f"{architecture}/{module}.cubin": data for module, data in sorted(modules.items())}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 9)
    return target.getvalue()
