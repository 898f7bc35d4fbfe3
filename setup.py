"""Compiles the native library and the CUDA kernels into the package: what pyproject.toml cannot say.

The wheel's tag is ``py3-none-<platform>``: the library is reached through ctypes, so one wheel serves every Python. The
version is that of blender_manifest.toml, the one place where it stands. With SPLAT_TARGET in the environment the wheel is
for another platform than this one (splat_engine/native/build.py has the names).
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent


def load_builder() -> ModuleType:
    """splat_engine/native/build.py by its path: the package itself needs numpy, which a build environment lacks."""
    name = "splat_native_build"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "splat_engine" / "native" / "build.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def load_kernel_builder() -> ModuleType:
    """splat_engine.ops._cuda.prebuild, without what its packages import: a build environment has neither numpy nor torch."""
    for name in ("splat_engine", "splat_engine.formats", "splat_engine.ops", "splat_engine.ops._cuda"):
        package = ModuleType(name)
        package.__path__ = [str(ROOT / name.replace(".", "/"))]
        sys.modules.setdefault(name, package)
    return importlib.import_module("splat_engine.ops._cuda.prebuild")


def manifest_version() -> str:
    """The version in blender_manifest.toml (tomllib is not in Python 3.10)."""
    text = (ROOT / "blender_manifest.toml").read_text(encoding="utf-8")
    found = re.search(r'^version\s*=\s*"([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise SystemExit("blender_manifest.toml has no version")
    return found.group(1)


def target() -> Any:
    """The platform that the wheel is for."""
    builder = load_builder()
    return builder.target_named(os.environ.get(builder.TARGET_VARIABLE))


class BuildNative(build_py):
    """Compiles the library: beside its sources for an editable install, into the wheel otherwise.

    The CUDA kernels go into wheels alone, as sources, and compiled where this machine has NVRTC: an installation for
    editing finds the sources in csrc.
    """

    def run(self) -> None:
        """Copy the Python files, then build the library and the kernels.

        What an earlier build left (another platform's library, a module that is gone) would be packed as well.
        """
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib) / "splat_engine", ignore_errors=True)
        super().run()
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        builder = load_builder()
        directory = None if self.editable_mode else Path(self.build_lib).resolve() / "splat_engine" / "native"
        wanted = builder.this_target() if self.editable_mode else target()
        builder.build(library=builder.library_file(directory, wanted), target=wanted)
        if not self.editable_mode:
            self.kernels = pack_kernels(
                Path(self.build_lib).resolve() / "splat_engine" / "ops" / "_cuda", wanted
            )

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """All files of the package, with the library and the kernels."""
        library = load_builder().library_file(Path(self.build_lib) / "splat_engine" / "native", target())
        kernels = [str(path) for path in getattr(self, "kernels", [])]
        return [*super().get_outputs(include_bytecode), str(library), *kernels]


def pack_kernels(folder: Path, wanted: Any) -> list[Path]:
    """Puts the CUDA kernels into a package's folder; returns the files.

    Without NVRTC in the build environment they are sources alone, which is said. macOS has no CUDA and gets none compiled.
    """
    builder = load_kernel_builder()
    files = builder.copy_sources(ROOT / "csrc", folder)
    if wanted.system == "darwin":
        return files
    try:
        archive = builder.build_archive()
    except builder.NoCompiler as error:
        logging.warning("The wheel has no compiled CUDA kernels: %s", error.headline)
        return files
    except builder.UserError as error:
        raise SystemExit(f"{error}\n{error.cause or ''}") from error
    path = folder / builder.ARCHIVE
    path.write_bytes(archive)
    return [*files, path]


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and any Python 3."""

    def finalize_options(self) -> None:
        """Mark the wheel as carrying machine code."""
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        """py3, no ABI, the platform."""
        return "py3", "none", load_builder().wheel_platform(target=target())


class SourcesIncluded(sdist):
    """A source distribution with csrc, which the build needs."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Add the C++ sources and the manifest to the files."""
        extra = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in {".h", ".cpp", ".cu", ".cuh"}]
        extra.append(ROOT / "blender_manifest.toml")
        names = [path.relative_to(ROOT).as_posix() for path in extra]
        super().make_release_tree(base_dir, sorted({*files, *names}))


class BinaryDistribution(Distribution):
    """Says that the distribution has machine code, so that it is installed into platlib."""

    def has_ext_modules(self) -> bool:
        """Always: the library."""
        return True


setup(
    version=manifest_version(),
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildNative, "bdist_wheel": PlatformWheel, "sdist": SourcesIncluded},
)
