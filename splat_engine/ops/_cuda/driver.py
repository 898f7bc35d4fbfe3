"""The few functions of NVIDIA's driver that a launch takes, through ctypes: nothing needs to be installed beside the driver.

torch is linked with the driver's runtime, not with these functions; but the contexts they see are the same (the primary
context of each card), and so are streams and addresses. Source: NVIDIA, CUDA Driver API.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p

from splat_engine.formats.errors import OutOfMemory, UserError
from splat_engine.ops._cuda.compile import DRIVER_OF_CUDA

LEAST_CUDA = 12000
"""CUDA version of the oldest driver that loads our cubins and the torch that we need."""
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

_FUNCTIONS: dict[str, list[type]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxGetCurrent": [POINTER(c_void_p)],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuFuncSetAttribute": [c_void_p, c_int, c_int],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p],
}
"""Name to types of arguments; each returns a CUresult, 0 for success."""

_REPORT = "Please report this, with the last lines of the log."
_LOST = (
    "It may be an earlier kernel that failed; nothing more can be done on the card in this process. Start anew from the "
    "run's last checkpoint. " + _REPORT + " CUDA_LAUNCH_BLOCKING=1 in the environment names the kernel."
)
_HINTS = {
    "CUDA_ERROR_OUT_OF_MEMORY": "Close what else uses the card, or fit with fewer splats or smaller views.",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "The compiled kernels are not for this card. " + _REPORT,
    "CUDA_ERROR_INVALID_IMAGE": "Install splat-engine anew, or update NVIDIA's driver.",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "Update NVIDIA's driver.",
    "CUDA_ERROR_NO_DEVICE": "Check that `nvidia-smi` lists the card, and CUDA_VISIBLE_DEVICES. Or use the device cpu.",
    "CUDA_ERROR_INVALID_DEVICE": "Choose a card that `splat-engine doctor` lists, or the device cpu.",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "The driver was updated: restart the computer.",
    "CUDA_ERROR_DEVICES_UNAVAILABLE": "Another program has the card to itself: close it, or use the device cpu.",
    "CUDA_ERROR_LAUNCH_TIMEOUT": "The system stopped a kernel that took seconds while the card also draws the screen. "
    "Use smaller views. " + _REPORT,
    "CUDA_ERROR_ILLEGAL_ADDRESS": _LOST,
    "CUDA_ERROR_MISALIGNED_ADDRESS": _LOST,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": _LOST,
    "CUDA_ERROR_LAUNCH_FAILED": _LOST,
    "CUDA_ERROR_ECC_UNCORRECTABLE": "The card's memory has a fault: restart the computer, and have the card checked.",
}


class Driver:
    """NVIDIA's driver, initialised.

    Args:
        library: the loaded library.

    Attributes:
        library: its functions, with the types of their arguments.
        cuda: the CUDA version that it is for, such as 12080.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        version = c_int()
        self.check(library.cuDriverGetVersion(byref(version)), "asking the driver's version")
        self.cuda = version.value
        if self.cuda < LEAST_CUDA:
            raise UserError(
                f"NVIDIA's driver is too old: it is for CUDA {self.cuda // 1000}.{self.cuda % 1000 // 10}.",
                f"Update it to {DRIVER_OF_CUDA[LEAST_CUDA // 1000]} or newer (570 for RTX 50), or use the device cpu.",
            )
        self.check(library.cuInit(0), "starting NVIDIA's driver")

    def check(self, code: int, doing: str) -> None:
        """Raise UserError, or OutOfMemory, unless a function of the driver succeeded.

        Args:
            code: what it returned.
            doing: what it was called for, such as "launching adam_step_f32".
        """
        if code != 0:
            name = self._text(self.library.cuGetErrorName, code) or f"CUDA error {code}"
            words = self._text(self.library.cuGetErrorString, code)
            kind = OutOfMemory if name == "CUDA_ERROR_OUT_OF_MEMORY" else UserError
            raise kind(
                f"The card failed while {doing}: {words or 'no explanation'} ({name}).",
                _HINTS.get(name, _REPORT),
                name,
            )

    @staticmethod
    def _text(function: object, code: int) -> str:
        text = c_char_p()
        function(code, byref(text))  # type: ignore[operator]
        return text.value.decode() if text.value else ""

    def device_count(self) -> int:
        """Number of cards, with CUDA_VISIBLE_DEVICES heeded as torch does."""
        count = c_int()
        self.check(self.library.cuDeviceGetCount(byref(count)), "counting the cards")
        return count.value

    def device(self, index: int) -> int:
        """The driver's handle of a card."""
        handle = c_int()
        self.check(self.library.cuDeviceGet(byref(handle), index), f"looking for the card cuda:{index}")
        return handle.value

    def device_name(self, device: int) -> str:
        """What NVIDIA calls a card."""
        name = ctypes.create_string_buffer(256)
        self.check(self.library.cuDeviceGetName(name, 256, device), "asking the card's name")
        return name.value.decode(errors="replace")

    def capability(self, device: int) -> tuple[int, int]:
        """Compute capability of a card."""
        values = [c_int(), c_int()]
        for attribute, value in zip((_MAJOR, _MINOR), values, strict=True):
            code = self.library.cuDeviceGetAttribute(byref(value), attribute, device)
            self.check(code, "asking the card's compute capability")
        return values[0].value, values[1].value

    def primary_context(self, device: int) -> int:
        """The context of a card that torch uses, too; kept until the process ends."""
        context = c_void_p()
        code = self.library.cuDevicePrimaryCtxRetain(byref(context), device)
        self.check(code, "opening the card")
        return context.value or 0

    def load(self, cubin: bytes, doing: str) -> int:
        """A module of kernels, in the current context."""
        module = c_void_p()
        self.check(self.library.cuModuleLoadData(byref(module), cubin), doing)
        return module.value or 0

    def function(self, module: int, entry: str) -> int:
        """A kernel of a module."""
        function = c_void_p()
        code = self.library.cuModuleGetFunction(byref(function), module, entry.encode())
        self.check(code, f"looking for the kernel {entry}")
        return function.value or 0

    def allow_shared(self, function: int, shared_bytes: int, entry: str) -> None:
        """Lets a kernel have more dynamic shared memory than the 48 KiB that all cards give unasked."""
        code = self.library.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared_bytes)
        self.check(code, f"asking for {shared_bytes} bytes of shared memory for {entry}")


_lock = threading.Lock()
_loaded: Driver | None = None


def load_driver() -> Driver:
    """NVIDIA's driver, loaded once.

    Raises:
        UserError: there is none, it is too old, or it finds no card.
    """
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Driver(_open())
    return _loaded


def _open() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise UserError(
            "NVIDIA's driver is not installed, so there is no card to compute on.",
            f"Install the driver {DRIVER_OF_CUDA[LEAST_CUDA // 1000]} or newer (570 for RTX 50), or use the device cpu.",
            error,
        ) from error
