"""Reading what a shared library says of itself, on small ones that zig links here for each platform."""

from __future__ import annotations

import dataclasses
import importlib.util
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from splat_engine.native import build
from tools.library_file import LibraryFileError, read_library

needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="needs the Python package ziglang to link libraries"
)
pytestmark = needs_zig

# Nothing but one call into the system, so that linking takes a tenth of a second.
SOURCE = """
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
__declspec(dllimport) unsigned long GetCurrentProcessId(void);
int DllMainCRTStartup(void *module, unsigned reason, void *reserved) { return 1; }
EXPORT int splat_process(void) { return (int)GetCurrentProcessId(); }
#else
#define EXPORT __attribute__((visibility("default")))
int getpid(void);
EXPORT int splat_process(void) { return getpid(); }
#endif
EXPORT int splat_answer(void) { return 42; }
EXPORT int splat_answer_of_answers(void) { return 43; }
int splat_hidden(void) { return 1; }
"""
EXPORTS = {"splat_process", "splat_answer", "splat_answer_of_answers"}
# What each system's library needs, the oldest system it runs on, and the name it goes by.
EXPECTED = {
    "linux": ("libc.so.6", (2, 2), ""),
    "win32": ("KERNEL32.dll", (6, 0), "splat_cpu.dll"),
    "darwin": ("/usr/lib/libSystem.B.dylib", (11, 0), "@rpath/libsplat_cpu.dylib"),
}


def link(target: build.Target, folder: Path) -> bytes:
    """The bytes of a library for a platform."""
    source, library = folder / "small.c", build.library_file(folder, target)
    source.write_text(SOURCE)
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        target.zig,
        "-shared",
        "-nostdlib",
        "-Os",
        "-s",
    ]
    command += {
        "linux": ["-lc"],
        "win32": ["-lkernel32"],
        "darwin": [f"-Wl,-install_name,@rpath/{library.name}"],
    }[target.system]
    subprocess.run([*command, "-fvisibility=hidden", str(source), "-o", str(library)], check=True)
    return library.read_bytes()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small library for each platform."""
    return {name: link(target, tmp_path_factory.mktemp(name)) for name, target in build.TARGETS.items()}


@pytest.mark.parametrize("name", build.TARGETS)
def test_what_a_library_says_of_itself(libraries: dict[str, bytes], name: str) -> None:
    """System, machine, exports without the hidden function, what it needs, least system, its own name, signature."""
    target, facts = build.TARGETS[name], read_library(libraries[name])
    needs, least, own_name = EXPECTED[target.system]
    if name == "linux-arm64":
        least = (2, 17)  # glibc's first version for it
    assert (facts.system, facts.machine) == (target.system, target.machine)
    assert {export for export in facts.exports if export.startswith("splat")} == EXPORTS
    assert facts.needs == {needs}
    assert (facts.least_system, facts.own_name) == (least, own_name)
    assert facts.signed == (name == "macos-arm64")
    assert str(facts).startswith(f"{target.machine}, {len(facts.exports)} exports, ")


def test_a_changed_page_breaks_the_signature(libraries: dict[str, bytes]) -> None:
    """A signature that is there but does not fit the contents does not count, and nothing else changes."""
    whole = libraries["macos-arm64"]
    code = bytearray(whole)
    code[0x300] ^= 1  # in the space behind the load commands, which nothing reads but the signature
    facts, before = read_library(bytes(code)), read_library(whole)
    assert before.signed and not facts.signed
    assert dataclasses.replace(facts, signed=True) == before


@pytest.mark.parametrize("name", build.TARGETS)
def test_a_cut_file_is_no_crash(libraries: dict[str, bytes], name: str) -> None:
    """Cut anywhere in its headers, a library is refused in words; cut later, it is refused or read, without a crash."""
    data = libraries[name]
    with pytest.raises(LibraryFileError):
        read_library(data[:40])
    refused = 0
    for end in range(41, len(data), 97):
        try:
            read_library(data[:end])
        except LibraryFileError:
            refused += 1
    assert refused > 5


def test_another_kind_of_file_is_refused(libraries: dict[str, bytes]) -> None:
    """Text, nothing, a 32-bit library, a program, a DLL's bytes without its flag: each in words of its own."""
    elf = libraries["linux-x64"]
    program = elf[:16] + struct.pack("<H", 2) + elf[18:]
    narrow = elf[:4] + b"\x01" + elf[5:]
    strange = elf[:18] + struct.pack("<H", 40) + elf[20:]
    windows = bytearray(libraries["windows-x64"])
    (head,) = struct.unpack_from("<I", windows, 0x3C)
    windows[head + 23] &= ~0x20
    apple = libraries["macos-x64"]
    bundle = apple[:12] + struct.pack("<I", 8) + apple[16:]
    for data, words in (
        (b"#!/bin/sh", "neither ELF, PE nor"),
        (b"", "neither ELF, PE nor"),
        (program, "not a shared library"),
        (narrow, "not of 64 bits"),
        (strange, "unknown elf"),
        (bytes(windows), "not a library"),
        (bundle, "not a dynamic library"),
    ):
        with pytest.raises(LibraryFileError, match=words):
            read_library(data)
