"""Compiles modules of csrc/cuda with NVRTC, through ``cuda.core``: no nvcc, no host compiler, no card needed.

Only cubins are asked for: a "ptx" compile after a failed load of the driver was seen to hang for ever. Compiled modules are
kept in a folder of the user's, by source, options and compiler; two processes may use it at once.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda.source import module_text

logger = logging.getLogger(__name__)

STANDARD = "c++17"
CACHE_VARIABLE = "SPLAT_KERNEL_CACHE"
"""Environment variable: the folder of compiled kernels, in place of ``cache_folder``'s own choice."""
CACHE_BYTES_MAX = 256 << 20
NO_COMPILER_HINT = (
    'Install NVRTC: pip install "splat-engine[cuda12]" with a torch for CUDA 12 (or a driver before 580), '
    'pip install "splat-engine[cuda13]" with a torch for CUDA 13.'
)


class NoCompiler(UserError):
    """NVRTC, or the package that we reach it through, is not installed."""


def cache_folder() -> Path:
    """Where compiled kernels are kept: $SPLAT_KERNEL_CACHE, else the place that the platform has for such files."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "splatfit" / "kernels"


def open_cache() -> Any:
    """The cache of compiled kernels, or None, with a warning, where its folder cannot be used."""
    from cuda.core.utils import FileStreamProgramCache  # not above: machines without a card lack it

    folder = cache_folder()
    try:
        return FileStreamProgramCache(folder, max_size_bytes=CACHE_BYTES_MAX)
    except OSError as error:
        logger.warning("Kernels are compiled in each process anew: %s cannot be used: %s", folder, error)
        return None


def compiler_version() -> tuple[int, int]:
    """Version of NVRTC, such as (12, 8).

    Raises:
        NoCompiler: NVRTC, or cuda-core that we reach it through, is not installed.
        UserError: NVRTC does not work.
    """
    try:
        import cuda.core  # noqa: F401  # both are needed
        from cuda.bindings import nvrtc

        result, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:  # RuntimeError: the library itself is not found
        raise NoCompiler(
            "NVRTC, the compiler of CUDA kernels, is not installed.", NO_COMPILER_HINT, error
        ) from error
    if int(result) != 0:
        raise UserError("NVRTC, the compiler of CUDA kernels, does not work.", NO_COMPILER_HINT, str(result))
    return int(major), int(minor)


def check_compiler(architecture: str, driver_cuda: int) -> str:
    """Raise UserError unless NVRTC can compile for a card, in a form that its driver loads; return its name.

    Args:
        architecture: such as "sm_110".
        driver_cuda: CUDA version of the driver as it says it, such as 12080; 0 if nobody is to load the kernels here.
    """
    version = compiler_version()
    name = f"NVRTC {version[0]}.{version[1]}"
    if driver_cuda and version[0] > driver_cuda // 1000:
        raise UserError(
            f"The NVIDIA driver, for CUDA {driver_cuda // 1000}.{driver_cuda % 1000 // 10}, is too old for {name}.",
            f"Update the driver to {DRIVER_OF_CUDA.get(version[0], 'a newer one')} or newer; or "
            f'pip install "splat-engine[cuda{driver_cuda // 1000}]", and pip uninstall nvidia-cuda-nvrtc.',
        )
    from cuda.bindings import nvrtc

    known = nvrtc.nvrtcGetSupportedArchs()[1]
    if int(architecture.removeprefix("sm_")) not in known:
        raise UserError(
            f"{name} does not know {architecture}: it compiles for {', '.join(f'sm_{arch}' for arch in known)}.",
            "Install a newer NVRTC, and a driver to match it. Cards before sm_75 are not supported.",
        )
    return name


DRIVER_OF_CUDA = {12: "525", 13: "580"}
"""Major version of CUDA to the first driver that loads what its compilers make (NVIDIA, CUDA Compatibility)."""


def compile_module(module: str, architecture: str, cache: Any = None, log: Any = None) -> bytes:
    """Compiles one module.

    Args:
        module: a name of ``source.module_names``.
        architecture: such as "sm_86".
        cache: what ``open_cache`` returned.
        log: a text stream for ptxas' words on each kernel; without a cache only.

    Returns:
        The cubin.

    Raises:
        UserError: it does not compile; the cause has the compiler's log.
    """
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(
        std=STANDARD, arch=architecture, name=f"{module}.cu", ptxas_options=["-v"] if log else None
    )
    text = module_text(module)
    try:
        compiled = Program(text, "c++", options).compile("cubin", logs=log, cache=cache)
    except OSError as error:
        raise UserError(
            f"The folder of compiled kernels, {cache_folder()}, cannot be used: {error}",
            f"Mend it, or choose another by the environment variable {CACHE_VARIABLE}.",
            error,
        ) from error
    except Exception as error:  # cuda.core's own types of errors are not public
        raise _compile_failure(module, architecture, error) from error
    return bytes(compiled.code)


def _compile_failure(module: str, architecture: str, error: Exception) -> UserError:
    log = str(error).replace("\0", "").strip()
    first = re.search(r"^.*\berror\b.*$", log.partition("\n")[2], re.MULTILINE)
    return UserError(
        f"The CUDA kernels of {module}.cu do not compile for {architecture}: {first[0] if first else log[:200]}",
        "Please report this, with the compiler's log. Training works without a card, too: choose the device cpu.",
        log,
    )
