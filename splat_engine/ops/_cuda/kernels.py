"""Which compiled kernels a card gets: the package's own cubins where one fits, else NVRTC's."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import compile as compiler
from splat_engine.ops._cuda.cubin import CubinError, entry_points
from splat_engine.ops._cuda.prebuilt import (
    Capability,
    Prebuilt,
    PrebuiltError,
    architecture_of,
    archive_path,
    best_architecture,
    open_archive,
)
from splat_engine.ops._cuda.source import SourceError, fingerprint, module_names

logger = logging.getLogger(__name__)

LEAST_CAPABILITY: Capability = (7, 5)
"""Turing: what NVRTC 12.8 and 13 both compile for, and the first card with all that the kernels use."""


@dataclass(frozen=True)
class KernelSet:
    """All kernels, compiled for one card.

    Attributes:
        origin: where they come from, for a person.
        modules: module to cubin.
        module_of: entry point to the module that has it.
    """

    origin: str
    modules: dict[str, bytes]
    module_of: dict[str, str]


def find_kernels(capability: Capability, driver_cuda: int) -> KernelSet:
    """All kernels for a card.

    Args:
        capability: the card's compute capability.
        driver_cuda: CUDA version of the driver, such as 12080.

    Raises:
        UserError: the card or its driver is too old, or there is neither a fitting cubin nor NVRTC.
    """
    check_capability(capability)
    try:
        archive = open_archive(archive_path(), fingerprint())
        architecture = _fitting(archive, capability, driver_cuda)
        return _kernel_set(_origin(archive, architecture), archive.modules(architecture))
    except SourceError as error:
        raise UserError(str(error), "Install splat-engine anew.", error) from error
    except PrebuiltError as reason:
        level = logging.WARNING if archive_path().exists() else logging.INFO
        logger.log(level, "Kernels are compiled here, as there are none for this card: %s", reason)
        return _compiled(architecture_of(capability), driver_cuda, str(reason))


def where_from(capability: Capability, driver_cuda: int) -> str:
    """Where ``find_kernels`` would have a card's kernels from, or why it would find none and what helps; compiles nothing."""
    try:
        check_capability(capability)
        try:
            archive = open_archive(archive_path(), fingerprint())
            return _origin(archive, _fitting(archive, capability, driver_cuda))
        except PrebuiltError:
            architecture = architecture_of(capability)
            return f"{architecture}, compiled here by {compiler.check_compiler(architecture, driver_cuda)}"
    except SourceError as error:
        return f"none. {error}"
    except UserError as error:
        return f"none. {error.headline} {error.hint}"


def check_capability(capability: Capability) -> None:
    """Raise UserError for a card that is too old."""
    if capability < LEAST_CAPABILITY:
        raise UserError(
            f"The card's compute capability, {capability[0]}.{capability[1]}, is too low: 7.5 or higher is needed.",
            "Use a card of the year 2018 or later (GeForce RTX 20, GTX 16), or the device cpu.",
        )


def _fitting(archive: Prebuilt, capability: Capability, driver_cuda: int) -> str:
    """The architecture of an archive that a card and its driver can run; PrebuiltError if there is none."""
    architecture = best_architecture(capability, archive.architectures)
    if architecture is None:
        raise PrebuiltError(f"This package has no kernels for {architecture_of(capability)}.")
    major = archive.compiler[0]
    if driver_cuda < 1000 * major:
        raise PrebuiltError(
            f"This package's kernels need an NVIDIA driver for CUDA {major} ({compiler.DRIVER_OF_CUDA.get(major)} or "
            f"newer); this one is for CUDA {driver_cuda // 1000}.{driver_cuda % 1000 // 10}."
        )
    return architecture


def _origin(archive: Prebuilt, architecture: str) -> str:
    return f"{architecture} in {archive.path.name}, by NVRTC {archive.compiler[0]}.{archive.compiler[1]}"


def _compiled(architecture: str, driver_cuda: int, reason: str) -> KernelSet:
    try:
        name = compiler.check_compiler(architecture, driver_cuda)
    except UserError as error:
        raise UserError(f"{reason} {error.headline}", error.hint, error.cause) from error
    start, cache = time.monotonic(), compiler.open_cache()
    modules = {module: compiler.compile_module(module, architecture, cache) for module in module_names()}
    logger.info("%s: kernels for %s in %.1f s", name, architecture, time.monotonic() - start)
    return _kernel_set(f"{architecture} by {name}, kept in {compiler.cache_folder()}", modules)


def _kernel_set(origin: str, modules: dict[str, bytes]) -> KernelSet:
    try:
        module_of = {entry: module for module, cubin in modules.items() for entry in entry_points(cubin)}
    except CubinError as error:
        raise UserError(
            f"Compiled kernels are damaged: {origin}.", "Remove them, or install splat-engine anew.", error
        ) from error
    return KernelSet(origin, modules, module_of)
