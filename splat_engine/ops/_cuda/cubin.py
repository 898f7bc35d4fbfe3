"""What a compiled module says of itself: its kernels, and the registers, stack and shared memory that each needs.

A cubin is an ELF file. Kernels are its global functions; ``.nv.info`` holds attributes of each (the numbers below are those
of cuobjdump's and ptxas' own output, against which tests/cuda/test_compile.py holds this reader). Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_EM_CUDA = 190
_FUNCTION, _GLOBAL = 2, 1  # symbol type and binding
# Attributes of .nv.info: a byte that says how the value is stored, a byte that names it, and two bytes of value or size.
_INLINE_VALUES, _SIZED_VALUE = (1, 2, 3), 4
_MAX_THREADS, _FRAME_BYTES, _PARAMETER_BYTES, _REGISTERS = 0x05, 0x11, 0x19, 0x2F
_RESERVED_SHARED = ".nv.shared.reserved.0"
_RESERVED_SHARED_BYTES = 1024


class CubinError(Exception):
    """Bytes that are not a compiled module."""


@dataclass(frozen=True)
class KernelFacts:
    """What one kernel needs of a card.

    Attributes:
        name: entry point.
        registers: of a thread.
        stack_bytes: of a thread, in local memory: arrays that are not in registers, and spilled registers.
        shared_bytes: static shared memory of a block.
        threads_max: of a block, by __launch_bounds__; 0 if the kernel has none.
        parameter_bytes: size of its argument structure.
        code_bytes: its instructions.
    """

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    threads_max: int
    parameter_bytes: int
    code_bytes: int


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int


class _Symbol(NamedTuple):
    name: str
    info: int
    size: int
    section: int


class _Elf:
    """The sections and symbols of an ELF file of 64 bits, little end first."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != _EM_CUDA:
            raise CubinError("This is not a compiled CUDA module.")
        (offset,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        raw = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        self.sections = [_Section(self._text(raw[names][4] + s[0]), s[1], s[4], s[5]) for s in raw]
        self.symbols: list[_Symbol] = []
        for fields in raw:
            if fields[1] == 2:  # SHT_SYMTAB
                self.symbols = list(self._symbols(fields[4], fields[5], raw[fields[6]][4]))

    def _text(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode()

    def _symbols(self, offset: int, size: int, names: int) -> Iterator[_Symbol]:
        for at in range(offset, offset + size, 24):
            name, info, _, section, _, length = struct.unpack_from("<IBBHQQ", self.data, at)
            yield _Symbol(self._text(names + name), info, length, section)

    def section(self, name: str) -> bytes:
        """Contents of a section, empty if there is none."""
        found = next((s for s in self.sections if s.name == name), None)
        return b"" if found is None else self.data[found.offset : found.offset + found.size]

    def section_bytes(self, name: str) -> int:
        """Size of a section, 0 if there is none; those of shared memory have no contents in the file."""
        return next((s.size for s in self.sections if s.name == name), 0)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields code and value of each attribute of a .nv.info section."""
    at = 0
    while at + 4 <= len(data):
        form, code, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form in _INLINE_VALUES:
            yield code, struct.pack("<H", value)
        elif form == _SIZED_VALUE:
            yield code, data[at : at + value]
            at += value
        else:
            raise CubinError(f"Unknown form {form} of an attribute in .nv.info.")


def entry_points(cubin: bytes) -> list[str]:
    """Names of the kernels of a compiled module, sorted.

    Raises:
        CubinError: the bytes are not a compiled module.
    """
    return sorted(_kernels(_read_elf(cubin)))


def kernel_facts(cubin: bytes) -> list[KernelFacts]:
    """What each kernel of a compiled module needs, sorted by name.

    Raises:
        CubinError: the bytes are not a compiled module.
    """
    elf = _read_elf(cubin)
    kernels = _kernels(elf)
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    for code, value in _attributes(elf.section(".nv.info")):
        if code in (_REGISTERS, _FRAME_BYTES):
            symbol, number = struct.unpack("<II", value)
            (registers if code == _REGISTERS else frames)[elf.symbols[symbol].name] = number
    return [_facts(elf, name, kernels[name], registers, frames) for name in sorted(kernels)]


def _read_elf(cubin: bytes) -> _Elf:
    try:
        return _Elf(cubin)
    except (struct.error, IndexError, ValueError) as error:
        raise CubinError("A compiled CUDA module is damaged.") from error


def _kernels(elf: _Elf) -> dict[str, int]:
    """Name to bytes of code of each kernel."""
    return {
        symbol.name: symbol.size
        for symbol in elf.symbols
        if symbol.info == _GLOBAL << 4 | _FUNCTION and symbol.section != 0
    }


def _facts(
    elf: _Elf, name: str, code_bytes: int, registers: dict[str, int], frames: dict[str, int]
) -> KernelFacts:
    own = dict(_attributes(elf.section(f".nv.info.{name}")))
    threads = struct.unpack("<III", own[_MAX_THREADS])[0] if _MAX_THREADS in own else 0
    shared = elf.section_bytes(f".nv.shared.{name}")
    if shared and any(section.name == _RESERVED_SHARED for section in elf.sections):
        shared -= _RESERVED_SHARED_BYTES  # the system's part of each block, which sm_90 and later count in
    return KernelFacts(
        name=name,
        registers=registers[name],
        stack_bytes=frames.get(name, 0),
        shared_bytes=shared,
        threads_max=threads,
        parameter_bytes=struct.unpack("<H", own[_PARAMETER_BYTES])[0],
        code_bytes=code_bytes,
    )
