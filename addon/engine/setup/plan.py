"""What a set-up is going to do on this machine: uv or pip, from where, and how much of it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from splat_engine.formats.errors import UserError

from .place import EnginePlace

TORCH_VERSION = "2.13.0"
"""As in tools/requirements-torch.txt, with which the engine is tested."""
PYTHON_RANGE = ">=3.11,<3.15"
"""Pythons for which torch of this version and OpenEXR are built."""
UV_VERSION = "0.13.9"
DEFAULT_INDEX = "https://pypi.org/simple"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")


@dataclass(frozen=True)
class UvWheel:
    """uv's wheel on PyPI: a zip with one static program, which needs no Python to be unpacked into a folder.

    Attributes:
        name: The file's name.
        sha256: Its digest in hexadecimal, as PyPI tells it.
        size: Bytes.
    """

    name: str
    sha256: str
    size: int


UV_WHEELS = {
    ("linux", "x64"): UvWheel(
        f"uv-{UV_VERSION}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
        17_606_939,
    ),
    ("linux", "arm64"): UvWheel(
        f"uv-{UV_VERSION}-py3-none-manylinux_2_28_aarch64.whl",
        "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
        16_864_124,
    ),
    ("windows", "x64"): UvWheel(
        f"uv-{UV_VERSION}-py3-none-win_amd64.whl",
        "6a44b2ed8111d2f60d2b92627c5dccda3f7ed7570b18ce115e569cd68c28246b",
        15_662_317,
    ),
    ("macos", "arm64"): UvWheel(
        f"uv-{UV_VERSION}-py3-none-macosx_11_0_arm64.whl",
        "66c512266d633bef48384a1f53003f41f2a8e7b36fe6e7fbfd3e0fd52d96fa63",
        14_660_755,
    ),
}
"""System and processor to uv's wheel: the machines that torch of this version is built for, by its files on PyPI."""


@dataclass(frozen=True)
class Size:
    """What a set-up takes.

    Attributes:
        download_bytes: Over the network, about.
        disk_bytes: On the disk in the end, about.
    """

    download_bytes: int
    disk_bytes: int


CPU_SIZE = Size(download_bytes=300_000_000, disk_bytes=1_300_000_000)
"""Measured on Linux x64."""
CARD_SIZE = Size(download_bytes=2_850_000_000, disk_bytes=7_000_000_000)
"""Download: the sum of PyPI's files for Linux x64. On the disk: an estimate, two and a half times as much."""


@dataclass(frozen=True)
class Plan:
    """All that the steps need to know.

    Attributes:
        place: Where it goes.
        wheel: The engine's wheel.
        uv: uv's wheel for this machine; None: pip makes the environment.
        has_card: Whether there is an NVIDIA card, so that torch for CUDA is had.
        index: The package index, such as PyPI's or a company's copy of it.
        wheel_folder: Folder with downloaded packages that is looked at as well; None for none.
        is_offline: Nothing is asked of the network: all comes from ``wheel_folder``.
    """

    place: EnginePlace
    wheel: Path
    uv: UvWheel | None
    has_card: bool
    index: str = DEFAULT_INDEX
    wheel_folder: Path | None = None
    is_offline: bool = False

    @property
    def size(self) -> Size:
        """What it takes, about."""
        return CARD_SIZE if self.has_card and not self.has_own_torch else CPU_SIZE

    @property
    def has_own_torch(self) -> bool:
        """Whether the folder of packages holds a torch, which then is the one to install."""
        return self.wheel_folder is not None and any(self.wheel_folder.glob(f"torch-{TORCH_VERSION}*.whl"))

    def as_pip(self) -> Plan:
        """Returns the same plan by pip."""
        return Plan(
            self.place, self.wheel, None, self.has_card, self.index, self.wheel_folder, self.is_offline
        )


def this_machine() -> tuple[str, str]:
    """Returns (system, processor) as ``UV_WHEELS`` spells them."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    processor = platform.machine().lower()
    return system, {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(processor, processor)


def make_plan(
    place: EnginePlace,
    wheel: Path,
    *,
    wheel_folder: Path | None = None,
    is_offline: bool = False,
    environment: Mapping[str, str] = os.environ,
    machine: tuple[str, str] | None = None,
    has_card: bool | None = None,
) -> Plan:
    """Returns how the engine is set up on a machine; asks nothing of the network.

    Args:
        place: Where it goes.
        wheel: The engine's wheel.
        wheel_folder: Folder with downloaded packages; None for none.
        is_offline: Whether only that folder may be used.
        environment: Where the package index of this machine is looked up.
        machine: (system, processor); None for this one's.
        has_card: Whether there is an NVIDIA card; None to look.

    Raises:
        UserError: PyTorch is not built for such a machine, or the folder is not there.
    """
    system, processor = machine or this_machine()
    if (system, processor) not in UV_WHEELS:
        raise UserError(*_no_torch_words(system, processor))
    if wheel_folder is not None and not wheel_folder.is_dir():
        raise UserError(f"There is no folder {wheel_folder}.", "Choose another folder of packages, or none.")
    index = next((environment[name] for name in _INDEX_VARIABLES if environment.get(name)), DEFAULT_INDEX)
    card = has_nvidia_card() if has_card is None else has_card
    return Plan(place, wheel, UV_WHEELS[system, processor], card, index.rstrip("/"), wheel_folder, is_offline)


@cache
def has_nvidia_card() -> bool:
    """Tells whether NVIDIA's driver is installed, by its program."""
    windows = Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32" / "nvidia-smi.exe"
    return shutil.which("nvidia-smi") is not None or (sys.platform == "win32" and windows.is_file())


def _no_torch_words(system: str, processor: str) -> tuple[str, str]:
    if (system, processor) == ("macos", "x64"):
        return (
            "PyTorch is no longer built for Macs with an Intel processor.",
            "On a Mac with Apple silicon install Blender for Apple silicon. Else choose a Python that has PyTorch 2.6 "
            "or later, if you have one.",
        )
    return (
        f"PyTorch {TORCH_VERSION} is not built for {system} on {processor}.",
        "Choose a Python that has PyTorch 2.6 or later, if you have one.",
    )


def masked(url: str) -> str:
    """Returns a URL without name and password."""
    return re.sub(r"(?<=//)[^/@\s]+@", "", url)
