"""Loading and calling the native library: what is refused, and in which words."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from splat_engine import native
from splat_engine.formats.errors import UserError
from splat_engine.native import build, library, structs
from splat_engine.native.rasterize import RasterContext

ROOT = Path(__file__).resolve().parents[2]


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_loads_nothing() -> None:
    """``import splat_engine.native`` works without a library and without torch; the first call says what is missing."""
    code = (
        "import sys; from splat_engine import native; assert 'torch' not in sys.modules\n"
        "from splat_engine.formats.errors import UserError\n"
        "try: native.isa()\n"
        "except UserError as error: print(error)"
    )
    result = run_python(code, SPLAT_LIBRARY="/nowhere/libsplat_cpu.so")
    assert result.returncode == 0, result.stderr
    assert "/nowhere/libsplat_cpu.so does not exist" in result.stdout
    assert "python -m splat_engine.native.build" in result.stdout


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    """A broken file is a UserError that names it."""
    broken = tmp_path / "libsplat_cpu.so"
    broken.write_text("not a library")
    with pytest.raises(UserError, match="libsplat_cpu.so cannot be loaded"):
        library.Library(broken)


def test_a_library_of_somebody_else() -> None:
    """A real library without our entry points is refused."""
    foreign = Path(ctypes.util.find_library("m") or "") if sys.platform == "win32" else None
    for candidate in Path("/usr/lib").glob("*/libm.so.6"):
        foreign = candidate
    if foreign is None:
        pytest.skip("no C mathematics library at its usual place")
    with pytest.raises(UserError, match="is not a splat engine library"):
        library.Library(foreign)


def test_another_abi_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both versions are named, and the remedy."""
    monkeypatch.setattr(structs, "ABI_VERSION", structs.ABI_VERSION + 1)
    with pytest.raises(UserError, match=f"has ABI version {structs.ABI_VERSION - 1}") as caught:
        library.Library(native.library_path())
    assert "splat_engine.native.build" in str(caught.value)


def test_another_structure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A structure that differs from the library's in size is found on loading, not by a crash."""
    changed = {**structs.OPS, "rasterize_fwd": [*structs.OPS["rasterize_fwd"], ("extra", "ptr")]}
    monkeypatch.setattr(structs, "OPS", changed)
    with pytest.raises(UserError, match="disagree about rasterize_fwd"):
        library.Library(native.library_path())


def test_a_library_older_than_its_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout, a library that was built from other sources is refused with the remedy."""
    if not build.source_root().is_dir():
        pytest.skip("not a checkout: there are no sources to compare with")
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(build, "build_id", lambda: "0123456789abcdef")
    with pytest.raises(UserError, match="built from other sources") as caught:
        library._check_sources(library.Library(native.library_path()))
    assert "splat_engine.native.build" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": -1, "width": 4, "height": 4, "channels": 3}, "splats, got -1"),
        ({"count": 1 << 40, "width": 4, "height": 4, "channels": 3}, "splats, got 1099511627776"),
        ({"width": 0, "height": 4, "channels": 3}, "got 0 x 4"),
        ({"width": 4, "height": 1 << 20, "channels": 3}, "got 4 x 1048576"),
        ({"width": 4, "height": 4, "channels": 0}, "1 to 8 channels, got 0"),
        ({"width": 4, "height": 4, "channels": 9}, "1 to 8 channels, got 9"),
        ({"width": 4, "height": 4, "channels": 3}, "image or alpha is null"),
    ],
)
def test_bad_arguments_are_words_not_crashes(fields: dict[str, int], message: str) -> None:
    """The C ABI checks sizes and pointers before it touches memory."""
    for scalar in structs.SCALARS:
        with pytest.raises(UserError, match=message):
            native.call("rasterize_fwd", scalar, **fields)


def test_a_backward_needs_the_context_of_its_forward() -> None:
    """No context, or one of other sizes or of the other type, is refused."""
    sizes = {"count": 0, "width": 4, "height": 4, "channels": 3}
    memory = (ctypes.c_double * 64)()
    address = ctypes.addressof(memory)
    arrays = {"image": address, "alpha": address, "v_image": address}
    with pytest.raises(UserError, match="context is null"):
        native.call("rasterize_bwd", "f32", **sizes, **arrays)
    context = RasterContext()
    native.call("rasterize_fwd", "f32", **sizes, image=address, alpha=address, context=context.slot_address)
    context.own()
    for scalar, change in (
        ("f64", {}),
        ("f32", {"width": 5}),
        ("f32", {"channels": 4}),
        ("f32", {"count": 1}),
    ):
        with pytest.raises(UserError, match="other sizes or types"):
            native.call("rasterize_bwd", scalar, **{**sizes, **change}, **arrays, context=context.handle)
    native.call("rasterize_bwd", "f32", **sizes, **arrays, context=context.handle)


def test_thread_count() -> None:
    """What is set is what is used; 0 is one for each core; nonsense is refused and changes nothing."""
    before = native.get_num_threads()
    try:
        native.set_num_threads(3)
        assert native.get_num_threads() == 3
        for wrong in (-1, 257):
            with pytest.raises(UserError, match=f"0 to 256 threads, got {wrong}"):
                native.set_num_threads(wrong)
        assert native.get_num_threads() == 3
        native.set_num_threads(0)
        assert native.get_num_threads() >= 1
    finally:
        native.set_num_threads(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_its_own_threads() -> None:
    """After fork the child renders too, although its parent's threads are not there."""
    code = (
        "import os, sys, numpy as np; sys.path.insert(0, 'tests/native')\n"
        "from splat_engine import native; from raster_run import run\n"
        "native.set_num_threads(2)\n"
        "first = run(np.float32, 3)\n"
        "child = os.fork()\n"
        "same = all(np.array_equal(first[k], v) for k, v in run(np.float32, 3).items())\n"
        "if child == 0: os._exit(0 if same else 7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (0 if same else 8))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
