"""Every kernel compiles for every architecture, and needs no more of a card than csrc/cuda/resources.json allows.

NVRTC makes these files without a card or a driver. What it made is kept in build/kernels, by source and compiler.
"""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import compile as compiler
from splat_engine.ops._cuda.cubin import CubinError, entry_points, kernel_facts
from splat_engine.ops._cuda.prebuilt import ARCHITECTURES
from splat_engine.ops._cuda.source import module_names
from splat_engine.ops._cuda.structs import structure
from tools.cuda_resources import Record, faults, ptxas_words, records_of, table

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cache() -> Any:
    """Compiled kernels of this run and of earlier ones."""
    try:
        compiler.compiler_version()
    except UserError as error:
        pytest.skip(f"{error.headline} (there is none for macOS)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiler.CACHE_VARIABLE, str(ROOT / "build" / "kernels"))
        return compiler.open_cache()


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """What the kernels need, as the tests find it."""
    return []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_compiles_and_fits(
    architecture: str, cache: Any, records: list[Record], record_property: Any
) -> None:
    """Both scalar types of each; registers, stack and shared memory within bounds; the arguments of the size Python gives."""
    start, of_this = time.process_time(), []
    for module in module_names():
        cubin = compiler.compile_module(module, architecture, cache)
        assert entry_points(cubin), f"{module} has no kernel"
        of_this += records_of(architecture, module, kernel_facts(cubin))
    records += of_this
    record_property("compile_seconds", round(time.process_time() - start, 2))
    names = {record.name for record in of_this}
    assert len(names) == len(of_this), "two modules have a kernel of one name"
    assert {name[:-4] + other for name in names for other in ("_f32", "_f64")} == names
    for record in of_this:
        kernel, _, scalar = record.name.rpartition("_")
        assert record.parameter_bytes == ctypes.sizeof(structure(kernel, scalar)), record.name
    assert not faults(of_this)


def test_every_architecture_has_every_kernel(
    records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the tests before found, as a table that is printed: registers, "s" and bytes of stack."""
    if {record.architecture for record in records} != set(ARCHITECTURES):
        pytest.skip("the tests of some architectures did not run")
    with capsys.disabled():
        print("\nNVRTC {}.{}".format(*compiler.compiler_version()), table(records), sep="\n")
    kernels = {record.name for record in records}
    assert len(kernels) * len(ARCHITECTURES) == len(records)


KERNELS = r"""
struct Args { float* out; int count; };
extern "C" __global__ void __launch_bounds__(1024) spills_f32(const __grid_constant__ Args args) {
    float values[96];
    for (int i = 0; i < 96; ++i) values[i] = args.out[i * args.count + threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 96; ++i)
        for (int j = 0; j < 96; ++j) sum = sum * values[i] + values[j];
    for (int i = 0; i < 96; ++i) args.out[i] = values[i] * sum;
}
extern "C" __global__ void __launch_bounds__(128) shares_f64(const __grid_constant__ Args args) {
    __shared__ double values[1000];
    values[threadIdx.x] = args.out[threadIdx.x];
    __syncthreads();
    args.out[threadIdx.x] = float(values[127 - threadIdx.x]);
}
extern "C" __global__ void unbounded_f32(const __grid_constant__ Args args) { args.out[threadIdx.x] = 1; }
"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_reader_says_what_ptxas_says(
    architecture: str, cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registers, stack, shared memory, launch bounds and arguments of kernels that are made to have them; and the bounds see it."""
    monkeypatch.setattr(compiler, "module_text", lambda module: KERNELS)
    log = io.StringIO()
    cubin = compiler.compile_module("kernels", architecture, log=log)
    facts = {fact.name: fact for fact in kernel_facts(cubin)}
    words = ptxas_words(log.getvalue())
    assert facts.keys() == words.keys() == {"spills_f32", "shares_f64", "unbounded_f32"}
    for name, fact in facts.items():
        said = (words[name].registers, words[name].stack_bytes, words[name].shared_bytes)
        assert said == (fact.registers, fact.stack_bytes, fact.shared_bytes), name
        assert fact.parameter_bytes == 16 and fact.code_bytes > 0
    assert [facts[name].threads_max for name in sorted(facts)] == [128, 1024, 0]
    assert facts["shares_f64"].shared_bytes == 8000 and facts["spills_f32"].stack_bytes > 0
    found = faults(records_of(architecture, "kernels", facts.values(), log.getvalue()))
    assert any("spills_f32" in fault and "spill_bytes" in fault for fault in found)
    assert any("unbounded_f32" in fault and "__launch_bounds__" in fault for fault in found)
    assert not any("shares_f64" in fault for fault in found)


RECORD = Record("sm_86", "a", "a_f32", 64, 0, 0, 1024, 256, 80, 1000)
BOUNDS = {
    "f32": {"registers": 64, "stack_bytes": 0},
    "f64": {"registers": 255},
    "kernels": {"b_f32": {"registers": 72}},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"registers": 65}, ["registers 65, at most 64"]),
        ({"registers": 72, "name": "b_f32"}, []),
        ({"registers": 72, "name": "b_c3_f32"}, []),
        ({"registers": 73, "name": "b_c3_f32"}, ["registers 73, at most 72"]),
        ({"registers": 73, "name": "b_f32"}, ["registers 73, at most 72"]),
        ({"registers": 72, "name": "c_f64", "threads_max": 1024}, ["registers of a block 73728, at most 65536"]),
        ({"registers": 65, "name": "c_f64", "threads_max": 1024}, ["registers of a block 73728, at most 65536"]),
        ({"registers": 64, "name": "c_f64", "threads_max": 1024}, []),
        ({"shared_bytes": 49153}, ["shared_bytes 49153, at most 49152"]),
        ({"stack_bytes": 8}, ["stack_bytes 8, at most 0"]),
        ({"parameter_bytes": 4097}, ["parameter_bytes 4097, at most 4096"]),
        ({"threads_max": 0}, ["no __launch_bounds__"]),
    ],
)  # fmt: skip
def test_the_bounds_themselves(change: dict[str, Any], words: list[str]) -> None:
    """Each limit, just kept and just broken."""
    found = faults([replace(RECORD, **change)], BOUNDS)
    assert len(found) == len(words) and all(word in fault for word, fault in zip(words, found, strict=True))


def test_what_does_not_compile_is_said_with_file_and_line(
    cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The headline has the first error, the cause the whole log."""
    monkeypatch.setattr(
        compiler,
        "module_text",
        lambda module: '#line 7 "cuda/a.cu"\n__device__ int x = y;\n__device__ int z = w;\n',
    )
    with pytest.raises(UserError) as caught:
        compiler.compile_module("a", "sm_86", cache)
    assert 'cuda/a.cu(7): error: identifier "y" is undefined' in caught.value.headline
    assert "cuda/a.cu(8)" in str(caught.value.cause)


def test_an_architecture_that_the_compiler_does_not_know_is_said(cache: Any) -> None:
    """With those that it does."""
    with pytest.raises(UserError, match=r"does not know sm_60: it compiles for .*sm_86") as caught:
        compiler.check_compiler("sm_60", 13000)
    assert "newer NVRTC" in caught.value.hint


@pytest.mark.parametrize("part", range(8))
def test_a_damaged_module_is_refused(part: int, cache: Any) -> None:
    """Cut anywhere, it is an error in words, or the symbols are whole and found."""
    cubin = compiler.compile_module("adam", "sm_86", cache)
    cut = cubin[: len(cubin) * part // 8]
    with pytest.raises(CubinError):
        entry_points(cut)


def test_a_text_file_is_no_module() -> None:
    """Not even one that begins as an ELF file does."""
    for data in (b"", b"hello", b"\x7fELF\x02\x01" + b"\0" * 100):
        with pytest.raises(CubinError):
            kernel_facts(data)


COMPILE = """
import sys
from splat_engine.ops._cuda import compile as compiler
cache = compiler.open_cache()
sys.stdin.readline()
cubins = [compiler.compile_module("adam", f"sm_{arch}", cache) for arch in (75, 80, 86, 89, 90)]
import hashlib
print(hashlib.sha256(b"".join(cubins)).hexdigest())
"""


def test_two_processes_may_compile_at_once(tmp_path: Path, cache: Any) -> None:
    """Into one empty folder, begun at the same moment: both get the same kernels, and leave them there whole."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), compiler.CACHE_VARIABLE: str(tmp_path / "kernels")}
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen([sys.executable, "-c", COMPILE], env=environment, text=True, stdin=pipe, stdout=pipe)
        for _ in range(2)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    answers = [child.communicate()[0].strip() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert answers[0] == answers[1] and len(answers[0]) == 64
    kept = [path for path in (tmp_path / "kernels" / "entries").rglob("*") if path.is_file()]
    assert len(kept) == 5 and all(entry_points(path.read_bytes()) for path in kept)


def test_what_is_kept_is_found_and_follows_the_sources(
    tmp_path: Path, cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time the compiler is not called, after a change of the sources it is."""
    monkeypatch.setenv(compiler.CACHE_VARIABLE, str(tmp_path))
    own, entries = compiler.open_cache(), tmp_path / "entries"
    first = compiler.compile_module("adam", "sm_86", own)
    (kept,) = [path for path in entries.rglob("*") if path.is_file()]
    before = kept.stat().st_mtime_ns
    assert compiler.compile_module("adam", "sm_86", own) == first and kept.stat().st_mtime_ns == before
    text = compiler.module_text("adam")
    monkeypatch.setattr(compiler, "module_text", lambda module: text.replace("adam_step", "other_step"))
    assert entry_points(compiler.compile_module("adam", "sm_86", own)) == ["other_step_f32", "other_step_f64"]
    assert len([path for path in entries.rglob("*") if path.is_file()]) == 2


def test_a_folder_that_cannot_be_used_costs_only_time(
    tmp_path: Path, cache: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning that names it; kernels are compiled all the same."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(compiler.CACHE_VARIABLE, str(tmp_path / "file"))
    assert compiler.open_cache() is None
    assert str(tmp_path / "file") in caplog.text


def test_the_folder_of_kernels_is_where_the_platform_wants_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Our variable first, then XDG_CACHE_HOME or LOCALAPPDATA, then the home's usual folder."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name in (compiler.CACHE_VARIABLE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert compiler.cache_folder() == tmp_path / ".cache" / "splatfit" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", "/a")
    assert compiler.cache_folder() == Path("/a/splatfit/kernels")
    monkeypatch.setattr(sys, "platform", "win32")
    assert compiler.cache_folder() == tmp_path / "AppData" / "Local" / "splatfit" / "kernels"
    monkeypatch.setenv(compiler.CACHE_VARIABLE, "/b")
    assert compiler.cache_folder() == Path("/b")
