"""The CPU library of csrc/cpu through ctypes: numpy in, numpy out, no torch. Importing loads nothing."""

from splat_engine.native.library import (
    abi_version,
    call,
    get_num_threads,
    isa,
    library_path,
    load_library,
    set_num_threads,
    trim_memory,
)

__all__ = [
    "abi_version",
    "call",
    "get_num_threads",
    "isa",
    "library_path",
    "load_library",
    "set_num_threads",
    "trim_memory",
]
