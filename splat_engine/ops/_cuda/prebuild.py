"""Compiles all kernels for all architectures that wheels serve: ``python -m splat_engine.ops._cuda.prebuild``.

The compiler is the NVRTC 12.8 of the Python package nvidia-cuda-nvrtc-cu12 where that is installed: what it makes loads on
drivers from 525 on, and it is the first that knows all of ARCHITECTURES; what NVRTC 13 makes needs a driver from 580 on (it
writes another version of the file's format: test_prebuild.py). Otherwise it is whatever NVRTC cuda.core finds.

Neither this module nor what it imports needs torch or numpy: setup.py uses it while a wheel is built.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_bytes
from splat_engine.ops._cuda import compile as compiler
from splat_engine.ops._cuda.compile import NoCompiler
from splat_engine.ops._cuda.prebuilt import ARCHITECTURES, ARCHIVE, archive_bytes, archive_path
from splat_engine.ops._cuda.source import PACKAGED, fingerprint, module_names, source_files

__all__ = ["ARCHIVE", "NoCompiler", "UserError", "build_archive", "copy_sources", "main"]

logger = logging.getLogger(__name__)

PREFERRED = "nvidia-cuda-nvrtc-cu12"
_LIBRARY = re.compile(r"/(libnvrtc\.so\.\d+|nvrtc64_\d+_0\.dll)$")


def prefer_oldest_compiler() -> None:
    """Loads the NVRTC of nvidia-cuda-nvrtc-cu12, if it is installed: cuda.core takes what is loaded already.

    To be called before anything else has loaded NVRTC.
    """
    try:
        files = metadata.files(PREFERRED) or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if _LIBRARY.search(str(file).replace(os.sep, "/")):
            ctypes.CDLL(str(file.locate()), mode=ctypes.RTLD_GLOBAL)


def copy_sources(root: Path, package: Path) -> list[Path]:
    """Puts the sources of csrc into a package's folder, where ``source.source_root`` looks for them; returns the copies."""
    copies = []
    for file in source_files(root):
        copy = package / PACKAGED / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / file, copy)
        copies.append(copy)
    return copies


def build_archive(architectures: Sequence[str] = ARCHITECTURES) -> bytes:
    """Compiles every module for some architectures.

    Returns:
        The archive's bytes.

    Raises:
        NoCompiler: there is no NVRTC.
        UserError: a module does not compile.
    """
    prefer_oldest_compiler()
    version = compiler.compiler_version()
    for architecture in architectures:
        compiler.check_compiler(architecture, 0)
    cache = compiler.open_cache()
    cubins = {
        architecture: {
            module: compiler.compile_module(module, architecture, cache) for module in module_names()
        }
        for architecture in architectures
    }
    return archive_bytes(fingerprint(), version, cubins)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=archive_path(), help="the archive; default: %(default)s")
    parser.add_argument("--architectures", nargs="+", default=ARCHITECTURES, metavar="SM")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    try:
        data = build_archive(options.architectures)
        write_bytes(options.out, data)
    except UserError as error:
        logger.error("error: %s\n%s", error, error.cause or "")
        return 1
    version = compiler.compiler_version()
    logger.info(
        "%s: %d modules for %s by NVRTC %d.%d, %d bytes, %.1f s",
        options.out,
        len(module_names()),
        ", ".join(options.architectures),
        *version,
        len(data),
        time.monotonic() - start,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
