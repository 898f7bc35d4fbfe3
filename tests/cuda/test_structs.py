"""The argument structures: what the kernels declare and what Python hands over have the same fields in the same order."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from splat_engine.native import structs as native_structs
from splat_engine.ops._cuda import structs
from splat_engine.ops._cuda.source import module_names, module_text

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ("include/op_args.h", "cuda/args.h", "cpu/abi.h")
KINDS = {"T": "scalar", "int32_t": "i32", "int64_t": "i64"}
STRUCTURE = re.compile(r"template <class T>\nstruct (\w+Args) \{\n(.*?)\n\};", re.DOTALL)
FIELD = re.compile(r"^(?:const )?(\w+)(?:<T>)?\s*(\**)\s*(\w+)$")
HOOK = "-DSPLAT_REGISTER_KERNEL(entry, ...)=REGISTERED entry __VA_ARGS__;"


def read_structures(text: str) -> dict[str, structs.Fields]:
    """Name to fields of every structure of a header."""
    return {name: [read_field(line) for line in body_lines(body)] for name, body in STRUCTURE.findall(text)}


def body_lines(body: str) -> list[str]:
    """The declarations of a structure's body."""
    code = re.sub(r"//[^\n]*", "", body)
    return [" ".join(part.split()) for part in code.split(";") if part.strip()]


def read_field(declaration: str) -> tuple[str, str]:
    """Name and kind of a declaration."""
    found = FIELD.match(declaration)
    assert found, f"a field that the test cannot read: {declaration}"
    kind, pointer, name = found.groups()
    return name, "ptr" if pointer else KINDS[kind]


@cache
def declared() -> dict[str, structs.Fields]:
    found: dict[str, structs.Fields] = {}
    for header in HEADERS:
        path = ROOT / "csrc" / header
        found |= read_structures(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


@cache
def registered(module: str) -> list[tuple[str, str, str]]:
    """Entry point, structure and scalar type of each kernel of a module, as the preprocessor gives them to the compiler."""
    done = subprocess.run(
        ["g++", "-E", "-P", "-x", "c++", "-D__CUDACC_RTC__", HOOK, "-"],
        input=module_text(module),
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"REGISTERED (\w+) splat::(\w+)<(float|double)>", done.stdout)


@pytest.mark.parametrize("module", module_names())
def test_kernels_get_what_they_declare(module: str) -> None:
    """Each entry point of each module: its structure's fields are those that ``launch`` fills, its type that of its name."""
    if shutil.which("g++") is None:
        pytest.skip("the kernels' macros are expanded by g++")
    kernels = registered(module)
    assert kernels
    for entry, name, scalar in kernels:
        kernel, _, suffix = entry.rpartition("_")
        assert (suffix, scalar) in {("f32", "float"), ("f64", "double")}, entry
        assert structs.fields_of(kernel) == declared()[name], f"{entry} and {name}"


@pytest.mark.parametrize("op", native_structs.OPS)
def test_the_cpu_gets_what_it_declares(op: str) -> None:
    """The same for each op of the C ABI."""
    name = "".join(word.capitalize() for word in op.split("_")) + "Args"
    assert native_structs.OPS[op] == declared()[name]


@pytest.mark.parametrize("kernel", structs.OWN)
def test_no_structure_is_left_over(kernel: str) -> None:
    """Every structure that Python makes up has its kernel."""
    if shutil.which("g++") is None:
        pytest.skip("the kernels' macros are expanded by g++")
    assert f"{kernel}_f32" in {entry for module in module_names() for entry, _, _ in registered(module)}


def test_the_reader_itself() -> None:
    """It sees pointers, kinds, order and comments, and refuses what it does not know."""
    text = (
        "template <class T>\nstruct AArgs {\n    int64_t count;  // N; or so\n    T eps;\n"
        "    const T* means;  // [N,3]\n    uint8_t* seen;\n};\n"
    )
    fields = [("count", "i64"), ("eps", "scalar"), ("means", "ptr"), ("seen", "ptr")]
    assert read_structures(text) == {"AArgs": fields}
    with pytest.raises(AssertionError, match="cannot read: T a, b"):
        read_structures("template <class T>\nstruct AArgs {\n    T a, b;\n};")
    with pytest.raises(KeyError):
        read_structures("template <class T>\nstruct AArgs {\n    short a;\n};")
