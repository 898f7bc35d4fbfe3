"""Launching on a card, as far as a stand-in for NVIDIA's driver can tell: what the driver is given, and how its errors are told.

The stand-in (fake_driver/) records the calls and computes nothing; the kernels are compiled by NVRTC for the cards that it
pretends to have.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Iterator

import pytest

from splat_engine.formats.errors import UserError
from splat_engine.ops._cuda import compile as compiler
from splat_engine.ops._cuda.driver import Driver
from splat_engine.ops._cuda.kernels import find_kernels
from splat_engine.ops._cuda.report import describe_cuda
from splat_engine.ops._cuda.structs import structure
from tests.cuda.fake_driver.fake_driver import FakeDriver


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeDriver]:
    """The stand-in and its child, which finds all kernels compiled: cuda.core asks more of a driver when it compiles."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("the stand-in for NVIDIA's driver is built by g++ on Linux")
    try:
        compiler.compiler_version()
    except UserError as error:
        pytest.skip(f"the kernels cannot be compiled here: {error.headline}")
    folder = tmp_path_factory.mktemp("fake_driver")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(compiler.CACHE_VARIABLE, str(folder / "cache"))
        for capability in (75, 86, 89, 90, 120):
            find_kernels(divmod(capability, 10), 1000 * compiler.compiler_version()[0])
        driver = FakeDriver(folder)
    yield driver
    driver.close()


STRUCTURE = structure("adam_step", "f32")


def test_a_launch_hands_over_all(fake: FakeDriver) -> None:
    """Kernel, grid, block, shared memory, torch's stream and exactly the structure's bytes."""
    done = fake.run("adam('cuda:0', shared_bytes=1024)", CARDS="86", PARAMETER_BYTES=ctypes.sizeof(STRUCTURE))
    ((context, _, function, name),) = done.named("function")
    ((*numbers, parameters),) = done.named("launch")
    assert name == "adam_step_f32"
    assert [int(number) for number in numbers] == [
        int(context), int(function), 3, 2, 1, 256, 1, 1, 1024, 0x5000
    ]  # fmt: skip
    expected = STRUCTURE(rows=7, row_size=3, rate1=0.5, eps=1e-15, gradient=0x1234567890, parameter=0xABC)
    assert parameters == bytes(expected).hex() and len(bytes(expected)) > 64


def test_a_kernel_is_loaded_once_and_in_its_own_card(fake: FakeDriver) -> None:
    """Two cards of different kind: each its context, its module and its stream; a second launch loads nothing."""
    done = fake.run("for _ in range(2): adam('cuda:1'); adam('cuda:0'); adam('cuda')", CARDS="75 120")
    loads, launches = done.named("load"), done.named("launch")
    assert [context for context, _, _ in loads] == [str(0xC0001), str(0xC0000)]
    assert len({image for _, _, image in loads}) == 2, "both cards got the same image"
    assert len(done.named("function")) == 2
    expected = [(str(0xC0000 + card), str(0x5000 + card)) for card in (1, 0, 0, 1, 0, 0)]
    assert [(words[0], words[9]) for words in launches] == expected


def test_the_image_is_the_one_for_the_card(fake: FakeDriver) -> None:
    """What is loaded is what ``find_kernels`` gives for the card's compute capability and the driver's version."""
    done = fake.run(
        """
from splat_engine.ops._cuda.kernels import find_kernels
adam('cuda:0')
image, value = find_kernels((8, 9), 13000).modules["adam"], 14695981039346656037
for byte in image[:4096]: value = (value ^ byte) * 1099511628211 % 2**64
print(value)
""",
        CARDS="89",
        IMAGE_BYTES=4096,
    )
    assert [image for _, _, image in done.named("load")] == [done.printed]


def test_the_context_of_before_comes_back(fake: FakeDriver) -> None:
    """The card's context is current in a launch alone: whatever the thread had, or had not, is there afterwards."""
    done = fake.run(
        """
import ctypes
from splat_engine.ops._cuda import driver
adam('cuda:0')
library, seen = driver.load_driver().library, ctypes.c_void_p()
library.cuCtxGetCurrent(ctypes.byref(seen))
print(seen.value)
library.cuCtxPushCurrent_v2(0xc0000)
adam('cuda:1'); adam('cuda:0')
library.cuCtxGetCurrent(ctypes.byref(seen))
print(hex(seen.value))
""",
        CARDS="86 86",
    )
    assert done.printed.split() == ["None", "0xc0000"]
    assert [words[0] for words in done.named("launch")] == [str(0xC0000), str(0xC0001), str(0xC0000)]


def test_many_threads_load_a_kernel_once(fake: FakeDriver) -> None:
    """Threads that have no context, as autograd's may not: all launch, and one of them loads."""
    done = fake.run(
        """
import threading
threads = [threading.Thread(target=adam, args=("cuda:0",)) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    assert len(done.named("launch")) == 16 and len(done.named("load")) == 1
    assert {words[0] for words in done.named("launch")} == {str(0xC0000)}


def test_an_empty_grid_needs_no_card(fake: FakeDriver) -> None:
    """Nothing is launched, loaded or even looked for."""
    assert fake.run("adam('cuda:0', grid=(0, 1))", CARDS="").calls == []


def test_more_shared_memory_is_asked_for(fake: FakeDriver) -> None:
    """Above 48 KiB, once for each new most."""
    done = fake.run("for kib in (48, 64, 60, 96): adam('cuda:0', shared_bytes=kib << 10)", CARDS="90")
    assert [int(shared) for _, shared in done.named("shared")] == [64 << 10, 96 << 10]
    assert [int(words[8]) >> 10 for words in done.named("launch")] == [48, 64, 60, 96]


@pytest.mark.parametrize(
    ("settings", "headline", "hint"),
    [
        ({"FAIL": "cuLaunchKernel 700"}, "launching adam_step_f32 on cuda:0, Fake 86", "last checkpoint"),
        ({"FAIL": "cuLaunchKernel 700"}, "an illegal memory access", "CUDA_LAUNCH_BLOCKING"),
        ({"FAIL": "cuModuleLoadData 209"}, "CUDA_ERROR_NO_BINARY_FOR_GPU", "not for this card"),
        ({"FAIL": "cuModuleLoadData 2"}, "out of memory (CUDA_ERROR_OUT_OF_MEMORY)", "fewer splats"),
        ({"FAIL": "cuLaunchKernel 1"}, "invalid argument (CUDA_ERROR_INVALID_VALUE)", "report"),
        ({"FAIL": "cuLaunchKernel 987654"}, "CUDA error 987654", "report"),
        ({"CARDS": ""}, "CUDA_ERROR_NO_DEVICE", "nvidia-smi"),
        ({"VERSION": "11080"}, "driver is too old: it is for CUDA 11.8", "Update it to 525"),
        ({"CARDS": "61"}, "compute capability, 6.1, is too low: 7.5", "device cpu"),
    ],
)  # fmt: skip
def test_failures_are_said(fake: FakeDriver, settings: dict[str, str], headline: str, hint: str) -> None:
    """What the driver returned, by name and in its words, where, and what to do."""
    error = fake.run("adam('cuda:0')", **settings).error
    assert error is not None
    assert headline in error["headline"] and hint in error["hint"]


def test_a_card_that_is_not_there_is_said(fake: FakeDriver) -> None:
    """With its number."""
    error = fake.run("adam('cuda:3')", CARDS="86 86").error
    assert error is not None
    assert "looking for the card cuda:3: invalid device ordinal" in error["headline"]


def test_a_kernel_that_is_not_there_is_said(fake: FakeDriver) -> None:
    """With where it was looked for."""
    error = fake.run(
        """
from splat_engine.ops._cuda import card, structs
structure = structs.structure('adam_step', 'f32')()
card.card_launcher(torch.device('cuda:0')).launch('no_such_f32', structure, grid=(1, 1), block=32, shared_bytes=0)
"""
    ).error
    assert error is not None
    assert "There is no CUDA kernel no_such_f32 in sm_86" in error["headline"]


def test_without_a_driver_that_is_said(fake: FakeDriver) -> None:
    """And which one is needed."""
    error = fake.run(
        """
from unittest import mock
with mock.patch("ctypes.CDLL", side_effect=OSError("no such file")):
    adam('cuda:0')
"""
    ).error
    assert error is not None
    assert "driver is not installed" in error["headline"] and "525" in error["hint"]
    assert error["cause"] == "no such file"


def test_a_compiler_too_new_for_the_driver_is_said(fake: FakeDriver) -> None:
    """A driver for CUDA 12 does not load what NVRTC 13 makes."""
    error = fake.run("adam('cuda:0')", VERSION=12040, CARDS="87").error
    version = compiler.compiler_version()
    if version[0] < 13:
        pytest.skip(f"NVRTC {version[0]}.{version[1]} suits every driver")
    assert error is not None
    assert "The NVIDIA driver, for CUDA 12.4, is too old for NVRTC 13" in error["headline"]
    assert "Update the driver to 580" in error["hint"] and "splat-engine[cuda12]" in error["hint"]


def test_the_doctor_tells_of_each_card(fake: FakeDriver) -> None:
    """Driver, name, compute capability, and where its kernels would come from, or what is missing for them."""
    done = fake.run(
        """
from splat_engine.ops._cuda.report import describe_cuda
for name, fact in describe_cuda("13.0").items(): print(f"{name}: {fact}")
""",
        CARDS="86 61",
        VERSION=13010,
    )
    assert done.error is None and done.calls == []
    told = dict(line.split(": ", 1) for line in done.printed.splitlines())
    assert told["CUDA of torch"] == "13.0" and told["NVIDIA driver"] == "for CUDA 13.1"
    assert told["cuda:0"].startswith("Fake 86, compute capability 8.6; kernels: sm_86")
    assert "kernels: none. The card's compute capability, 6.1, is too low" in told["cuda:1"]
    assert "NVRTC" in told["CUDA kernels"]


def test_the_doctor_goes_on_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says what would be needed."""

    def none() -> Driver:
        raise UserError("NVIDIA's driver is not installed.", "Install 525.")

    told = describe_cuda(None, none)
    assert told["NVIDIA driver"] == "none. NVIDIA's driver is not installed. Install 525."
    assert told["CUDA of torch"].startswith("none") and "CUDA kernels" in told
