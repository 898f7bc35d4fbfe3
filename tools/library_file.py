"""Reads what a shared library says of itself: platform, exports, what it needs; ELF, PE and Mach-O, 64 bits.

This is how a library is checked that cannot be loaded here. Standard library only, and nothing of the file is run.

Source: the System V ABI (ELF), Microsoft's PE format, and mach-o/loader.h and cs_blobs.h of Apple's open source.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass


class LibraryFileError(Exception):
    """The bytes are not a shared library that this module can read; the text says why."""


@dataclass(frozen=True)
class LibraryFacts:
    """What a library's headers and tables say.

    Attributes:
        system: as in sys.platform: "linux", "win32" or "darwin".
        machine: "x86_64" or "aarch64".
        exports: names of what it exports, as C code spells them.
        needs: names of the libraries it is linked against.
        least_system: the newest glibc that it asks for (0, 0 if none), the oldest Windows or macOS that it runs on.
        own_name: the name it goes by (soname, export directory, install name), "" if it has none.
        signed: macOS alone: it has a code signature, and the hashes of all pages are right.
    """

    system: str
    machine: str
    exports: frozenset[str]
    needs: frozenset[str]
    least_system: tuple[int, int]
    own_name: str
    signed: bool = False

    def __str__(self) -> str:
        system = {"linux": "glibc", "win32": "Windows", "darwin": "macOS"}[self.system]
        least = ".".join(str(part) for part in self.least_system)
        if any(name.startswith("api-ms-win-crt-") for name in self.needs):
            least = "10"  # the first that has this C runtime, whatever the header says
        signed = ", signed" if self.signed else ""
        return f"{self.machine}, {len(self.exports)} exports, {system} {least} or newer{signed}"


def read_library(data: bytes) -> LibraryFacts:
    """Read a shared library.

    Args:
        data: the whole file.

    Raises:
        LibraryFileError: it is no library, a damaged one, or one of another kind than the three.
    """
    readers: dict[bytes, Callable[[bytes], LibraryFacts]] = {
        b"\x7fELF": _read_elf,
        b"MZ": _read_pe,
        struct.pack("<I", 0xFEEDFACF): _read_macho,
    }
    for magic, reader in readers.items():
        if data.startswith(magic):
            try:
                return reader(data)
            except (struct.error, IndexError, KeyError, ValueError, StopIteration) as cause:
                raise LibraryFileError(
                    f"a damaged or unknown {reader.__name__[6:]} file: {cause!r}"
                ) from cause
    raise LibraryFileError(f"neither ELF, PE nor 64-bit Mach-O: it begins with {data[:4]!r}")


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _read_elf(data: bytes) -> LibraryFacts:
    if data[4:6] != b"\x02\x01":
        raise LibraryFileError("an ELF file, but not of 64 bits and little-endian")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 3:
        raise LibraryFileError(f"an ELF file of type {kind}, not a shared library")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    # type, offset, size, link of each section
    sections = [struct.unpack_from("<4xI16xQQI", data, table + index * size) for index in range(count)]
    by_type = {section[0]: section for section in sections}

    def strings(section: tuple[int, ...]) -> int:
        return int(sections[section[3]][1])

    symbols = by_type[11]  # SHT_DYNSYM
    exports = set()
    for offset in range(symbols[1], symbols[1] + symbols[2], 24):
        name, info, _, home = struct.unpack_from("<IBBH", data, offset)
        if home != 0 and info >> 4 in (1, 2):  # defined here; global or weak
            exports.add(_text(data, strings(symbols) + name))
    dynamic = by_type[6]
    entries = [
        struct.unpack_from("<QQ", data, offset) for offset in range(dynamic[1], dynamic[1] + dynamic[2], 16)
    ]
    names = [(tag, _text(data, strings(dynamic) + value)) for tag, value in entries if tag in (1, 14)]
    return LibraryFacts(
        "linux",
        {62: "x86_64", 183: "aarch64"}[machine],
        frozenset(exports),
        frozenset(name for tag, name in names if tag == 1),
        _newest_glibc(data, by_type.get(0x6FFFFFFE), strings),
        next((name for tag, name in names if tag == 14), ""),
    )


def _newest_glibc(
    data: bytes, section: tuple[int, ...] | None, strings: Callable[[tuple[int, ...]], int]
) -> tuple[int, int]:
    """The newest of the versions GLIBC_x.y in the section SHT_GNU_verneed."""
    newest = (0, 0)
    offset = section[1] if section else 0
    while section:
        _, count, _, auxiliary, following = struct.unpack_from("<HHIII", data, offset)
        place = offset + auxiliary
        for _ in range(count):
            name, step = struct.unpack_from("<8xII", data, place)
            found = re.match(r"GLIBC_(\d+)\.(\d+)", _text(data, strings(section) + name))
            if found:
                newest = max(newest, (int(found[1]), int(found[2])))
            place += step
        if not following:
            break
        offset += following
    return newest


def _read_pe(data: bytes) -> LibraryFacts:
    (head,) = struct.unpack_from("<I", data, 0x3C)
    if data[head : head + 4] != b"PE\0\0":
        raise LibraryFileError("a DOS program, not a Windows library")
    machine, count, options_size, characteristics = struct.unpack_from("<HH12xHH", data, head + 4)
    options = head + 24
    if not characteristics & 0x2000 or struct.unpack_from("<H", data, options)[0] != 0x20B:
        raise LibraryFileError("a PE file, but not a library of 64 bits")
    sections = [
        struct.unpack_from("<8xIIII", data, options + options_size + 40 * index) for index in range(count)
    ]

    def place(address: int) -> int:
        """File offset of a relative virtual address."""
        for size, start, stored, offset in sections:
            if start <= address < start + max(size, stored):
                return int(address - start + offset)
        raise ValueError(f"address {address:#x} is in no section")

    export_table, _, import_table, _ = struct.unpack_from("<4I", data, options + 112)
    exports, own_name = set(), ""
    if export_table:
        own, names_count, names = struct.unpack_from("<12xI8xI4xI", data, place(export_table))
        own_name = _text(data, place(own))
        pointers = struct.unpack_from(f"<{names_count}I", data, place(names))
        exports = {_text(data, place(pointer)) for pointer in pointers}
    return LibraryFacts(
        "win32",
        {0x8664: "x86_64", 0xAA64: "aarch64"}[machine],
        frozenset(exports),
        frozenset(_imported(data, import_table, place)),
        struct.unpack_from("<HH", data, options + 48),
        own_name,
    )


def _imported(data: bytes, table: int, place: Callable[[int], int]) -> Iterator[str]:
    while table:
        (name,) = struct.unpack_from("<12xI", data, place(table))
        if not name:
            return
        yield _text(data, place(name))
        table += 20


def _read_macho(data: bytes) -> LibraryFacts:
    machine, _, kind, count = struct.unpack_from("<IIII", data, 4)
    if kind != 6:
        raise LibraryFileError(f"a Mach-O file of type {kind}, not a dynamic library")
    exports: set[str] = set()
    needs, own_name, least, signed = set(), "", (0, 0), False
    offset = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, offset)
        first, second = struct.unpack_from("<II", data, offset + 8)
        if command in (0xC, 0x80000018, 0x8000001F):  # LC_LOAD_DYLIB, weak, re-exported
            needs.add(_text(data, offset + first))
        elif command == 0xD:  # LC_ID_DYLIB
            own_name = _text(data, offset + first)
        elif command == 0x32:  # LC_BUILD_VERSION
            least = (second >> 16, second >> 8 & 0xFF)
        elif command == 0x80000022:  # LC_DYLD_INFO_ONLY
            exports |= set(_trie(data, *struct.unpack_from("<II", data, offset + 40)))
        elif command == 0x80000033:  # LC_DYLD_EXPORTS_TRIE
            exports |= set(_trie(data, first, second))
        elif command == 0x1D:  # LC_CODE_SIGNATURE
            signed = _signature_holds(data, first)
        offset += size
    return LibraryFacts(
        "darwin",
        {0x01000007: "x86_64", 0x0100000C: "aarch64"}[machine],
        frozenset(name.removeprefix("_") for name in exports),
        frozenset(needs),
        least,
        own_name,
        signed,
    )


def _uleb(data: bytes, offset: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the offset behind it."""
    value = shift = 0
    while True:
        value |= (data[offset] & 0x7F) << shift
        shift += 7
        offset += 1
        if not data[offset - 1] & 0x80:
            return value, offset


def _trie(data: bytes, start: int, size: int) -> Iterator[str]:
    """The names in an export trie: a node with contents is the end of a name."""
    trie = data[start : start + size]
    open_nodes, seen = ([(0, "")] if trie else []), set()
    while open_nodes:
        offset, prefix = open_nodes.pop()
        if offset in seen:
            raise ValueError("the export trie has a loop")
        seen.add(offset)
        length, offset = _uleb(trie, offset)
        if length:
            yield prefix
        offset += length
        branches = trie[offset]
        offset += 1
        for _ in range(branches):
            label = _text(trie, offset)
            child, offset = _uleb(trie, offset + len(label) + 1)
            open_nodes.append((child, prefix + label))


def _signature_holds(data: bytes, start: int) -> bool:
    """Tells whether the code directory's SHA-256 of each page is that of the file: macOS kills a process otherwise."""
    magic, _, count = struct.unpack_from(">III", data, start)
    blobs = [struct.unpack_from(">II", data, start + 12 + 8 * index) for index in range(count)]
    directory = next(start + offset for slot, offset in blobs if slot == 0)
    kind, hashes, pages, limit = struct.unpack_from(">I12xI8xII", data, directory)
    hash_size, hash_type, page_bits = struct.unpack_from("BBxB", data, directory + 36)
    if (magic, kind, hash_size, hash_type) != (0xFADE0CC0, 0xFADE0C02, 32, 2):
        raise ValueError("a code signature of an unknown form")
    page = 1 << page_bits
    right = all(
        hashlib.sha256(data[index * page : min((index + 1) * page, limit)]).digest()
        == data[directory + hashes + 32 * index :][:32]
        for index in range(pages)
    )
    return right and pages == -(-limit // page) and limit <= start
