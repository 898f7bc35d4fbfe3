"""What ``splat-engine doctor`` tells of CUDA: torch's, the driver, each card, and where its kernels would come from."""

from __future__ import annotations

from collections.abc import Callable

import torch

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import compile as compiler
from splat_engine.ops._cuda.driver import Driver, load_driver
from splat_engine.ops._cuda.kernels import where_from
from splat_engine.ops._cuda.prebuilt import PrebuiltError, archive_path, open_archive
from splat_engine.ops._cuda.source import SourceError, fingerprint

_NO_CUDA_TORCH = "none: this torch computes on the processor alone (pytorch.org has one for CUDA)"


def describe_cuda(
    torch_cuda: str | None = torch.version.cuda, driver: Callable[[], Driver] = load_driver
) -> dict[str, str]:
    """Returns what was found, in the order to tell it; nothing is compiled and no card is opened.

    Args:
        torch_cuda: the CUDA version that torch was built for; None for none.
        driver: gives NVIDIA's driver.
    """
    facts = {"CUDA of torch": torch_cuda or _NO_CUDA_TORCH, "CUDA kernels": _packaged()}
    try:
        found = driver()
        facts["NVIDIA driver"] = f"for CUDA {found.cuda // 1000}.{found.cuda % 1000 // 10}"
        for index in range(found.device_count()):
            facts[f"cuda:{index}"] = _card(found, index)
    except UserError as error:
        facts["NVIDIA driver"] = f"none. {error.headline} {error.hint}"
    return facts


def _card(driver: Driver, index: int) -> str:
    device = driver.device(index)
    major, minor = driver.capability(device)
    kernels = where_from((major, minor), driver.cuda)
    return f"{driver.device_name(device)}, compute capability {major}.{minor}; kernels: {kernels}"


def _packaged() -> str:
    """What this installation has for cards in general."""
    try:
        archive = open_archive(archive_path(), fingerprint())
        own = f"{', '.join(archive.architectures)} in {archive.path.name}"
    except PrebuiltError as reason:
        own = f"sources alone ({reason})"
    except SourceError as error:
        return f"none: {error}"
    try:
        version = compiler.compiler_version()
        return f"{own}; NVRTC {version[0]}.{version[1]} compiles others"
    except UserError:
        return f"{own}; no NVRTC to compile others"
