"""Finds, checks and calls the CPU library (csrc/cpu) through ctypes.

Nothing is loaded on import: the first call loads the library. A library that is missing, of another ABI version, or
older than the sources beside it is a ``UserError`` that names the remedy.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.native import structs

LIBRARY_VARIABLE = "SPLAT_LIBRARY"
"""Environment variable: path of a library to use in place of the installed one (its sources are not compared)."""

_REMEDY = "Build it with `python -m splat_engine.native.build`, or install the splat-engine wheel again."

_lock = threading.Lock()
_loaded: Library | None = None


class Library:
    """The loaded library: its entry points with their argument structures.

    Args:
        path: the shared library.

    Raises:
        UserError: the file cannot be loaded or does not fit this package.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = _open(path)
        self._check_version()
        self._structures: dict[tuple[str, str], type[ctypes.Structure]] = {}
        self._functions: dict[tuple[str, str], ctypes._NamedFuncPointer] = {}
        self._declare()

    def call(self, op: str, scalar: str, /, **fields: object) -> None:
        """Call one entry point; see the module function of the same name."""
        arguments = self._structures[op, scalar](**fields)
        status = self._functions[op, scalar](ctypes.byref(arguments))
        if status != 0:
            raise self.error(op, OutOfMemory if status == structs.STATUS_OUT_OF_MEMORY else UserError)

    def error(self, op: str, kind: type[UserError] = UserError) -> UserError:
        """The calling thread's last error as the exception to raise."""
        text = self.handle.splat_last_error().decode("utf-8", "replace")
        return kind(f"The native op {op} failed: {text}")

    def _check_version(self) -> None:
        try:
            self.handle.splat_abi_version.restype = ctypes.c_int32
            version = int(self.handle.splat_abi_version())
        except AttributeError as cause:
            raise UserError(f"{self.path} is not a splat engine library.", _REMEDY, cause) from cause
        if version != structs.ABI_VERSION:
            raise UserError(
                f"The native library {self.path} has ABI version {version}, this package needs {structs.ABI_VERSION}.",
                _REMEDY,
            )

    def _declare(self) -> None:
        handle = self.handle
        for name in ("splat_isa", "splat_build_id", "splat_last_error"):
            getattr(handle, name).restype = ctypes.c_char_p
        handle.splat_args_size.restype = ctypes.c_int64
        handle.splat_args_size.argtypes = [ctypes.c_char_p]
        handle.splat_get_num_threads.restype = ctypes.c_int32
        handle.splat_set_num_threads.argtypes = [ctypes.c_int32]
        handle.splat_context_free.argtypes = [ctypes.c_void_p]
        handle.splat_context_free.restype = None
        handle.splat_trim_memory.restype = None
        for op in structs.OPS:
            if handle.splat_args_size(op.encode()) != ctypes.sizeof(structs.structure(op, "f32")):
                raise UserError(
                    f"The native library {self.path} and structs.py disagree about {op}.", _REMEDY
                )
            for scalar in structs.SCALARS:
                structure = structs.structure(op, scalar)
                function = getattr(handle, f"splat_{op}_{scalar}")
                function.argtypes = [ctypes.POINTER(structure)]
                function.restype = ctypes.c_int
                self._structures[op, scalar] = structure
                self._functions[op, scalar] = function


def _open(path: Path) -> ctypes.CDLL:
    if not path.is_file():
        raise UserError(f"The native library {path} does not exist.", _REMEDY)
    try:
        return ctypes.CDLL(str(path))
    except OSError as cause:
        raise UserError(f"The native library {path} cannot be loaded: {cause}", _REMEDY, cause) from cause


def library_path() -> Path:
    """Path of the library that would be loaded (it need not exist)."""
    from splat_engine.native import (
        build,
    )  # not above: `python -m splat_engine.native.build` runs it as the main module

    override = os.environ.get(LIBRARY_VARIABLE)
    return Path(override) if override else build.library_file()


def load_library() -> Library:
    """Load the native library once and return it.

    Raises:
        UserError: no library, one that cannot be loaded, one of another ABI version, or one that is older than the
            sources beside it (in a checkout).
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                library = Library(library_path())
                _check_sources(library)
                _loaded = library
    return _loaded


def _check_sources(library: Library) -> None:
    """In a checkout, refuse a library built from other sources: its results would not be those of the code on screen."""
    from splat_engine.native import build  # not above: see library_path

    if os.environ.get(LIBRARY_VARIABLE) or not build.source_root().is_dir():
        return
    if library.handle.splat_build_id().decode() != build.build_id():
        raise UserError(f"The native library {library.path} was built from other sources than csrc.", _REMEDY)


def call(op: str, scalar: str, /, **fields: object) -> None:
    """Call an op of the C ABI with addresses and numbers.

    Args:
        op: a key of ``structs.OPS``.
        scalar: "f32" or "f64", the type of all arrays.
        **fields: the fields of the op's argument structure; those left out are 0 or null. Addresses are ints
            (``tensor.data_ptr()``, ``array.ctypes.data``); the caller keeps their memory alive and contiguous.

    Raises:
        OutOfMemory: the op had too little memory.
        UserError: the op refused its arguments.
    """
    load_library().call(op, scalar, **fields)


def set_num_threads(threads: int) -> None:
    """Set the number of threads of all later calls; 0 means one for each core this process may use.

    Raises:
        UserError: threads is negative or above 256.
    """
    library = load_library()
    if library.handle.splat_set_num_threads(threads) != 0:
        raise library.error("set_num_threads")


def get_num_threads() -> int:
    """Number of threads that calls use."""
    return int(load_library().handle.splat_get_num_threads())


def trim_memory() -> None:
    """Give back the memory that the library keeps for its next calls (what backward passes still need stays)."""
    load_library().handle.splat_trim_memory()


def isa() -> str:
    """Name of the instruction set in use: "isa_v2", "isa_v3", "isa_v4" (x86-64 levels) or "isa_base"."""
    return str(load_library().handle.splat_isa().decode())


def abi_version() -> int:
    """ABI version of the loaded library."""
    return int(load_library().handle.splat_abi_version())
